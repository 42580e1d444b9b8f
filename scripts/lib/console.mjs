/**
 * What scripts say. Progress goes to stderr, so that stdout carries results only (`bench --json`).
 */
const colour = process.stderr.isTTY === true && !process.env['NO_COLOR'];
const paint = (code, text) => (colour ? `\u001b[${code}m${text}\u001b[0m` : text);

/** One line about what goes on. */
export function say(text) {
  process.stderr.write(`${paint('2', '>')} ${text}\n`);
}

/** An error that a person can act on: one sentence and, if there is one, what to do. */
export class ScriptError extends Error {
  /**
   * @param {string} message one sentence
   * @param {string} [hint] what to do about it
   * @param {number} [exitCode] default 1; 2 is wrong usage
   */
  constructor(message, hint = '', exitCode = 1) {
    super(message);
    this.name = 'ScriptError';
    this.hint = hint;
    this.exitCode = exitCode;
  }
}

/**
 * Runs a script's main function and turns what it throws into a message and an exit code. A ScriptError is
 * for the user and shows no stack; anything else is a defect and does.
 * @param {() => Promise<number | void>} main resolves to the exit code, nothing means 0
 */
export async function runScript(main) {
  try {
    process.exitCode = (await main()) ?? 0;
  } catch (error) {
    if (error instanceof ScriptError) {
      process.stderr.write(`${paint('31', 'error:')} ${error.message}\n`);
      if (error.hint) process.stderr.write(`${error.hint}\n`);
      process.exitCode = error.exitCode;
    } else {
      process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
      process.exitCode = 1;
    }
  }
}

/** `1.2 s`, `340 ms`. */
export function duration(ms) {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
