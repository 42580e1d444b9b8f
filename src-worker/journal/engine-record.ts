import { rmSync } from 'node:fs';
import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { processStartTime } from '../../src-main/nodejs/process-start-time.ts';
import { identifyProcess } from './process-identity.ts';

/**
 * One small file per native program that runs: `<journal>/engines/<engine id>.json` with pid, start time,
 * executable and where the journal is. The engine host writes it right after the start and removes it after the program's end, so what
 * is left at the next start names what may have outlived a crash (see sweep.ts). Our own child processes have one too
 * (journalled-hosts.ts).
 */
export function engineRecordsDirectory(journalDirectory: string): string {
  return join(journalDirectory, 'engines');
}

/**
 * Records a program that was just started. One whose start time the system does not tell is not recorded.
 * @param program.executable what it is or is about to become: the launcher may not have given way to it yet. Absent:
 *   what it is now
 */
export async function recordEngine(
  journalDirectory: string,
  engineId: string,
  program: { readonly pid: number; readonly executable?: string | undefined },
): Promise<void> {
  const { pid } = program;
  const startedAt = await processStartTime(pid);
  const executable = program.executable ?? (await identifyProcess(pid))?.executable;
  if (startedAt === null || executable === undefined) return;
  await mkdir(engineRecordsDirectory(journalDirectory), { recursive: true, mode: 0o700 });
  const record = {
    ...{ pid, startedAt, executable: await realpath(executable) },
    // A copy of the data directory is another node: what runs is not its to end.
    journal: await realpath(journalDirectory),
  };
  await writeFile(recordPath(journalDirectory, engineId), JSON.stringify(record), { mode: 0o600 });
}

export function forgetEngine(journalDirectory: string, engineId: string): void {
  rmSync(recordPath(journalDirectory, engineId), { force: true });
}

export function recordPath(journalDirectory: string, engineId: string): string {
  return join(engineRecordsDirectory(journalDirectory), `${engineId}.json`);
}
