import type { Random } from './random.ts';

/** Bytes at which parsers change their mind. */
const telling = [0x00, 0x01, 0x0a, 0x0d, 0x20, 0x22, 0x2c, 0x3a, 0x5c, 0x7b, 0x7d, 0x7f, 0x80, 0xc0, 0xff];

/** A few edits of bytes: flips, insertions, deletions, repetitions, a cut, a part of another. */
export function mutateBytes(random: Random, input: Buffer, others: readonly Buffer[]): Buffer {
  let bytes: Buffer = Buffer.from(input);
  for (let edits = 1 + random.int(4); edits > 0; edits -= 1) bytes = editBytes(random, bytes, others);
  return bytes;
}

function editBytes(random: Random, bytes: Buffer, others: readonly Buffer[]): Buffer {
  const at = random.int(bytes.length + 1);
  const end = Math.min(bytes.length, at + 1 + random.int(16));
  const [head, middle, tail] = [bytes.subarray(0, at), bytes.subarray(at, end), bytes.subarray(end)];
  switch (random.int(8)) {
    case 0: {
      if (at < bytes.length) bytes[at] = (bytes[at] ?? 0) ^ (1 << random.int(8));
      return bytes;
    }
    case 1: {
      if (at < bytes.length) bytes[at] = random.pick(telling);
      return bytes;
    }
    case 2:
      return Buffer.concat([head, random.bytes(1 + random.int(8)), middle, tail]);
    case 3:
      return Buffer.concat([head, tail]);
    case 4:
      return Buffer.concat([head, ...Array<Buffer>(1 + random.int(64)).fill(middle), tail]);
    case 5:
      return Buffer.from(head);
    case 6: {
      const other = others.length > 0 ? random.pick(others) : bytes;
      const from = random.int(other.length + 1);
      return Buffer.concat([head, other.subarray(from, from + random.int(64)), tail]);
    }
    default: {
      // A number somewhere becomes an extreme one.
      if (at + 4 <= bytes.length)
        bytes.writeUInt32BE(random.pick([0, 1, 0x7fffffff, 0x80000000, 0xffffffff]), at);
      return bytes;
    }
  }
}

const strings = [
  '',
  ' ',
  '0',
  '-1',
  'null',
  '__proto__',
  'constructor',
  'hasOwnProperty',
  '../../../../etc/passwd',
  '\u0000',
  '\u001b[31m',
  '\r\nX: y',
  '\ud800',
  '\u202e',
  '\ufeff',
  'é'.repeat(130),
  '💥'.repeat(64),
  'a'.repeat(257),
  'f'.repeat(64),
  '0'.repeat(32),
  '127.0.0.1:0',
  '[::1]:65536',
  'd-00000000.1.0',
] as const;
const numbers = [
  0,
  -0,
  1,
  -1,
  0.5,
  2,
  31,
  32,
  33,
  255,
  256,
  65_535,
  65_536,
  2 ** 31,
  2 ** 32,
  2 ** 53,
  2 ** 53 + 2,
  -(2 ** 53),
  1e21,
  1e308,
  5e-324,
] as const;

/** Stand-ins for text that JSON.stringify would not write; see `mutateJson`. */
const rawTexts = {
  huge: '1e999',
  notNumber: 'NaN',
  leadingZero: '007',
  loneSurrogate: '"\\ud834"',
  controlCharacter: '"\u0001"',
  twice: '{"type":1,"type":2}',
  proto: '{"__proto__":{"polluted":true}}',
} as const;
const marker = '\u0000raw:';

/** JSON with a few of its parts changed for others of all kinds, then perhaps no longer quite JSON. */
export function mutateJson(random: Random, text: string, others: readonly string[]): string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return text;
  }
  for (let edits = 1 + random.int(3); edits > 0; edits -= 1) value = editValue(random, value, others, 6);
  const written = (JSON.stringify(value) ?? 'null').replace(
    /"\\u0000raw:(\w+):(\d{1,5})"/g,
    (_whole, kind: string, size: string) => rawText(kind, Number(size)),
  );
  return random.oneIn(12) ? written + random.pick([' ', '}', ',', '\u0000', written, '\n{}']) : written;
}

