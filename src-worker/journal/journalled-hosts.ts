import type { ProcessHost } from '../../src-main/nodejs/process-host/process-host.ts';
import { forgetEngine, recordEngine } from './engine-record.ts';

/**
 * The same, with the processes that it forks in the journal. One that hangs or was stopped does not hear that its parent
 * is gone, and holds its port: the next start ends it, and what it had started ends with it.
 */
export function journalledHosts(processHost: ProcessHost, journalDirectory: string): ProcessHost {
  return {
    fork(entry, options) {
      const host = processHost.fork(entry, options);
      let recorded: Promise<string> | null = null;
      const record = (executable?: string): void => {
        const { pid } = host;
        if (pid === undefined || recorded) return;
        const id = `${entry}-${pid}`;
        // Without a record nobody looks for it.
        recorded = recordEngine(journalDirectory, id, { pid, executable }).then(
          () => id,
          () => id,
        );
      };
      // It may still be this very program, until it becomes its own.
      record(process.execPath);
      // Electron tells the number only when the process runs; the program of one may then be another than its own.
      if (!recorded) host.onMessage(() => record());
      host.onExit(() => void recorded?.then((id) => forgetEngine(journalDirectory, id)));
      return host;
    },
  };
}
