/** What a field of a number takes. */
export interface NumberRange {
  readonly min: number;
  readonly max: number;
  /** Whole numbers only. */
  readonly whole: boolean;
}

/**
 * A number as it was typed, with or without its unit: `16`, `1.5`, `-3 °C`. null: nothing was typed. NaN: something
 * else. Nothing is guessed: of `1e5` or `5 TB` no digits are taken out, for a person would not notice.
 */
export function readNumber(typed: string, unit = ''): number | null {
  const text = typed.trim();
  if (text === '') return null;
  const hasUnit = unit.trim() !== '' && text.toLowerCase().endsWith(unit.trim().toLowerCase());
  const digits = hasUnit ? text.slice(0, -unit.trim().length).trimEnd() : text;
  return /^[+-]?(\d+(\.\d*)?|\.\d+)$/.test(digits) ? Number(digits) : NaN;
}

/** What is wrong with it as a sentence; null: nothing. Nothing typed is nothing wrong. */
export function numberProblem(value: number | null, range: NumberRange): string | null {
  if (value === null) return null;
  const { min, max, whole } = range;
  if (Number.isNaN(value)) return `Digits only, such as ${plain(min > 0 ? min : Math.min(max, 1))}.`;
  if (value < min || value > max) return `From ${plain(min)} to ${plain(max)}.`;
  return whole && !Number.isInteger(value) ? 'A whole number.' : null;
}

function plain(value: number): string {
  return value.toLocaleString('en-US');
}
