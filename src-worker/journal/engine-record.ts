import { rmSync } from 'node:fs';
import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { processStartTime } from '../../src-main/nodejs/process-start-time.ts';

/**
 * One small file per native program that runs: `<journal>/engines/<engine id>.json` with pid, start time and
 * executable. The engine host writes it right after the start and removes it after the program's end, so what
 * is left at the next start of the worker names what may have outlived a crash (see sweep.ts). Processes in which
 * tasks run have one too (journalled-hosts.ts).
 */
export function engineRecordsDirectory(journalDirectory: string): string {
  return join(journalDirectory, 'engines');
}

/**
 * Records a program that was just started. One whose start time the system does not tell is not recorded.
 * @param executable what it is or is about to become: the launcher may not have given way to it yet
 */
export async function recordEngine(
  journalDirectory: string,
  engineId: string,
  program: { readonly pid: number; readonly executable: string },
): Promise<void> {
  const startedAt = await processStartTime(program.pid);
  if (startedAt === null) return;
  const record = { pid: program.pid, startedAt, executable: await realpath(program.executable) };
  await mkdir(engineRecordsDirectory(journalDirectory), { recursive: true, mode: 0o700 });
  await writeFile(recordPath(journalDirectory, engineId), JSON.stringify(record), { mode: 0o600 });
}

export function forgetEngine(journalDirectory: string, engineId: string): void {
  rmSync(recordPath(journalDirectory, engineId), { force: true });
}

export function recordPath(journalDirectory: string, engineId: string): string {
  return join(engineRecordsDirectory(journalDirectory), `${engineId}.json`);
}
