import { existsSync, readFileSync } from 'node:fs';
import { runCommand } from '../../src-main/nodejs/run-command.ts';

/** Bytes since the system's start. */
export interface NetworkCounters {
  readonly receivedBytes: number;
  readonly sentBytes: number;
}

export interface NetworkRate {
  /** Over the time since the sample before, bytes/s; null at first and where the system does not tell. */
  sample(): { receiveBytesPerS: number | null; sendBytesPerS: number | null };
}

const adaptersEveryMs = 30_000;
const askEveryMs = 4_000;

/**
 * Traffic of all real adapters. Linux: /proc/net/dev. macOS and Windows: `netstat`, asked every 4 s and not waited
 * for.
 * @param now monotonic ms
 */
export function createNetworkRate(now: () => number): NetworkRate {
  const read = process.platform === 'linux' ? createLinuxCounters(now) : createAskedCounters(now);
  let before: { readonly at: number; readonly counters: NetworkCounters } | null = null;
  let rate: ReturnType<NetworkRate['sample']> = { receiveBytesPerS: null, sendBytesPerS: null };
  return {
    sample() {
      const after = read();
      if (after === before || after === null) return rate;
      if (before !== null && after.at > before.at) rate = rateBetween(before, after);
      before = after;
      return rate;
    },
  };
}

interface Reading {
  readonly at: number;
  readonly counters: NetworkCounters;
}

export function rateBetween(before: Reading, after: Reading): ReturnType<NetworkRate['sample']> {
  const seconds = (after.at - before.at) / 1000;
  // An adapter that went away, or a counter that began again: what passed meanwhile is not known.
  const perSecond = (from: number, to: number): number => Math.max(0, Math.round((to - from) / seconds));
  return {
    receiveBytesPerS: perSecond(before.counters.receivedBytes, after.counters.receivedBytes),
    sendBytesPerS: perSecond(before.counters.sentBytes, after.counters.sentBytes),
  };
}

function createLinuxCounters(now: () => number): () => Reading | null {
  let real = new Set<string>();
  let lookedAt = -Infinity;
  return () => {
    try {
      const lines = parseProcNetDev(readFileSync('/proc/net/dev', 'latin1'));
      if (now() - lookedAt > adaptersEveryMs) {
        lookedAt = now();
        real = new Set([...lines.keys()].filter((name) => existsSync(`/sys/class/net/${name}/device`)));
      }
      // In a container there is no device behind any of them.
      const counted = [...lines].filter(([name]) => (real.size > 0 ? real.has(name) : name !== 'lo'));
      return { at: now(), counters: sum(counted.map(([, counters]) => counters)) };
    } catch {
      return null;
    }
  };
}

/** By adapter: column 1 received bytes, column 9 sent bytes (proc_net_dev(5)). */
export function parseProcNetDev(text: string): Map<string, NetworkCounters> {
  const found = new Map<string, NetworkCounters>();
  for (const line of text.split('\n')) {
    const match = /^\s*(\S+?):\s*(.+)$/.exec(line);
    const fields = match?.[2]?.trim().split(/\s+/).map(Number) ?? [];
    if (!match?.[1] || fields.length < 9) continue;
    found.set(match[1], { receivedBytes: fields[0] ?? 0, sentBytes: fields[8] ?? 0 });
  }
  return found;
}

function createAskedCounters(now: () => number): () => Reading | null {
  let last: Reading | null = null;
  let askedAt = -Infinity;
  const windows = process.platform === 'win32';
  const ask = async (): Promise<void> => {
    const outcome = windows ? await runCommand('netstat', ['-e']) : await runCommand('netstat', ['-ibn']);
    const counters = outcome.ok ? (windows ? parseNetstatE : parseNetstatIbn)(outcome.stdout) : null;
    if (counters) last = { at: now(), counters };
  };
  return () => {
    if (now() - askedAt >= askEveryMs) {
      askedAt = now();
      void ask();
    }
    return last;
  };
}

/** macOS: one line with `<Link#N>` for each adapter; received bytes stand 4 columns before its end, sent bytes 1. */
export function parseNetstatIbn(text: string): NetworkCounters | null {
  const found: NetworkCounters[] = [];
  for (const line of text.split('\n')) {
    if (!/<Link#\d+>/.test(line) || /^(lo|utun|awdl|llw|bridge|gif|stf|anpi|ap)\d/.test(line)) continue;
    const fields = line.trim().split(/\s+/);
    const [received, sent] = [Number(fields.at(-5)), Number(fields.at(-2))];
    if (Number.isFinite(received) && Number.isFinite(sent)) {
      found.push({ receivedBytes: received, sentBytes: sent });
    }
  }
  return found.length > 0 ? sum(found) : null;
}

/** Windows: the first line with two numbers is that of the bytes, whatever the language calls it. */
export function parseNetstatE(text: string): NetworkCounters | null {
  const match = /^\D*?\s(\d+)\s+(\d+)\s*$/m.exec(text);
  return match ? { receivedBytes: Number(match[1]), sentBytes: Number(match[2]) } : null;
}

function sum(all: readonly NetworkCounters[]): NetworkCounters {
  return {
    receivedBytes: all.reduce((total, { receivedBytes }) => total + receivedBytes, 0),
    sentBytes: all.reduce((total, { sentBytes }) => total + sentBytes, 0),
  };
}
