import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

/**
 * When a running process started, in the system's own terms: together with its number this names one process
 * for good, across restarts of the machine too. null when there is no such process or this system does not
 * tell (Windows).
 */
export async function processStartTime(pid: number): Promise<string | null> {
  try {
    if (process.platform === 'linux') return await onLinux(pid);
    if (process.platform === 'darwin') return await onMac(pid);
  } catch {
    // No such process.
  }
  return null;
}

/** Field 22 of proc_pid_stat(5), ticks since boot, with the boot's own id. */
async function onLinux(pid: number): Promise<string | null> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  // The name in parentheses may itself hold spaces and parentheses; fields are counted after the last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (fields[0] === 'Z' || fields[19] === undefined) return null;
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '');
  return `${boot.trim()}/${fields[19]}`;
}

async function onMac(pid: number): Promise<string | null> {
  const { stdout } = await promisify(execFile)('/bin/ps', ['-o', 'lstart=', '-p', String(pid)], {
    timeout: 2_000,
  });
  return stdout.trim() || null;
}
