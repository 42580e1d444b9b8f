import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import type { Address } from '#shared/domain/node.ts';
import { CoveyError } from '#shared/errors.ts';
import type { EngineId } from '#shared/lib/ids.ts';
import { createLogger } from '../logging.ts';
import { createSelfSigned } from '../identity/self-signed.ts';
import { nodeIdOfCertificate } from '../identity/node-id.ts';
import type { Identity } from '../identity/identity.ts';

/** What the tests of this directory share. */

export const stageId = 'd-00000000.1.1' as EngineId;
export const leaderId = 'd-00000000.1.0' as EngineId;

export async function makeIdentity(): Promise<Identity> {
  const { keyPem, certPem } = await createSelfSigned(0);
  return { nodeId: nodeIdOfCertificate(certPem), keyPem, certPem, createdAt: 0 };
}

export function makeToken(): string {
  return randomBytes(32).toString('hex');
}

export const silentLogger = createLogger({ write: () => undefined });

export async function refusalOf(attempt: Promise<unknown>): Promise<CoveyError> {
  const error: unknown = await attempt.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (error instanceof CoveyError) return error;
  throw new Error(`expected a CoveyError, got ${String(error)}`);
}

/** Rejects when `what` does not happen in time. */
export function within<T>(promise: Promise<T>, ms: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${ms} ms: ${what}`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Polls until `condition` holds. */
export async function until(condition: () => boolean, what: string, ms = 5_000): Promise<void> {
  const deadline = performance.now() + ms;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export interface LoopbackServer {
  readonly port: number;
  readonly address: Address;
  readonly sockets: Set<Socket>;
  /** Total of connections so far. */
  readonly accepted: () => number;
  close(): Promise<void>;
}

/** A TCP server on a random loopback port. */
export async function listenLoopback(
  onSocket: (socket: Socket) => void,
  options: { readonly allowHalfOpen?: boolean } = {},
): Promise<LoopbackServer> {
  const sockets = new Set<Socket>();
  let accepted = 0;
  const server: Server = createServer({ noDelay: true, ...options }, (socket) => {
    accepted += 1;
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => sockets.delete(socket));
    onSocket(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    port,
    address: { host: '127.0.0.1', port },
    sockets,
    accepted: () => accepted,
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** A stand-in for an engine that sends back what it gets. */
export function listenEcho(): Promise<LoopbackServer> {
  return listenLoopback((socket) => socket.pipe(socket));
}

export function sha256(data: Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}
