const linesPerSecond = 100;

/**
 * Lets at most 100 lines a second of a program's log through, and says how many it left out: a program that
 * complains in a loop must not keep our main process busy.
 * @param now monotonic ms
 */
export function limitLog(
  pass: (level: 'debug' | 'info' | 'warn' | 'error', message: string) => void,
  now: () => number,
): typeof pass {
  let spanAt = -Infinity;
  let passed = 0;
  let leftOut = 0;
  return (level, message) => {
    if (now() - spanAt >= 1_000) {
      if (leftOut > 0) pass('warn', `${leftOut} lines of the engine's log were left out`);
      spanAt = now();
      passed = 0;
      leftOut = 0;
    }
    passed += 1;
    if (passed <= linesPerSecond) pass(level, message);
    else leftOut += 1;
  };
}
