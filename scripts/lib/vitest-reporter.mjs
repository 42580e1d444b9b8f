import { writeFileSync } from 'node:fs';

/**
 * Vitest reporter that writes the outcome of a run as JSON to the file in COVEY_TEST_RESULTS:
 * `{passed, failed, skipped: [{name, reason}], errors: [string]}`. The built-in JSON reporter leaves out why
 * a test was skipped. A file that cannot be loaded counts as one failed test.
 */
export default class OutcomeReporter {
  onTestRunEnd(testModules, unhandledErrors) {
    /** @type {{ passed: number, failed: number, skipped: { name: string, reason: string }[], errors: string[] }} */
    const outcome = {
      passed: 0,
      failed: 0,
      skipped: [],
      errors: unhandledErrors.map((error) => error.message),
    };
    for (const module of testModules) {
      const file = module.relativeModuleId ?? module.moduleId;
      if (module.errors().length > 0) outcome.failed += 1;
      for (const suite of module.children.allSuites()) outcome.failed += suite.errors().length > 0 ? 1 : 0;
      for (const test of module.children.allTests()) {
        const result = test.result();
        if (result.state === 'passed') outcome.passed += 1;
        else if (result.state === 'failed') outcome.failed += 1;
        else
          outcome.skipped.push({
            name: `${file} > ${test.fullName}`,
            reason: result.note ?? 'no reason given',
          });
      }
    }
    writeFileSync(process.env['COVEY_TEST_RESULTS'] ?? '', JSON.stringify(outcome));
  }
}