function rawText(kind: string, size: number): string {
  if (kind === 'deepArray') return '['.repeat(size) + ']'.repeat(size);
  if (kind === 'deepObject') return '{"a":'.repeat(size) + '1' + '}'.repeat(size);
  return rawTexts[kind as keyof typeof rawTexts] ?? 'null';
}

function editValue(random: Random, value: unknown, others: readonly string[], depth: number): unknown {
  if (depth > 0 && typeof value === 'object' && value !== null && !random.oneIn(6)) {
    return Array.isArray(value)
      ? editArray(random, value, others, depth)
      : editObject(random, value as Record<string, unknown>, others, depth);
  }
  return otherValue(random, value, others);
}

function editArray(
  random: Random,
  list: readonly unknown[],
  others: readonly string[],
  depth: number,
): unknown[] {
  const at = random.int(list.length + 1);
  switch (random.int(4)) {
    case 0:
      return list.toSpliced(at, 1);
    case 1:
      return list.toSpliced(at, 0, list[at] ?? otherValue(random, null, others));
    case 2:
      return Array<unknown>(random.pick([17, 33, 65, 257, 400])).fill(list[at] ?? null);
    default:
      return list.map((item, index) => (index === at ? editValue(random, item, others, depth - 1) : item));
  }
}

function editObject(
  random: Random,
  object: Record<string, unknown>,
  others: readonly string[],
  depth: number,
): Record<string, unknown> {
  const entries = Object.entries(object);
  const at = random.int(entries.length + 1);
  switch (random.int(8)) {
    case 0:
      return Object.fromEntries(entries.toSpliced(at, 1));
    case 1:
      return Object.fromEntries([...entries, [random.pick(strings), otherValue(random, null, others)]]);
    default:
      return Object.fromEntries(
        entries.map(([key, item], index) => [
          key,
          index === at ? editValue(random, item, others, depth - 1) : item,
        ]),
      );
  }
}

function otherValue(random: Random, value: unknown, others: readonly string[]): unknown {
  switch (random.int(10)) {
    case 0:
      return null;
    case 1:
      return random.oneIn(2);
    case 2:
    case 3:
      return random.pick(numbers);
    case 4:
    case 5:
      return random.pick(strings);
    case 6: {
      if (random.oneIn(200)) return 'x'.repeat(random.pick([9_000, 70_000, 1_100_000]));
      const kinds = ['deepArray', 'deepObject', ...Object.keys(rawTexts)];
      const size = random.oneIn(50) ? random.pick([3_000, 12_000]) : 1 + random.int(40);
      return `${marker}${random.pick(kinds)}:${size}`;
    }
    case 7:
      if (typeof value === 'string') return mutateBytes(random, Buffer.from(value), []).toString('utf8');
      if (typeof value === 'number') return value + random.pick([-1, 1, 0.5, 1e9]);
      return [value];
    case 8:
      return value;
    default: {
      if (others.length === 0) return {};
      try {
        return JSON.parse(random.pick(others)) as unknown;
      } catch {
        return {};
      }
    }
  }
}

/** Mostly JSON that is nearly right, sometimes as it is, sometimes broken bytes, seldom noise. */
export function mutateJsonText(random: Random, corpus: readonly string[]): string {
  const text = random.pick(corpus);
  const kind = random.int(20);
  if (kind < 2) return text;
  if (kind < 15) return mutateJson(random, text, corpus);
  if (kind < 19) {
    return mutateBytes(
      random,
      Buffer.from(text),
      corpus.map((other) => Buffer.from(other)),
    ).toString('utf8');
  }
  return random.bytes(random.int(200)).toString('latin1');
}
