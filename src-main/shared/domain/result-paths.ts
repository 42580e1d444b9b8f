import { isSafeTreePath } from './artifact.ts';

/** Bytes of UTF-8: what file systems take of one name, with room for what stands behind it while a file comes. */
const mostNameBytes = 200;

/**
 * One name that every system takes as it is, from a text that may hold anything: what a system reads otherwise
 * becomes `_`.
 */
export function safeName(text: string): string {
  // Nearly all are, and there may be very many.
  if (text.length <= mostNameBytes / 3 && !text.includes('/') && isSafeTreePath(text)) return text;
  let name = text.replaceAll(/[\\/:*?"<>|\p{C}]/gu, '_').replace(/[. ]+$/, (end) => '_'.repeat(end.length));
  while (utf8Bytes(name) > mostNameBytes) name = [...name].slice(0, -1).join('');
  if (isSafeTreePath(name)) return name;
  return name === '' ? '_' : safeName(`_${name}`);
}

/** @param text without lone surrogates */
function utf8Bytes(text: string): number {
  return encodeURIComponent(text).replaceAll(/%../g, '_').length;
}

/**
 * Paths below one folder for results that are called so, in the same order: `3/frame.png`. Safe on every system; where
 * two would be the same, or one be a folder for another, the later one gets a number.
 */
export function resultPaths(names: readonly string[]): string[] {
  /** Without regard to case: some systems have none. */
  const taken = new Set<string>();
  const folders = new Set<string>();
  return names.map((name) => {
    const parts = name.split('/').map(safeName);
    const last = parts.pop() ?? '_';
    const above = parts.map((_part, index) => parts.slice(0, index + 1).join('/'));
    const fits = (path: string): boolean => {
      const key = keyOf(path);
      return !taken.has(key) && !folders.has(key);
    };
    // A file stands where the folder should be: everything goes beside each other.
    const inFolder = above.every((folder) => !taken.has(keyOf(folder)));
    const base = inFolder ? [...parts, last].join('/') : [...parts, last].join('_');
    let path = base;
    for (let count = 2; !fits(path); count += 1) path = numbered(base, count);
    taken.add(keyOf(path));
    if (inFolder) for (const folder of above) folders.add(keyOf(folder));
    return path;
  });
}

function keyOf(path: string): string {
  return path.normalize('NFC').toLowerCase();
}

/** `frame (2).png` */
function numbered(path: string, count: number): string {
  const [, stem = '', extension = ''] = /^(.*?[^/])(\.[^./]+)?$/s.exec(path) ?? [];
  return `${stem} (${count})${extension}`;
}
