import { createServer, type Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import { CoveyError } from '#shared/errors.ts';

/** Ports of this machine that are a rank's. */
export interface ReservedPorts {
  readonly host: string;
  readonly ports: readonly number[];
  /** Lets go of them for the rank that starts; resolves when it can listen there. Idempotent. */
  release(): Promise<void>;
  /** The rank is over: another may have them. Idempotent. */
  end(): Promise<void>;
}

export interface PortReserve {
  /**
   * Keeps ports free by listening on them, at the address of `network.interface` within its range; null: on loopback,
   * wherever the system likes. A rank may listen on its own much later than it starts, so nobody else gets them before
   * its end.
   * @throws CoveyError `network_forbidden` when the interface has no address, `gang_incomplete` without enough ports
   */
  reserve(count: number, network: PortNetwork | null): Promise<ReservedPorts>;
}

interface PortNetwork {
  readonly interface: string;
  readonly ports: { readonly from: number; readonly to: number };
}

/** @param random a number in [0, 1) */
export function createPortReserve(random: () => number): PortReserve {
  /** Of all ranks here, whether they listen there or not. */
  const owned = new Set<number>();
  return { reserve: (count, network) => reservePorts(count, network, random, owned) };
}

async function reservePorts(
  count: number,
  network: PortNetwork | null,
  random: () => number,
  owned: Set<number>,
): Promise<ReservedPorts> {
  const host = network === null ? '127.0.0.1' : addressOf(network.interface);
  const servers: Server[] = [];
  const release = async (): Promise<void> => {
    await Promise.all(
      servers.splice(0).map((server) => new Promise<void>((resolve) => server.close(() => resolve()))),
    );
  };
  const ports: number[] = [];
  const own = (port: number): void => {
    ports.push(port);
    owned.add(port);
  };
  const end = async (): Promise<void> => {
    await release();
    for (const port of ports.splice(0)) owned.delete(port);
  };
  try {
    if (network === null) {
      while (ports.length < count) own(await listen(0, host, servers));
    } else {
      const { from, to } = network.ports;
      const size = to - from + 1;
      const begin = Math.floor(random() * size);
      for (let step = 0; step < size && ports.length < count; step += 1) {
        const wanted = from + ((begin + step) % size);
        if (owned.has(wanted)) continue;
        const port = await listen(wanted, host, servers).catch(() => null);
        if (port !== null) own(port);
      }
      if (ports.length < count) {
        const message = `there are only ${ports.length} free ports of ${count} from ${from} to ${to} on ${host}`;
        throw new CoveyError('gang_incomplete', message);
      }
    }
    return { host, ports: [...ports], release, end };
  } catch (error) {
    await end();
    throw error;
  }
}

/** Whether ranks could be reached at this interface now; those of a VPN come and go. */
export function hasAddress(name: string): boolean {
  return (networkInterfaces()[name] ?? []).length > 0;
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
