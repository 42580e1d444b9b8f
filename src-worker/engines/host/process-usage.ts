import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';

export interface ProcessUsage {
  readonly rssBytes: number | null;
  /** User and system time so far. */
  readonly cpuMs: number | null;
  /** Stopped by a signal or a debugger. */
  readonly suspended: boolean;
}

const unknown: ProcessUsage = { rssBytes: null, cpuMs: null, suspended: false };
/** USER_HZ: what /proc counts in, 100 on every Linux since 2.6. */
const msPerTick = 10;

/** What a process uses; figures that this system does not give are null. Never throws. */
export async function processUsage(pid: number): Promise<ProcessUsage> {
  if (process.platform === 'linux') return usageOnLinux(pid);
  if (process.platform === 'darwin') return usageOnMac(pid);
  return unknown;
}

function usageOnLinux(pid: number): ProcessUsage {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // proc_pid_stat(5). The name in parentheses may itself hold spaces and parentheses; count after the last one.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state, utime, stime] = [fields[0], Number(fields[11]), Number(fields[12])];
    const rss = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'));
    return {
      rssBytes: rss ? Number(rss[1]) * 1024 : null,
      cpuMs: (utime + stime) * msPerTick,
      suspended: state === 'T' || state === 't',
    };
  } catch {
    return unknown;
  }
}

function usageOnMac(pid: number): Promise<ProcessUsage> {
  return new Promise((resolve) => {
    execFile('/bin/ps', ['-o', 'rss=,time=,state=', '-p', String(pid)], { timeout: 900 }, (error, output) => {
      resolve(error ? unknown : parsePs(output));
    });
  });
}

/** `  12345   1:02.34 S+`: kilobytes, [hours:]minutes:seconds, state. Exported for its test. */
export function parsePs(output: string): ProcessUsage {
  const match = /^\s*(\d+)\s+(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)\s+(\S+)/.exec(output);
  if (!match) return unknown;
  const [, rssKb, hours, minutes, seconds, state] = match;
  return {
    rssBytes: Number(rssKb) * 1024,
    cpuMs: Math.round(((Number(hours ?? 0) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000),
    suspended: state?.startsWith('T') ?? false,
  };
}
