import { fork } from 'node:child_process';
import type { ForkOptions, HostEntry, HostProcess, ProcessHost } from './process-host.ts';

/** Only what a child of ours needs; secrets and the user's settings for other programs stay out. */
const passedVariables = [
  'PATH',
  'HOME',
  'USERPROFILE',
  'SystemRoot',
  'TEMP',
  'TMP',
  'TMPDIR',
  'LANG',
  'LC_ALL',
  'NODE_V8_COVERAGE',
];

export function childEnvironment(): NodeJS.ProcessEnv {
  const environment: NodeJS.ProcessEnv = {};
  for (const name of passedVariables) {
    const value = process.env[name];
    if (value !== undefined) environment[name] = value;
  }
  return environment;
}

/**
 * `child_process` implementation. The channel carries structured clones, so Uint8Array stays one.
 * @param entries absolute path of each entry file
 */
export function createChildProcessHost(entries: Readonly<Record<HostEntry, string>>): ProcessHost {
  return {
    fork(entry: HostEntry, options: ForkOptions): HostProcess {
      // Small semi-spaces: these processes move bytes and short messages, a grown young generation is only RSS.
      const child = fork(entries[entry], [options.label], {
        env: childEnvironment(),
        execArgv: ['--max-semi-space-size=2'],
        serialization: 'advanced',
        stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      });
      const exitListeners: Array<Parameters<HostProcess['onExit']>[0]> = [];
      let exited = false;
      const finish = (code: number | null, signal: string | null, detail: string): void => {
        if (exited) return;
        exited = true;
        for (const listener of exitListeners) listener({ code, signal, detail });
      };
      child.on('exit', (code, signal) =>
        finish(code, signal, signal ? `killed by ${signal}` : `exited with code ${code ?? 'unknown'}`),
      );
      child.on('error', (error) => finish(null, null, `could not run: ${error.message}`));
      return {
        get pid() {
          return child.pid;
        },
        send(message) {
          if (child.connected) child.send(message as object, () => undefined);
        },
        onMessage(listener) {
          child.on('message', listener);
        },
        onExit(listener) {
          exitListeners.push(listener);
        },
        kill() {
          child.kill('SIGKILL');
        },
      };
    },
  };
}
