import { chmod, rm } from 'node:fs/promises';
import { connect, type ListenOptions, type Server } from 'node:net';
import type { ListenAddress } from '#shared/config.ts';
import { CoveyError } from '#shared/errors.ts';
import { portInUse } from './port-owner.ts';

const portAttempts = 20;
const answerMs = 2_000;

/**
 * Listens on loopback, on IPv4 and on IPv6 where the machine has it: clients take "localhost" for either.
 * @param makeServer called once per address family
 * @returns the servers, which share one port, and that port (port 0 resolved)
 * @throws CoveyError `port_in_use` naming the port's owner, `config_invalid` for a host that is not loopback
 */
export async function listenLoopback(
  address: ListenAddress,
  makeServer: () => Server,
): Promise<{ servers: Server[]; port: number }> {
  const hosts = loopbackHosts(address.host);
  for (let attempt = 1; ; attempt++) {
    const servers: Server[] = [];
    let { port } = address;
    try {
      for (const host of hosts) {
        const server = makeServer();
        if (!(await tryListen(server, { host, port, exclusive: true }))) continue;
        servers.push(server);
        const bound = server.address();
        if (bound !== null && typeof bound === 'object') port = bound.port;
      }
      if (servers.length > 0) return { servers, port };
      throw new CoveyError('config_invalid', `This machine has no address ${address.host}.`, {
        field: 'api',
      });
    } catch (error) {
      servers.forEach((server) => server.close());
      if (!isCode(error, 'EADDRINUSE', 'EACCES')) throw error;
      // A free port on IPv4 may be taken on IPv6: with port 0 another one will do.
      if (address.port === 0 && attempt < portAttempts) continue;
      if (isCode(error, 'EACCES')) {
        const why = `Port ${port} needs rights that this program has not. Choose one above 1023 with --api.`;
        throw new CoveyError('config_invalid', why, { field: 'api' });
      }
      throw await portInUse(address.host, port, 'Choose another with --api HOST:PORT.');
    }
  }
}

/**
 * Listens on all addresses, IPv4 and IPv6 where the machine has both.
 * @returns the port (port 0 resolved)
 * @throws CoveyError `port_in_use` naming the port's owner, `config_invalid`
 */
export async function listenEverywhere(server: Server, port: number): Promise<number> {
  const field = 'lan.port';
  try {
    const both = await tryListen(server, { host: '::', port, ipv6Only: false });
    if (!both) await tryListen(server, { host: '0.0.0.0', port });
  } catch (error) {
    if (isCode(error, 'EADDRINUSE')) {
      const taken = await portInUse('all addresses', port, 'Choose another: covey config set lan.port PORT.');
      throw new CoveyError(taken.code, taken.message, { field }, error);
    }
    if (!isCode(error, 'EACCES')) throw error;
    const why = `Port ${port} needs rights that this program has not. Choose one above 1023 as lan.port.`;
    throw new CoveyError('config_invalid', why, { field }, error);
  }
  const bound = server.address();
  return bound !== null && typeof bound === 'object' ? bound.port : port;
}

/**
 * Listens on a unix socket (0600) or a Windows named pipe. A socket that a dead process left is replaced.
 * @throws CoveyError `port_in_use` when somebody answers there
 */
export async function listenLocalSocket(server: Server, path: string): Promise<void> {
  if (await answers(path)) throw new CoveyError('port_in_use', `Another process listens on ${path}.`);
  if (process.platform !== 'win32') await rm(path, { force: true });
  await tryListen(server, { path });
  if (process.platform !== 'win32') await chmod(path, 0o600);
}

function loopbackHosts(host: string): string[] {
  if (host === '127.0.0.1' || host === 'localhost') return ['127.0.0.1', '::1'];
  if (host === '::1') return ['::1'];
  throw new CoveyError(
    'config_invalid',
    `The API is for this machine only: the host must be 127.0.0.1, localhost or [::1], got "${host}".`,
    { field: 'api' },
  );
}

/** False when the machine lacks this address. */
function tryListen(server: Server, options: ListenOptions): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error): void => {
      server.off('listening', onListening);
      if (isCode(error, 'EADDRNOTAVAIL', 'EAFNOSUPPORT')) resolve(false);
      else reject(error);
    };
    const onListening = (): void => {
      server.off('error', onError);
      resolve(true);
    };
    server.once('error', onError);
    server.once('listening', onListening);
    server.listen(options);
  });
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    const finish = (answer: boolean): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(answer);
    };
    // Who neither answers nor refuses is there all the same.
    const timer = setTimeout(() => finish(true), answerMs);
    socket.once('connect', () => finish(true));
    socket.once('error', () => finish(false));
  });
}

function isCode(error: unknown, ...codes: string[]): boolean {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return code !== undefined && codes.includes(code);
}
