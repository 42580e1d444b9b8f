import { InvalidArgumentError } from 'commander';

/** Parsers of option values; commander puts the option's name before their message. */

/** `a,b,c`. */
export function parseList(text: string): string[] {
  const parts = text.split(',').map((part) => part.trim());
  if (parts.some((part) => part === ''))
    throw new InvalidArgumentError('It must be names separated by commas.');
  return parts;
}

/** `a=60,b=40` or `a=60%,b=40%`: any weights. */
export function parseSplit(text: string): Record<string, number> {
  const split = new Map<string, number>();
  for (const part of parseList(text)) {
    const match = /^(.+)=(-?\d+(?:\.\d+)?)%?$/.exec(part);
    if (!match?.[1]) throw new InvalidArgumentError(`"${part}" is not NODE=SHARE, as in desk=60,attic=40.`);
    if (Number(match[2]) <= 0)
      throw new InvalidArgumentError(`The share of ${match[1]} must be more than 0.`);
    if (split.has(match[1])) throw new InvalidArgumentError(`It names ${match[1]} twice.`);
    split.set(match[1], Number(match[2]));
  }
  return Object.fromEntries(split);
}

export function parseWhole(lowest: number, highest: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
    if (value >= lowest && value <= highest) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${lowest} to ${highest}.`);
  };
}

export function parseSeconds(text: string): number {
  const value = /^\d{1,6}(\.\d+)?$/.test(text) ? Number(text) : NaN;
  if (value <= 86_400) return value;
  throw new InvalidArgumentError('It must be a number of seconds, at most 86400.');
}

export function parseNumber(text: string): number {
  const value = text.trim() === '' ? NaN : Number(text);
  if (Number.isFinite(value)) return value;
  throw new InvalidArgumentError('It must be a number.');
}

const powers: Readonly<Record<string, number>> = { '': 0, k: 1, m: 2, g: 3, t: 4 };

/** `8GB`, `512 MiB`, `1.5g`, a plain number of bytes: as shown, units are powers of 1024 whatever their spelling. At most 8191 TB. */
export function sizeOf(text: string): number | null {
  const match = /^(\d{1,15}(?:\.\d{1,3})?)\s*([kmgt]?)(?:i?b)?$/i.exec(text);
  if (!match) return null;
  const size = Math.round(Number(match[1]) * 1024 ** (powers[(match[2] ?? '').toLowerCase()] ?? 0));
  return Number.isSafeInteger(size) ? size : null;
}

export function parseSize(text: string): number {
  const value = sizeOf(text);
  if (value !== null) return value;
  throw new InvalidArgumentError('It must be a size such as 512MB or 2GB, at most 8191TB.');
}
