import type { LendRules } from '#shared/domain/lend.ts';
import { UsageError } from './failure.ts';
import { suggest } from './suggest.ts';
import { sizeOf } from './arguments.ts';
import { bytes, plural, printable } from './text.ts';

/** What `covey lend set` changes: one rule by the name and in the words that people use. */
interface LendValue {
  readonly name: string;
  /** For the help. */
  readonly takes: string;
  readonly does: string;
  /** The part of the settings' `lend` that the text means. @throws UsageError */
  readonly patch: (text: string) => object;
  readonly show: (rules: LendRules) => string;
}

const sizeTakes = 'SIZE|none';

export const lendValues: readonly LendValue[] = [
  {
    name: 'threads',
    takes: 'COUNT|none',
    does: 'processor threads at most',
    patch: (text) => ({ limits: { cpuThreads: orNone(text, (one) => whole('threads', one)) } }),
    show: ({ limits }) => (limits.cpuThreads === null ? 'all' : `${limits.cpuThreads} at most`),
  },
  {
    name: 'ram',
    takes: sizeTakes,
    does: 'memory at most, such as 8GB',
    patch: (text) => ({ limits: { ramBytes: orNone(text, (one) => size('ram', one)) } }),
    show: ({ limits }) => upTo(limits.ramBytes),
  },
  {
    name: 'vram',
    takes: 'DEVICE=SIZE',
    does: 'memory of one graphics card at most; 0: not lent',
    patch(text) {
      const match = /^([^=\s]{1,64})=(.+)$/.exec(text);
      if (!match?.[1] || !match[2])
        throw new UsageError(`vram is DEVICE=SIZE, such as CUDA0=6GB, got "${text}".`);
      return { limits: { vramBytes: { [match[1]]: orNone(match[2], (one) => size('vram', one)) } } };
    },
    show: ({ limits }) =>
      Object.entries(limits.vramBytes)
        .map(([device, limit]) => `${printable(device)} ${bytes(limit)} at most`)
        .join(', ') || 'all',
  },
  {
    name: 'disk',
    takes: sizeTakes,
    does: 'disk for models and artifacts at most',
    patch: (text) => ({ limits: { diskBytes: orNone(text, (one) => size('disk', one)) } }),
    show: ({ limits }) => upTo(limits.diskBytes),
  },
  {
    name: 'upload',
    takes: sizeTakes,
    does: 'sent to other machines per second at most',
    patch: (text) => ({ limits: { uploadBytesPerS: orNone(text, (one) => size('upload', one)) } }),
    show: ({ limits: { uploadBytesPerS: limit } }) =>
      limit === null ? 'as fast as it goes' : `${bytes(limit)}/s at most`,
  },
  {
    name: 'schedule',
    takes: 'TIMES|always',
    does: 'only: "mon-fri 18:00-8:00; sat,sun 0:00-24:00"',
    patch: (text) => ({ schedule: /^(always|none)$/i.test(text.trim()) ? null : schedule(text) }),
    show: ({ schedule: ranges }) =>
      ranges === null
        ? 'always'
        : ranges.map(({ days, from, to }) => `${dayNames(days)} ${from}-${to}`).join('; ') || 'never',
  },
  {
    name: 'idle',
    takes: 'MINUTES|none',
    does: 'only when nobody has used it for so long',
    patch: (text) => ({ idleMinutes: orNone(text, (one) => whole('idle', one)) }),
    show: ({ idleMinutes }) =>
      idleMinutes === null
        ? 'whoever sits there or not'
        : `after ${plural(idleMinutes, 'minute')} without keyboard or mouse`,
  },
  {
    name: 'battery',
    takes: 'on|off',
    does: 'give way on battery',
    patch: (text) => ({ giveWay: { onBattery: onOff('battery', text) } }),
    show: ({ giveWay }) => (giveWay.onBattery ? 'not lent on battery' : 'lent on battery too'),
  },
  {
    name: 'programs',
    takes: 'NAME,...|none',
    does: 'give way while one of these runs',
    patch: (text) => ({ giveWay: { programs: orNone(text, (one) => names(one)) ?? [] } }),
    show: ({ giveWay: { programs } }) =>
      programs.length === 0 ? 'none' : `not lent while one runs: ${printable(programs.join(', '))}`,
  },
  {
    name: 'full-screen',
    takes: 'on|off',
    does: 'give way while a program fills the screen',
    patch: (text) => ({ giveWay: { fullScreen: onOff('full-screen', text) } }),
    show: ({ giveWay }) => (giveWay.fullScreen ? 'not lent then' : 'lent then too'),
  },
  {
    name: 'hot',
    takes: 'CELSIUS|none',
    does: 'give way at this temperature',
    patch: (text) => ({ giveWay: { hotCelsius: orNone(text, (one) => whole('hot', one)) } }),
    show: ({ giveWay: { hotCelsius } }) =>
      hotCelsius === null ? 'at any temperature' : `not lent at ${hotCelsius} °C or more`,
  },
  ...(['inference', 'kernels', 'commands'] as const).map((kind): LendValue => {
    const name = kind === 'inference' ? 'models' : kind;
    const does = {
      inference: 'run models here',
      kernels: "compute Covey's own kernels here",
      commands: 'run programs here that members send',
    }[kind];
    return {
      name,
      takes: 'on|off',
      does,
      patch: (text) => ({ kinds: { [kind]: onOff(name, text) } }),
      show: ({ kinds }) => (kinds[kind] ? 'allowed' : 'not allowed'),
    };
  }),
  {
    name: 'network',
    takes: 'NAME:FROM-TO|none',
    does: 'let programs see it, and listen: eth0:20000-20099',
    patch: (text) => ({ network: orNone(text, networkOf) }),
    show: ({ network }) =>
      network === null
        ? 'not for programs'
        : `programs that ask; ports ${network.ports.from}-${network.ports.to} on ${printable(network.interface)}`,
  },
];

