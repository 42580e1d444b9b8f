import { execFileSync } from 'node:child_process';
import { readFileSync, readlinkSync } from 'node:fs';

/** What identifies a process beyond its number, which the system uses again. */
export interface ProcessIdentity {
  /** Start time in the system's own terms: clock ticks since boot on Linux, a date elsewhere. */
  readonly startedAt: string;
  readonly executable: string;
}

/**
 * The identity of a running process, null when there is none (a zombie counts as none) or when this system
 * does not tell. Windows does not: engines there live in a Job Object that ends with their parent.
 */
export function identifyProcess(pid: number): ProcessIdentity | null {
  if (process.platform === 'linux') return identifyOnLinux(pid);
  if (process.platform === 'darwin') return identifyOnMac(pid);
  return null;
}

function identifyOnLinux(pid: number): ProcessIdentity | null {
  try {
    const stat = readProcStat(pid);
    if (stat.state === 'Z') return null;
    // A program replaced on disk while it runs reads as "path (deleted)".
    const executable = readlinkSync(`/proc/${pid}/exe`).replace(/ \(deleted\)$/, '');
    return { startedAt: stat.startTicks, executable };
  } catch {
    return null;
  }
}

function identifyOnMac(pid: number): ProcessIdentity | null {
  try {
    const line = execFileSync('/bin/ps', ['-o', 'lstart=,comm=', '-p', String(pid)], {
      encoding: 'utf8',
      timeout: 2_000,
    }).trim();
    // "Mon Nov 30 07:14:02 2026 /path/to/program"
    const match = /^(\w+ +\w+ +\d+ +[\d:]+ +\d+) +(.+)$/.exec(line);
    return match?.[1] && match[2] ? { startedAt: match[1], executable: match[2] } : null;
  } catch {
    return null;
  }
}

export interface ProcStat {
  /** `R`, `S`, `D`, `T` (stopped), `t` (traced), `Z`, ... */
  readonly state: string;
  readonly processGroup: number;
  /** User and system time in clock ticks. */
  readonly cpuTicks: number;
  readonly startTicks: string;
}

/** `/proc/PID/stat` as proc_pid_stat(5) lays it out. Throws when there is no such process. */
export function readProcStat(pid: number): ProcStat {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The name in parentheses may itself hold spaces and parentheses; fields are counted after the last one.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return {
    state: fields[0] ?? '?',
    processGroup: Number(fields[2]),
    cpuTicks: Number(fields[11]) + Number(fields[12]),
    startTicks: fields[19] ?? '',
  };
}
