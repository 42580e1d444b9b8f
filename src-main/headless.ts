import { CoveyError } from '#shared/errors.ts';
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
    return 1;
  }
}