/** Every rule with what it says now, in order. */
export function lendFields(rules: LendRules): [string, string][] {
  return lendValues.map(({ name, show }) => [name, show(rules)]);
}

/** @throws UsageError naming the rule and what it takes */
export function parseLendValue(
  rule: string,
  text: string,
): { readonly name: string; readonly patch: object } {
  const value = lendValues.find(({ name }) => name === rule.toLowerCase());
  if (!value) {
    const known = lendValues.map(({ name }) => name);
    const near = suggest(rule, known);
    throw new UsageError(
      `There is no rule "${printable(rule)}".`,
      near === null ? `There are: ${known.join(', ')}.` : `Did you mean ${near}?`,
    );
  }
  return { name: value.name, patch: value.patch(text) };
}

function networkOf(text: string): NonNullable<LendRules['network']> {
  const match = /^([^\s/]{1,64}):(\d{1,5})-(\d{1,5})$/.exec(text);
  if (!match?.[1]) {
    throw new UsageError(
      `network is NAME:FROM-TO, such as eth0:20000-20099, or none, got "${printable(text)}".`,
    );
  }
  const [from, to] = [Number(match[2]), Number(match[3])];
  if (from < 1024 || to > 65_535 || from > to) {
    throw new UsageError(`network: the ports must go upwards and be from 1024 to 65535, got ${from}-${to}.`);
  }
  return { interface: match[1], ports: { from, to } };
}

function upTo(limit: number | null): string {
  return limit === null ? 'as much as is free' : `${bytes(limit)} at most`;
}

function orNone<T>(text: string, parse: (text: string) => T): T | null {
  return text.trim().toLowerCase() === 'none' ? null : parse(text.trim());
}

function whole(name: string, text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new UsageError(`${name} is a whole number or none, got "${printable(text)}".`);
}

function onOff(name: string, text: string): boolean {
  if (/^(on|yes|true)$/i.test(text)) return true;
  if (/^(off|no|false)$/i.test(text)) return false;
  throw new UsageError(`${name} is either on or off, got "${printable(text)}".`);
}

function names(text: string): string[] {
  return text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
}

function size(name: string, text: string): number {
  const value = sizeOf(text);
  if (value !== null) return value;
  throw new UsageError(
    `${name} is a size such as 8GB or 500MB, at most 8191TB, or none, got "${printable(text)}".`,
  );
}

const week = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const;

function schedule(text: string): { days: number[]; from: string; to: string }[] {
  return text.split(';').map((part) => {
    const match = /^\s*([a-z,-]+)\s+(\d{1,2}:\d{2})-(\d{1,2}:\d{2})\s*$/i.exec(part);
    const days = match?.[1] === undefined ? null : daysOf(match[1].toLowerCase());
    const [from, to] = [timeOf(match?.[2]), timeOf(match?.[3])];
    if (!days || !from || !to) {
      throw new UsageError(
        `"${printable(part.trim())}" is no time such as "mon-fri 18:00-08:00" or "daily 22:00-06:00".`,
        'Several are separated by ";".',
      );
    }
    return { days, from, to };
  });
}

/** The end of a day is its next midnight. */
function timeOf(text: string | undefined): string | null {
  const padded = text?.padStart(5, '0');
  if (padded === '24:00') return '00:00';
  return padded !== undefined && /^([01]\d|2[0-3]):[0-5]\d$/.test(padded) ? padded : null;
}

function daysOf(text: string): number[] | null {
  if (text === 'daily') return [0, 1, 2, 3, 4, 5, 6];
  const days = new Set<number>();
  for (const part of text.split(',')) {
    const [first, last = first] = part.split('-').map((name) => week.findIndex((day) => name === day));
    if (first === undefined || last === undefined || first < 0 || last < 0) return null;
    for (let day = first; ; day = (day + 1) % 7) {
      days.add(day);
      if (day === last) break;
    }
  }
  return [...days].sort((a, b) => a - b);
}

/** Beginning on Monday, three days or more in a row as a range. */
function dayNames(days: readonly number[]): string {
  if (days.length === 7) return 'daily';
  const inOrder = [...days].sort((a, b) => ((a + 6) % 7) - ((b + 6) % 7));
  const runs: number[][] = [];
  for (const day of inOrder) {
    const run = runs.at(-1);
    if (run && ((run.at(-1) ?? 0) + 1) % 7 === day) run.push(day);
    else runs.push([day]);
  }
  return runs
    .flatMap((run) =>
      run.length < 3 ? run.map((day) => week[day]) : [`${week[run[0] ?? 0]}-${week[run.at(-1) ?? 0]}`],
    )
    .join(',');
}
