import { readdirSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { runCommand } from '../../src-main/nodejs/run-command.ts';

/**
 * Lets a program compute only what nobody else wants to, or as others do again. Best effort: it may have ended, and
 * a Unix without rights for it never gives back what was given up (the program stays polite until it ends).
 */
export function setProgramPriority(pid: number, low: boolean): void {
  switch (process.platform) {
    case 'linux':
      // setpriority(2) counts threads there, and those that compute are not the first.
      for (const thread of threadsOf(pid)) trySet(thread, low);
      return;
    case 'win32':
      void setOnWindows(pid, low);
      return;
    default:
      trySet(pid, low);
  }
}

function threadsOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    return [];
  }
}

function trySet(pid: number, low: boolean): void {
  try {
    setPriority(pid, low ? constants.priority.PRIORITY_LOW : constants.priority.PRIORITY_NORMAL);
  } catch {
    // Gone, or not allowed.
  }
}

const windowsMs = 10_000;

/** The pid is the launcher's; what it started is what computes. */
async function setOnWindows(pid: number, low: boolean): Promise<void> {
  const wanted = low ? 'Idle' : 'Normal';
  const script = `Get-CimInstance Win32_Process -Filter 'ParentProcessId=${pid}' | ForEach-Object { (Get-Process -Id $_.ProcessId).PriorityClass = '${wanted}' }`;
  await runCommand(
    'powershell.exe',
    ['-NoLogo', '-NoProfile', '-NonInteractive', '-Command', script],
    windowsMs,
  );
}
