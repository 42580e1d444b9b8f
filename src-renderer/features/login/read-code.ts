const letters = 16;

/**
 * The code in what was typed or pasted: the code itself, in any grouping, or a whole link with it. null: none can
 * be in there, so that a slip of the finger costs no attempt.
 */
export function readCode(text: string): string | null {
  const code = text
    .trim()
    .replace(/^.*#code=/s, '')
    .replace(/[\s-]/g, '')
    .toUpperCase();
  if (code.length !== letters || !/^[0-9A-Z]+$/.test(code)) return null;
  return (code.match(/.{4}/g) ?? []).join('-');
}
