import { CoveyError, type ErrorBody } from '#shared/errors.ts';
import { bytes, printable } from './text.ts';

/** What the shell sees. */
export const exitCodes = { done: 0, failed: 1, usage: 2, unreachable: 3, interrupted: 130 } as const;

/** Wrong words on the command line: nothing was asked of anyone. */
export class UsageError extends Error {
  readonly hint: string;

  constructor(message: string, hint = '') {
    super(message);
    this.name = 'UsageError';
    this.hint = hint;
  }
}

/** A command that ends with this code after it has said why. */
export class Exit extends Error {
  readonly code: number;

  constructor(code: number) {
    super(`exit ${code}`);
    this.name = 'Exit';
    this.code = code;
  }
}

export function exitCodeOf(error: unknown): number {
  if (error instanceof Exit) return error.code;
  if (error instanceof UsageError) return exitCodes.usage;
  if (error instanceof CoveyError && error.code === 'controller_unreachable') return exitCodes.unreachable;
  return exitCodes.failed;
}

/** The sentence, then the causes as a list, without the one that is in the sentence already. */
export function describeError(error: ErrorBody): string {
  const others = (error.reasons ?? []).filter(({ message }) => !error.message.includes(message));
  const reasons = others.map((reason) => {
    const sizes =
      reason.neededBytes === undefined || reason.availableBytes === undefined
        ? ''
        : ` (needs ${bytes(reason.neededBytes)}, has ${bytes(reason.availableBytes)})`;
    // The sentence may already tell the sizes in its own words.
    return `  - ${printable(reason.message)}${/\d\s?[KMGT]i?B/.test(reason.message) ? '' : sizes}\n`;
  });
  return `${printable(error.message)}\n${reasons.join('')}`;
}

/** What to do next, for errors where that is not in the sentence already. */
export function hintFor(error: ErrorBody): string | null {
  switch (error.code) {
    case 'controller_unreachable':
      // Other sentences are about a controller elsewhere, or say themselves what to do.
      if (!/^No covey (?:answers|runs)/.test(error.message)) return null;
      return 'Start one with "covey controller" or "covey worker"; --data DIR or COVEY_DATA names the directory\nof one that runs already.';
    case 'token_missing':
    case 'token_invalid':
      return (
        "covey shows the token that is in this machine's data directory: say which with --data DIR or\n" +
        'COVEY_DATA. On a machine that is no controller, log in with "covey login".'
      );
    case 'admin_required':
      return 'Get a code at the controller ("covey open", or "Sign in on another machine" under Settings), then "covey login" here.';
    case 'model_file_not_found':
    case 'model_not_found':
      return 'Get a model with "covey pull hf:OWNER/REPO/FILE.gguf" or "covey import PATH --node NODE".';
    case 'timeout':
      return 'Try again; "covey status" shows whether the controller is well.';
    case 'no_nodes':
      return 'Lend a machine: "covey invite" prints what to run there.';
    default:
      return error.retryAfterS === undefined ? null : `Try again in ${Math.ceil(error.retryAfterS)} s.`;
  }
}
