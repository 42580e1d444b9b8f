import { createInterface } from 'node:readline';
import { utilityProcess } from 'electron';
import type { Logger } from '#shared/lib/logger.ts';
import { childEnvironment } from '../nodejs/process-host/child-process-host.ts';
import type { HostEntry, HostProcess, ProcessHost } from '../nodejs/process-host/process-host.ts';

const maxLineCharacters = 4_096;

/**
 * `ProcessHost` of the desktop app: Electron's utility processes, so that children run on the app's own Node.js
 * and show under their names in system monitors. To be used once the app is ready.
 * @param entries absolute path of each entry file
 */
export function createUtilityProcessHost(
  entries: Readonly<Record<HostEntry, string>>,
  logger: Logger,
): ProcessHost {
  return {
    fork(entry, { label }): HostProcess {
      const child = utilityProcess.fork(entries[entry], [label], {
        env: childEnvironment(),
        stdio: ['ignore', 'ignore', 'pipe'],
        serviceName: `Covey ${label}`,
      });
      if (child.stderr) {
        const lines = createInterface({ input: child.stderr });
        lines.on('line', (line) => logger.warn(line.slice(0, maxLineCharacters), { from: label }));
      }
      const exitListeners: Array<Parameters<HostProcess['onExit']>[0]> = [];
      let exited = false;
      let fatal: string | null = null;
      child.on('error', (type, location) => {
        fatal = `${type} at ${location}`;
      });
      child.once('exit', (code) => {
        exited = true;
        const detail = fatal ?? `exited with code ${code}`;
        for (const listener of exitListeners) listener({ code, signal: null, detail });
      });
      return {
        get pid() {
          return child.pid;
        },
        send(message) {
          if (!exited) child.postMessage(message);
        },
        onMessage(listener) {
          child.on('message', listener);
        },
        onExit(listener) {
          exitListeners.push(listener);
        },
        kill() {
          if (exited) return;
          // Electron's own kill asks politely; this is the forced end.
          if (child.pid === undefined || !killNow(child.pid)) child.kill();
        },
      };
    },
  };
}

function killNow(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    return false;
  }
}
