import { createServer, type Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import { CoveyError } from '#shared/errors.ts';

/** Ports of this machine that are kept free for a rank until it starts. */
export interface ReservedPorts {
  readonly host: string;
  readonly ports: readonly number[];
  /** Resolves when they are free for the rank; idempotent. */
  release(): Promise<void>;
}

/**
 * Keeps ports free by listening on them, at the address of `network.interface` within its range; null: on loopback,
 * wherever the system likes.
 * @param random a number in [0, 1)
 * @throws CoveyError `network_forbidden` when the interface has no address, `gang_incomplete` without enough ports
 */
export async function reservePorts(
  count: number,
  network: {
    readonly interface: string;
    readonly ports: { readonly from: number; readonly to: number };
  } | null,
  random: () => number,
): Promise<ReservedPorts> {
  const host = network === null ? '127.0.0.1' : addressOf(network.interface);
  const servers: Server[] = [];
  const release = async (): Promise<void> => {
    await Promise.all(
      servers.splice(0).map((server) => new Promise<void>((resolve) => server.close(() => resolve()))),
    );
  };
  const ports: number[] = [];
  try {
    if (network === null) {
      while (ports.length < count) ports.push(await listen(0, host, servers));
    } else {
      const { from, to } = network.ports;
      const size = to - from + 1;
      const begin = Math.floor(random() * size);
      for (let step = 0; step < size && ports.length < count; step += 1) {
        const port = await listen(from + ((begin + step) % size), host, servers).catch(() => null);
        if (port !== null) ports.push(port);
      }
      if (ports.length < count) {
        const message = `there are only ${ports.length} free ports of ${count} from ${from} to ${to} on ${host}`;
        throw new CoveyError('gang_incomplete', message);
      }
    }
    return { host, ports, release };
  } catch (error) {
    await release();
    throw error;
  }
}

function addressOf(name: string): string {
  const addresses = networkInterfaces()[name] ?? [];
  const found = addresses.find(({ family }) => family === 'IPv4') ?? addresses[0];
  if (!found) {
    const message = `the network interface ${name}, which the owner has set for programs, has no address now`;
    throw new CoveyError('network_forbidden', message);
  }
  return found.family === 'IPv6' && found.scopeid ? `${found.address}%${name}` : found.address;
}

function listen(port: number, host: string, servers: Server[]): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once('error', reject);
    server.listen({ port, host, exclusive: true }, () => {
      const address = server.address();
      if (address === null || typeof address === 'string') {
        server.close();
        reject(new Error('the system gave no port'));
        return;
      }
      servers.push(server);
      server.unref();
      resolve(address.port);
    });
  });
}
