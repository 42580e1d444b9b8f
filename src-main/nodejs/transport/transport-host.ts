import { CoveyError } from '#shared/errors.ts';
import type { TransportCommand } from '#shared/host/transport.ts';
import { parentPort } from '../process-host/parent-port.ts';
import { createTransportHost, type TransportHost } from './host/host.ts';

/** Entry of the transport process. Its first command is `init`; it ends with its parent. */
const port = parentPort();
let host: TransportHost | null = null;
/** Commands that came while the listener was being opened. */
let early: Array<Parameters<TransportHost['handle']>[0]> | null = null;

function end(code: number): never {
  host?.close();
  process.exit(code);
}

port.onDisconnect(() => end(0));
port.onMessage((message) => {
  const command = message as TransportCommand;
  if (command.type === 'stop') {
    host?.close();
    // What the closing connections still have to say gets a moment.
    setTimeout(() => process.exit(0), 100);
  } else if (command.type === 'init') {
    early = [];
    createTransportHost(command.init, (event) => port.send(event)).then(
      (created) => {
        host = created;
        for (const waiting of early ?? []) created.handle(waiting);
        early = null;
      },
      (error: unknown) => {
        port.send({ type: 'failed', error: CoveyError.from(error).toBody() });
      },
    );
  } else if (host) {
    host.handle(command);
  } else {
    early?.push(command);
  }
});

process.on('uncaughtException', (error) => {
  port.send({
    type: 'log',
    level: 'error',
    message: `unexpected error, ending: ${error.stack ?? error.message}`,
  });
  setTimeout(() => end(1), 100);
});

// A signal to the whole group reaches the main process too, which ends us in its own time.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => undefined);
