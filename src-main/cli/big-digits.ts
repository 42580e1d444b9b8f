/** Three columns by five rows for each digit, a row as bits from the left. */
const glyphs: readonly (readonly number[])[] = [
  [7, 5, 5, 5, 7],
  [2, 6, 2, 2, 7],
  [7, 1, 7, 4, 7],
  [7, 1, 3, 1, 7],
  [5, 5, 7, 1, 1],
  [7, 4, 7, 1, 7],
  [7, 4, 7, 5, 7],
  [7, 1, 1, 2, 2],
  [7, 5, 7, 5, 7],
  [7, 5, 7, 1, 7],
];

/** A number to be read from across the room, in two groups of three: five lines of 54 columns. @param code six digits */
export function bigDigits(code: string): string[] {
  return [0, 1, 2, 3, 4].map((row) =>
    [...code]
      .map((digit, index) => {
        const bits = glyphs[Number(digit)]?.[row] ?? 0;
        const cells = [4, 2, 1].map((bit) => ((bits & bit) === 0 ? '  ' : '██')).join('');
        return cells + (index === 2 ? '      ' : '  ');
      })
      .join('')
      .trimEnd(),
  );
}

/** `123 456`. */
export function spacedCode(code: string): string {
  return `${code.slice(0, 3)} ${code.slice(3)}`;
}
