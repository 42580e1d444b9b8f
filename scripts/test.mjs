import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { bootstrap } from './lib/bootstrap.mjs';
import { ScriptError, duration, runScript } from './lib/console.mjs';
import { ensurePrograms } from './lib/debian.mjs';
import { pinnedNode } from './lib/packages.mjs';
import { inRoot } from './lib/paths.mjs';
import { run } from './lib/run.mjs';

/** @typedef {{ passed: number, failed: number, skipped: { name: string, reason: string }[] }} Outcome */

/**
 * `npm test [-- SUITE...] [--allowed-skips FILE] [-- VITEST ARGUMENTS]`: runs the suites one after the other
 * (they share the machine's cores) and ends with one line, `N passed, N failed, N skipped`.
 *
 * Fails when a test fails, when a suite has no test or its runner breaks (each counts as one failed), and,
 * with --allowed-skips, when a test is skipped that no line of FILE is part of.
 */
const suites = {
  unit: { limitMs: 10 * 60_000 },
  native: { limitMs: 25 * 60_000 },
  cluster: { limitMs: 45 * 60_000 },
};

await runScript(async () => {
  const options = parseArguments(process.argv.slice(2));
  await bootstrap();
  if (options.suites.some((name) => name !== 'unit')) await ensurePrograms();
  /** @type {Outcome} */
  const total = { passed: 0, failed: 0, skipped: [] };
  for (const name of options.suites) {
    const startedAt = Date.now();
    const outcome = await runSuite(name, options.extra);
    total.passed += outcome.passed;
    total.failed += outcome.failed;
    total.skipped.push(...outcome.skipped);
    console.log(
      `${name}: ${outcome.passed} passed, ${outcome.failed} failed, ${outcome.skipped.length} skipped in ${duration(Date.now() - startedAt)}`,
    );
  }
  for (const skip of total.skipped) console.log(`SKIPPED ${skip.name}: ${skip.reason}`);
  const refused = total.skipped.filter((skip) => !isAllowed(skip, options.allowedSkips));
  for (const skip of refused) console.log(`NOT ALLOWED TO SKIP ${skip.name}`);
  console.log(`${total.passed} passed, ${total.failed} failed, ${total.skipped.length} skipped`);
  return total.failed === 0 && total.passed > 0 && refused.length === 0 ? 0 : 1;
});

function parseArguments(args) {
  /** @type {{ suites: string[], allowedSkips: string[] | null, extra: string[] }} */
  const options = { suites: [], allowedSkips: null, extra: [] };
  for (let index = 0; index < args.length; index += 1) {
    const argument = args[index];
    if (argument === '--') {
      options.extra = args.slice(index + 1);
      break;
    }
    if (argument === '--allowed-skips') {
      index += 1;
      if (args[index] === undefined) throw new ScriptError('--allowed-skips needs a file.', '', 2);
      options.allowedSkips = readFileSync(args[index], 'utf8')
        .split('\n')
        .map((line) => line.trim())
        .filter((line) => line !== '' && !line.startsWith('#'));
    } else if (Object.hasOwn(suites, argument)) {
      options.suites.push(argument);
    } else {
      throw new ScriptError(
        `There is no suite "${argument}".`,
        `Suites: ${Object.keys(suites).join(', ')}.`,
        2,
      );
    }
  }
  if (options.suites.length === 0) options.suites = Object.keys(suites);
  return options;
}

function isAllowed(skip, allowed) {
  return allowed === null || allowed.some((line) => `${skip.name}: ${skip.reason}`.includes(line));
}

/** @returns {Promise<Outcome>} */
async function runSuite(name, extra) {
  const failure = (message) => {
    console.log(`${name}: ${message}`);
    return { passed: 0, failed: 1, skipped: [] };
  };
  const directory = mkdtempSync(path.join(os.tmpdir(), 'covey-results-'));
  const resultsFile = path.join(directory, 'results.json');
  try {
    const vitest = await run(
      pinnedNode(),
      [
        inRoot('node_modules', 'vitest', 'vitest.mjs'),
        'run',
        `--project=${name}`,
        '--reporter=default',
        `--reporter=${inRoot('scripts', 'lib', 'vitest-reporter.mjs')}`,
        ...extra,
      ],
      {
        env: { ...process.env, COVEY_TEST_RESULTS: resultsFile },
        stdio: 'inherit',
        timeoutMs: suites[name].limitMs,
      },
    );
    if (vitest.timedOut) return failure(`not done after ${duration(suites[name].limitMs)}, ended`);
    const outcome = readOutcome(resultsFile);
    if (outcome === null) return failure(`the test runner ended with code ${vitest.code} and no results`);
    for (const error of outcome.errors) console.log(`${name}: error outside of any test: ${error}`);
    // Errors outside of tests fail the run, and so does whatever else the runner objects to.
    if (outcome.failed === 0 && (vitest.code !== 0 || outcome.errors.length > 0)) {
      outcome.failed = Math.max(1, outcome.errors.length);
    }
    if (outcome.passed + outcome.failed + outcome.skipped.length === 0) return failure('no test was found');
    return outcome;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** @returns {(Outcome & { errors: string[] }) | null} */
function readOutcome(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return null;
  }
}
