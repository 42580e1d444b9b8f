import { CoveyError, type ErrorCode } from '#shared/errors.ts';
import { parseControllerArguments, parseWorkerArguments } from './headless/arguments.ts';

/** `covey controller`: runs until stopped. Resolves to the exit code. */
export async function runController(argv: readonly string[]): Promise<number> {
  const parsed = parseControllerArguments(argv);
  if (!parsed.ok) return parsed.exitCode;
  const { startController } = await import('./headless/run-controller.ts');
  return orSay(() => startController(parsed.value));
}

/** `covey worker`: runs until stopped. Resolves to the exit code. */
export async function runWorker(argv: readonly string[]): Promise<number> {
  const parsed = parseWorkerArguments(argv);
  if (!parsed.ok) return parsed.exitCode;
  const { startWorker } = await import('./headless/run-worker.ts');
  return orSay(() => startWorker(parsed.value));
}

/** What was typed is wrong, not the world. */
const usageCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'join_string_invalid',
  'config_invalid',
  'not_a_member',
]);

/** A refusal to start is one sentence on standard error; anything else is a bug and shows where it is. */
async function orSay(run: () => Promise<number>): Promise<number> {
  try {
    return await run();
  } catch (error) {
    const text =
      error instanceof CoveyError
        ? error.message
        : error instanceof Error
          ? (error.stack ?? error.message)
          : String(error);
    process.stderr.write(`covey: ${text}\n`);
    return error instanceof CoveyError && usageCodes.has(error.code) ? 2 : 1;
  }
}
