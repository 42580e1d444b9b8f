import { appendFileSync, mkdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const maxLogBytes = 4 * 1024 * 1024;

/** A desktop app has no terminal: its log and its last words are files in `logs/` of the data directory. */
export interface LogFiles {
  readonly directory: string;
  /** Appends to `covey.log`; at 4 MiB it becomes `covey.1.log`. Never throws: a full disk is told elsewhere. */
  write(line: string): void;
  /** Writes what ended the app to `crash-TIME.log`. @returns its path, null when that failed too */
  crash(text: string): string | null;
}

/** @param now epoch ms, for the names of crash logs */
export function openLogFiles(dataDirectory: string, now: () => number): LogFiles {
  const directory = join(dataDirectory, 'logs');
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const path = join(directory, 'covey.log');
  let bytes = sizeOf(path);
  return {
    directory,
    write(line) {
      try {
        if (bytes > maxLogBytes) {
          renameSync(path, join(directory, 'covey.1.log'));
          bytes = 0;
        }
        appendFileSync(path, line, { mode: 0o600 });
        bytes += Buffer.byteLength(line);
      } catch {
        bytes = 0;
      }
    },
    crash(text) {
      const file = join(directory, `crash-${new Date(now()).toISOString().replaceAll(':', '-')}.log`);
      try {
        writeFileSync(file, text, { mode: 0o600, flag: 'wx' });
        return file;
      } catch {
        return null;
      }
    },
  };
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
