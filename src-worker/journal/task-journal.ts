import { appendFileSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { taskReportSchema } from '#shared/domain/task.ts';
import type { TaskId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { EndReport } from '../agent/tasks/state.ts';

/** Ends of tasks that the controller has not recorded yet, so that they outlive this program. */
export interface TaskJournal {
  /** As they were when it was opened. */
  readonly kept: readonly EndReport[];
  write(ends: readonly EndReport[], settled: readonly TaskId[]): void;
}

/** Beyond this it is written anew; what does not fit then is repeated work, and no error. */
const maxBytes = 64 * 1024 * 1024;
const compactBytes = 1024 * 1024;

/**
 * `<journal>/tasks.jsonl`: a line for each end, and one for each list of ends that were settled. It is only appended
 * to, without waiting for the disk: it is for a program that ends, and whoever loses a line repeats a task. Lines that
 * do not read are skipped.
 */
export function openTaskJournal(journalDirectory: string, logger: Logger): TaskJournal {
  const path = join(journalDirectory, 'tasks.jsonl');
  const ends = readEnds(path);
  const kept = [...ends.values()];
  let bytes = 0;
  let complained = false;

  const rewrite = (): void => {
    mkdirSync(journalDirectory, { recursive: true, mode: 0o700 });
    const text = [...ends.values()].map((end) => `${JSON.stringify({ end })}\n`).join('');
    writeFileSync(`${path}.new`, text, { mode: 0o600 });
    renameSync(`${path}.new`, path);
    bytes = Buffer.byteLength(text);
  };
  const guarded = (work: () => void): void => {
    try {
      work();
    } catch (error) {
      if (!complained)
        logger.warn('the journal of tasks could not be written', { reason: String(error), path });
      complained = true;
    }
  };
  guarded(() => {
    if (ends.size > 0 || existing(path)) rewrite();
  });
  return {
    kept,
    write(newEnds, settled) {
      for (const taskId of settled) ends.delete(taskId);
      let lines = settled.length > 0 ? `${JSON.stringify({ settled })}\n` : '';
      for (const end of newEnds) {
        ends.set(end.taskId, end);
        lines += `${JSON.stringify({ end })}\n`;
      }
      guarded(() => {
        const grown = bytes + Buffer.byteLength(lines);
        if (grown > maxBytes)
          for (const oldest of [...ends.keys()].slice(0, ends.size / 2)) ends.delete(oldest);
        if (grown > maxBytes || (ends.size === 0 && grown > compactBytes)) {
          rewrite();
          return;
        }
        if (bytes === 0) mkdirSync(journalDirectory, { recursive: true, mode: 0o700 });
        appendFileSync(path, lines, { mode: 0o600 });
        bytes = grown;
      });
    },
  };
}

function readEnds(path: string): Map<TaskId, EndReport> {
  const ends = new Map<TaskId, EndReport>();
  for (const line of linesOf(path)) {
    const entry = parse(line);
    const end = taskReportSchema.safeParse(entry?.end);
    if (end.success && (end.data.type === 'done' || end.data.type === 'failed')) {
      ends.set(end.data.taskId, end.data);
    }
    if (Array.isArray(entry?.settled)) for (const taskId of entry.settled) ends.delete(taskId as TaskId);
  }
  return ends;
}

function linesOf(path: string): string[] {
  try {
    if (statSync(path).size > 2 * maxBytes) return [];
    return readFileSync(path, 'utf8').split('\n');
  } catch {
    return [];
  }
}

function parse(line: string): { readonly end?: unknown; readonly settled?: unknown } | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? value : null;
  } catch {
    return null;
  }
}

function existing(path: string): boolean {
  try {
    return statSync(path).size > 0;
  } catch {
    return false;
  }
}
