import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { EngineId } from '#shared/lib/ids.ts';
import { identifyProcess } from './process-table.ts';

/**
 * One small file per native program that runs: `<journal>/engines/<engine id>.json` with pid, start time and
 * executable. The engine host writes it right after the start and removes it after the program's end, so what
 * is left at the next start of the worker names what may have outlived a crash (see sweep.ts).
 */
export function engineRecordsDirectory(journalDirectory: string): string {
  return join(journalDirectory, 'engines');
}

/** Records a program that was just started. One whose identity the system does not tell is not recorded. */
export function recordEngine(journalDirectory: string, engineId: EngineId, pid: number): void {
  const identity = identifyProcess(pid);
  if (!identity) return;
  mkdirSync(engineRecordsDirectory(journalDirectory), { recursive: true, mode: 0o700 });
  writeFileSync(recordPath(journalDirectory, engineId), JSON.stringify({ pid, ...identity }), {
    mode: 0o600,
  });
}

export function forgetEngine(journalDirectory: string, engineId: EngineId): void {
  rmSync(recordPath(journalDirectory, engineId), { force: true });
}

export function recordPath(journalDirectory: string, engineId: EngineId): string {
  return join(engineRecordsDirectory(journalDirectory), `${engineId}.json`);
}
