import { execFile } from 'node:child_process';
import { readlink } from 'node:fs/promises';
import { promisify } from 'node:util';
import { processStartTime } from '../../src-main/nodejs/process-start-time.ts';

/** What identifies a process beyond its number, which the system uses again. */
export interface ProcessIdentity {
  /** See processStartTime. */
  readonly startedAt: string;
  readonly executable: string;
}

/**
 * The identity of a running process, null when there is none (a zombie counts as none) or when this system does
 * not tell. Windows does not: engines there live in a Job Object that ends with their parent.
 */
export async function identifyProcess(pid: number): Promise<ProcessIdentity | null> {
  const startedAt = await processStartTime(pid);
  if (startedAt === null) return null;
  try {
    return { startedAt, executable: await executableOf(pid) };
  } catch {
    return null;
  }
}

async function executableOf(pid: number): Promise<string> {
  if (process.platform === 'linux') {
    // A program replaced on disk while it runs reads as "path (deleted)".
    return (await readlink(`/proc/${pid}/exe`)).replace(/ \(deleted\)$/, '');
  }
  const { stdout } = await promisify(execFile)('/bin/ps', ['-o', 'comm=', '-p', String(pid)], {
    timeout: 2_000,
  });
  return stdout.trim();
}
