import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { tls, tlsSettings } from '../../src-main/nodejs/transport/tls-settings.ts';

/**
 * What the way to another machine's engine is measured against: two processes that join plain sockets by TLS
 * with `pipe`, under the same settings as ours. Arguments: `near` or `far`, and the port to pass to. The key
 * comes by IPC; the own port is told by IPC. The connection is opened per client, as tunnels are.
 */
export interface TlsPipeKey {
  readonly keyPem: string;
  readonly certPem: string;
}

const [side, port = '0'] = process.argv.slice(2);

function join(one: Socket, other: Socket): void {
  one.setNoDelay();
  other.setNoDelay();
  one.pipe(other);
  other.pipe(one);
  for (const [end, opposite] of [
    [one, other],
    [other, one],
  ] as const) {
    end.on('error', () => undefined);
    end.on('close', () => opposite.destroy());
  }
}

process.once('message', (key: TlsPipeKey) => {
  const settings = tlsSettings(key);
  const context = tls.createSecureContext(settings);
  const server: Server =
    side === 'far'
      ? tls.createServer({ ...settings, requestCert: true, rejectUnauthorized: false }, (socket) =>
          join(socket, connect(Number(port), '127.0.0.1')),
        )
      : createServer((socket) => {
          const far = tls.connect({
            host: '127.0.0.1',
            port: Number(port),
            secureContext: context,
            rejectUnauthorized: false,
          });
          join(socket, far);
        });
  server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
});
process.on('disconnect', () => process.exit(0));
