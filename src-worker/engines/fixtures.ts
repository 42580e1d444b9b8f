import type { HostProcess, ProcessHost } from '../../src-main/nodejs/process-host/process-host.ts';

/** For tests: a host whose behaviour the test plays. It dies when killed. */
export interface PlayedHost {
  readonly label: string;
  readonly sent: unknown[];
  readonly killed: boolean;
  say(message: unknown): void;
  exit(detail: string): void;
}

export function playedProcessHost(): { readonly processHost: ProcessHost; readonly hosts: PlayedHost[] } {
  const hosts: PlayedHost[] = [];
  const processHost: ProcessHost = {
    fork(_entry, { label }) {
      const messages: ((message: unknown) => void)[] = [];
      const exits: Parameters<HostProcess['onExit']>[0][] = [];
      let gone = false;
      const host = {
        label,
        sent: [] as unknown[],
        killed: false,
        say: (message: unknown) => messages.forEach((listener) => listener(message)),
        exit(detail: string) {
          if (gone) return;
          gone = true;
          for (const listener of exits) listener({ code: null, signal: null, detail });
        },
      };
      hosts.push(host);
      return {
        pid: 1,
        send: (message) => host.sent.push(message),
        onMessage: (listener) => messages.push(listener),
        onExit: (listener) => exits.push(listener),
        kill() {
          host.killed = true;
          host.exit('killed by SIGKILL');
        },
      };
    },
  };
  return { processHost, hosts };
}
