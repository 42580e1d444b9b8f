import type { ProcessHost } from '../../src-main/nodejs/process-host/process-host.ts';
import { forgetEngine, recordEngine } from './engine-record.ts';

/**
 * The same, with the processes that it forks in the journal of engines. One that hangs or was stopped does not hear that
 * its worker is gone: the next start of the worker ends it, and what it had started ends with it.
 */
export function journalledHosts(processHost: ProcessHost, journalDirectory: string): ProcessHost {
  return {
    fork(entry, options) {
      const host = processHost.fork(entry, options);
      const { pid } = host;
      if (pid === undefined) return host;
      const id = `${entry}-${pid}`;
      const recorded = recordEngine(journalDirectory, id, { pid, executable: process.execPath }).catch(
        // Without a record nobody looks for it.
        () => undefined,
      );
      host.onExit(() => void recorded.then(() => forgetEngine(journalDirectory, id)));
      return host;
    },
  };
}
