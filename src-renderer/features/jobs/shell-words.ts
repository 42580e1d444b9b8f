/**
 * A line of a program and its arguments as people write it: words apart by blanks, with single or double quotes and
 * backslashes as in a shell, and nothing else of a shell.
 */
export function splitWords(
  text: string,
):
  | { readonly ok: true; readonly words: readonly string[] }
  | { readonly ok: false; readonly problem: string } {
  const words: string[] = [];
  let word: string | null = null;
  let quote: '"' | "'" | null = null;
  for (let at = 0; at < text.length; at++) {
    const character = text[at] as string;
    if (character === '\\' && quote !== "'") {
      const next = text[++at];
      if (next === undefined) return { ok: false, problem: 'a backslash at the end stands for nothing' };
      // In double quotes it takes the meaning from quotes and backslashes only.
      word = (word ?? '') + (quote === '"' && next !== '"' && next !== '\\' ? `\\${next}` : next);
    } else if (quote !== null) {
      if (character === quote) quote = null;
      else word = (word ?? '') + character;
    } else if (character === '"' || character === "'") {
      quote = character;
      word ??= '';
    } else if (/\s/.test(character)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? '') + character;
    }
  }
  if (quote !== null) return { ok: false, problem: `a quote ${quote} is not closed` };
  if (word !== null) words.push(word);
  return { ok: true, words };
}

/** The same words, quoted where a POSIX shell would read them otherwise. */
export function joinWords(words: readonly string[]): string {
  return words.map(quoted).join(' ');
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
