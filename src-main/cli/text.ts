/** Control characters, direction overrides and line separators: what could change a terminal or hide text. */
const unsafe = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Text that came over the network, safe to print on a terminal: what is not plain text becomes `\x1b`. */
export function printable(text: string): string {
  return text.replace(unsafe, (character) => {
    const code = character.codePointAt(0) ?? 0;
    if (character === '\n') return '\\n';
    if (character === '\t') return ' ';
    return code < 0x100
      ? `\\x${code.toString(16).padStart(2, '0')}`
      : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

/** The same for text of several lines, which stay lines. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n');
}

const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;

/** Columns that a terminal gives to the text: 2 for East Asian wide characters and emoji, 0 for marks. */
export function displayWidth(text: string): number {
  let width = 0;
  for (const character of text) {
    if (/\p{Mn}|\p{Me}/u.test(character)) continue;
    width += wide.test(character) ? 2 : 1;
  }
  return width;
}

/** Cut to at most `width` columns, with an ellipsis when something is missing. */
export function truncate(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let kept = '';
  let used = 0;
  for (const character of text) {
    const next = displayWidth(character);
    if (used + next > width - 1) break;
    kept += character;
    used += next;
  }
  return `${kept}…`;
}

/** The same with the ellipsis inside: for paths, whose ends tell them apart. */
export function truncateInside(text: string, width: number): string {
  const over = displayWidth(text) - width;
  if (over <= 0) return text;
  const characters = [...text];
  const endWidth = Math.floor((width * 2) / 3);
  let end = '';
  for (let last = characters.pop(); last !== undefined; last = characters.pop()) {
    if (displayWidth(last + end) > endWidth) break;
    end = last + end;
  }
  return truncate(text, width - displayWidth(end)) + end;
}

/** Filled with spaces to `width` columns. */
export function pad(text: string, width: number, align: 'left' | 'right' = 'left'): string {
  const fill = ' '.repeat(Math.max(0, width - displayWidth(text)));
  return align === 'left' ? text + fill : fill + text;
}

/** Broken between words into lines of at most `width` columns; a longer word keeps its line. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && displayWidth(line) + 1 + displayWidth(word) > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** `1.5 GiB`, `812 B`: three digits at most. */
export function bytes(value: number): string {
  let scaled = value;
  let unit = 0;
  while (scaled >= 999.5 && unit < units.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || scaled >= 99.95 ? 0 : 1;
  return `${scaled.toFixed(digits)} ${units[unit]}`;
}

/** `43%`. @param value 0..100 */
export function percent(value: number): string {
  return `${Math.round(value)}%`;
}

/** `0.4 ms`, `450 ms`, `12 s`, `3 min`, `2 h 5 min`, `4 d`. */
export function duration(ms: number): string {
  if (ms < 9.95) return `${ms.toFixed(1)} ms`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 100) return ms < 9_950 ? `${(ms / 1_000).toFixed(1)} s` : `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 100) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
  return `${Math.round(hours / 24)} d`;
}

/** `3 layers`, `1 layer`. */
export function plural(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? '' : 's'}`;
}
