import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import type { Logger } from '#shared/lib/logger.ts';
import { engineRecordsDirectory, forgetEngine, recordPath } from './engine-record.ts';
import { identifyProcess } from './process-identity.ts';

const recordSchema = z.object({
  pid: z.number().int().positive(),
  startedAt: z.string().max(128),
  executable: z.string().max(4096),
  journal: z.string().max(4096).optional(),
});
type EngineRecord = z.infer<typeof recordSchema>;

const waitMs = 3_000;
const pollMs = 25;

/**
 * Ends engines and processes of ours that outlived an earlier run here and empties the journal of them. A process is ours
 * only if pid, start time and executable all agree, and it was noted in this very journal, not in one that this is a copy
 * of; everything else is left alone. Resolves when they are gone
 * or after 3 s.
 */
export async function sweepEngines(journalDirectory: string, logger: Logger): Promise<void> {
  await Promise.all(
    recordedEngines(journalDirectory).map((engineId) => sweepEngine(journalDirectory, engineId, logger)),
  );
}

/** The same for one engine, whose host has gone without cleaning up. */
export async function sweepEngine(journalDirectory: string, engineId: string, logger: Logger): Promise<void> {
  const record = readRecord(recordPath(journalDirectory, engineId));
  const isCopy = record?.journal !== undefined && record.journal !== realPathOf(journalDirectory);
  if (record && !isCopy && (await isOurs(record))) {
    logger.warn('ending a process that outlived who started it', { process: engineId, pid: record.pid });
    killGroup(record.pid);
    const deadline = performance.now() + waitMs;
    while (await isOurs(record)) {
      if (performance.now() > deadline) {
        logger.error('a process that outlived who started it does not end', {
          process: engineId,
          pid: record.pid,
        });
        break;
      }
      await delay(pollMs);
    }
  }
  forgetEngine(journalDirectory, engineId);
}

function recordedEngines(journalDirectory: string): string[] {
  try {
    return readdirSync(engineRecordsDirectory(journalDirectory))
      .filter((name) => name.endsWith('.json'))
      .map((name) => name.slice(0, -'.json'.length));
  } catch {
    return [];
  }
}

function readRecord(path: string): EngineRecord | null {
  try {
    return recordSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    return null;
  }
}

function realPathOf(directory: string): string | null {
  try {
    return realpathSync(directory);
  } catch {
    return null;
  }
}

async function isOurs(record: EngineRecord): Promise<boolean> {
  const running = await identifyProcess(record.pid);
  return (
    running !== null && running.startedAt === record.startedAt && running.executable === record.executable
  );
}

/** The launcher makes each engine the head of its own group; where that failed, the process alone. */
function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // Gone meanwhile.
    }
  }
}
