/** Numbers with their units, as people read them. All pure; times are passed in. */

const binary = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const;

/** `1.5 GiB`: three digits at most. */
export function formatBytes(bytes: number): string {
  const { value, unit } = scaled(Math.max(0, bytes), binary, 1_024);
  return `${value} ${unit}`;
}

/** `94 MiB/s` */
export function formatRate(bytesPerS: number): string {
  return `${formatBytes(bytesPerS)}/s`;
}

/** `3.2 of 16 GiB`, in the unit of the second. */
export function formatBytesOf(part: number, whole: number): string {
  const power = powerOf(whole, binary.length, 1_024);
  const value = (bytes: number): string => digits(Math.max(0, bytes) / 1_024 ** power);
  return `${value(part)} of ${value(whole)} ${binary[power]}`;
}

/** `1,234` */
export function formatCount(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: 0 });
}

/** `12,3k` parameters and the like: `7.2B`. */
export function formatShort(value: number): string {
  const { value: text, unit } = scaled(value, ['', 'k', 'M', 'B', 'T'], 1_000);
  return `${text}${unit}`;
}

/** 0..1 as `37 %`. */
export function formatShare(share: number): string {
  return formatPercent(share * 100);
}

/** 0..100 as `37 %`; what is not nothing is not shown as nothing. */
export function formatPercent(percent: number): string {
  if (percent > 0 && percent < 1) return '<1 %';
  return `${Math.round(percent)} %`;
}

/** `8.4 tokens/s` */
export function formatTokensPerS(tokensPerS: number): string {
  return `${formatTokenRate(tokensPerS)} tokens/s`;
}

/** The same without its unit, for a place that names it. */
export function formatTokenRate(tokensPerS: number): string {
  if (tokensPerS === 0) return '0';
  return tokensPerS < 100 ? tokensPerS.toFixed(1) : formatCount(tokensPerS);
}

/** `0.4 ms`, `12 ms`, `1.2 s` */
export function formatMs(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

/** `45 s`, `3 min`, `2 h 5 min`, `3 d 4 h` */
export function formatDuration(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1_000));
  if (s < 60) return `${s} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return `${min} min`;
  const h = Math.floor(min / 60);
  if (h < 24) return min % 60 === 0 ? `${h} h` : `${h} h ${min % 60} min`;
  const d = Math.floor(h / 24);
  return h % 24 === 0 ? `${d} d` : `${d} d ${h % 24} h`;
}

/** `just now`, `12 s ago`, `in 3 min` */
export function formatAgo(at: number, now: number): string {
  const ms = now - at;
  if (Math.abs(ms) < 3_000) return 'just now';
  return ms > 0 ? `${formatDuration(ms)} ago` : `in ${formatDuration(-ms)}`;
}

/** `14:03:27` in the viewer's time. */
export function formatTime(at: number): string {
  return new Date(at).toLocaleTimeString('en-GB');
}

/** `2026-11-30 14:03:27` in the viewer's time. */
export function formatDateTime(at: number): string {
  const date = new Date(at);
  return `${date.toLocaleDateString('sv-SE')} ${date.toLocaleTimeString('en-GB')}`;
}

/** `1 machine`, `2 machines` */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

/** Its beginning and its end, which tell most of a path; `limit` characters at most. */
export function shortened(text: string, limit = 100): string {
  const characters = [...text];
  if (characters.length <= limit) return text;
  const tail = Math.floor((limit - 3) / 2);
  return `${characters.slice(0, limit - 3 - tail).join('')} … ${characters.slice(-tail).join('')}`;
}

function powerOf(value: number, units: number, base: number): number {
  let power = 0;
  // Whatever rounds up to a thousand of its unit is one of the next.
  while (power < units - 1 && Math.abs(value) / base ** power >= 999.5) power++;
  return power;
}

function scaled<U extends string>(
  value: number,
  units: readonly U[],
  base: number,
): { value: string; unit: U } {
  const power = powerOf(value, units.length, base);
  return {
    value: power === 0 ? String(Math.round(value)) : digits(value / base ** power),
    unit: units[power] as U,
  };
}

function digits(value: number): string {
  if (value === 0) return '0';
  return value < 9.95 ? value.toFixed(1) : String(Math.round(value));
}
