import { createSocket, type Socket } from 'node:dgram';
import { isVirtualInterface } from '../own-addresses.ts';

export interface InterfaceAddress {
  readonly name: string;
  readonly address: string;
  readonly family: 'IPv4' | 'IPv6';
  readonly netmask: string;
}

export interface InterfaceEcho {
  readonly name: string;
  readonly address: string;
  readonly virtual: boolean;
  /** Why nothing could be sent there; null: it was sent. */
  readonly problem: string | null;
  /** Our own question came back, as multicast does to its sender. */
  readonly heardSelf: boolean;
  /** Other devices of its network that said something meanwhile. */
  readonly heardOthers: number;
}

export interface MulticastEcho {
  /** Why UDP port 5353 cannot be shared; null: it can. */
  readonly bindProblem: string | null;
  readonly interfaces: readonly InterfaceEcho[];
}

const group = '224.0.0.251';
const port = 5353;
const listenMs = 1_200;
const maxInterfaces = 16;

/**
 * Asks on every IPv4 interface by multicast DNS who offers anything, and notes whose packets arrive within 1.2 s:
 * our own question (the way out and in is open here) and others' (there is somebody). Shares the port with the
 * responders of the system. Never rejects.
 */
export async function probeMulticast(addresses: readonly InterfaceAddress[]): Promise<MulticastEcho> {
  const targets = addresses.filter(({ family }) => family === 'IPv4').slice(0, maxInterfaces);
  const own = new Set(addresses.map(({ address }) => address));
  const heard = new Set<string>();
  const sockets: Socket[] = [];
  const problems = new Map<string, string>();
  try {
    const listener = await open({ port });
    sockets.push(listener);
    listener.on('message', (_data, from) => {
      if (heard.size < 1_024) heard.add(from.address);
    });
    for (const { address } of targets) {
      try {
        listener.addMembership(group, address);
      } catch (error) {
        // Already a member by another address of the same interface.
        if (codeOf(error) !== 'EADDRINUSE') problems.set(address, codeOf(error));
      }
    }
    for (const { address } of targets) {
      if (problems.has(address)) continue;
      const problem = await ask(address, sockets);
      if (problem !== null) problems.set(address, problem);
    }
    await new Promise((resolve) => setTimeout(resolve, targets.length === 0 ? 0 : listenMs));
  } catch (error) {
    return { bindProblem: codeOf(error), interfaces: [] };
  } finally {
    for (const socket of sockets) socket.close();
  }
  return {
    bindProblem: null,
    interfaces: targets.map(({ name, address, netmask }) => ({
      name,
      address,
      virtual: isVirtualInterface(name),
      problem: problems.get(address) ?? null,
      heardSelf: heard.has(address),
      heardOthers: [...heard].filter((other) => !own.has(other) && sameNetwork(other, address, netmask))
        .length,
    })),
  };
}

/** Sends from the interface itself: with port 5353 as source, so that what answers answers to the group. */
async function ask(address: string, sockets: Socket[]): Promise<string | null> {
  try {
    const socket = await open({ port });
    sockets.push(socket);
    socket.setMulticastInterface(address);
    socket.setMulticastTTL(255);
    socket.setMulticastLoopback(true);
    return await new Promise((resolve) => {
      socket.send(question, port, group, (error) => resolve(error ? codeOf(error) : null));
    });
  } catch (error) {
    return codeOf(error);
  }
}

function open(options: { readonly port: number }): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = createSocket({ type: 'udp4', reuseAddr: true });
    socket.on('error', reject);
    socket.bind({ port: options.port, address: '0.0.0.0', exclusive: true }, () => resolve(socket));
  });
}

/** RFC 6762: a query with two PTR questions, who is there at all and who is Covey. */
const question = Buffer.concat([
  Buffer.from([0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0]),
  ptrQuestion('_services._dns-sd._udp.local'),
  ptrQuestion('_covey._tcp.local'),
]);

function ptrQuestion(name: string): Buffer {
  const labels = name.split('.').map((label) => Buffer.from([label.length, ...Buffer.from(label, 'latin1')]));
  return Buffer.concat([...labels, Buffer.from([0, 0, 12, 0, 1])]);
}

/** Both IPv4, dotted. */
export function sameNetwork(one: string, other: string, netmask: string): boolean {
  const [a, b, mask] = [one, other, netmask].map((text) =>
    text.split('.').reduce((sum, part) => sum * 256 + Number(part), 0),
  );
  if (a === undefined || b === undefined || mask === undefined) return false;
  return (a & mask) === (b & mask);
}

function codeOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message ?? String(error);
}
