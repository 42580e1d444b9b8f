import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { connect as tlsConnect, type ConnectionOptions } from 'node:tls';
import type { Address } from '#shared/domain/node.ts';
import { CoveyError } from '#shared/errors.ts';
import type { TransportAudit, TransportEvent, TransportInit } from '#shared/host/transport.ts';
import type { EngineId } from '#shared/lib/ids.ts';
import { createLogger } from '../logging.ts';
import { createSelfSigned } from '../identity/self-signed.ts';
import { nodeIdOfCertificate } from '../identity/node-id.ts';
import type { Identity } from '../identity/identity.ts';
import { createTransportHost, type TransportHost } from './host/host.ts';

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

/** Resolves when the socket has closed, also when that was before the question. */
export async function hasClosed(socket: {
  readonly closed: boolean;
  once(event: 'close', listener: () => void): unknown;
}): Promise<void> {
  if (!socket.closed) await new Promise<void>((resolve) => void socket.once('close', resolve));
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

export interface TestHost {
  readonly identity: Identity;
  readonly address: Address;
  readonly events: TransportEvent[];
  readonly host: TransportHost;
  /** The first event that matches, past or future; rejects when one comes that `failed` names. */
  event<T extends TransportEvent['type']>(
    type: T,
    matches?: (event: Extract<TransportEvent, { type: T }>) => boolean,
    failed?: (event: TransportEvent) => boolean,
  ): Promise<Extract<TransportEvent, { type: T }>>;
  audits(): TransportAudit[];
}

/** A transport host inside the test's own process, on a random loopback port. */
export async function startHost(
  identity: Identity,
  init: Partial<TransportInit> = {},
  onEvent: (event: TransportEvent) => void = () => undefined,
): Promise<TestHost> {
  const events: TransportEvent[] = [];
  const host = await createTransportHost(
    {
      nodeId: identity.nodeId,
      keyPem: identity.keyPem,
      certPem: identity.certPem,
      role: 'worker',
      listen: { host: '127.0.0.1', port: 0 },
      gatewaySocket: null,
      pulseMs: 50,
      pulseLostMs: 400,
      members: [],
      grants: [],
      artifactDirectory: null,
      artifactGrants: [],
      relay: null,
      uploadBytesPerS: null,
      ...init,
    },
    (event) => {
      events.push(event);
      onEvent(event);
    },
  );
  const [ready] = events;
  if (ready?.type !== 'ready') throw new Error('the host did not say that it is ready');
  return {
    identity,
    events,
    host,
    get address() {
      if (!ready.clusterAddress) throw new Error('this host does not listen');
      return ready.clusterAddress;
    },
    async event(type, matches, failed) {
      type Event = Extract<TransportEvent, { type: typeof type }>;
      const find = (): Event | undefined =>
        events.find((event): event is Event => event.type === type && (matches?.(event as Event) ?? true));
      const failure = (): TransportEvent | undefined => failed && events.find(failed);
      await until(() => (find() ?? failure()) !== undefined, `event ${type}`, 10_000);
      const wrong = failure();
      if (wrong)
        throw 'error' in wrong && wrong.error ? CoveyError.fromBody(wrong.error) : new Error(wrong.type);
      return find() as Event;
    },
    audits: () => events.flatMap((event) => (event.type === 'audit' ? [event.audit] : [])),
  };
}

/** What a peer of any kind sees of a TLS port: the bytes it got until the end, and how it ended. */
export interface Observed {
  readonly connected: boolean;
  readonly bytes: Buffer;
  readonly error: string | null;
}

/**
 * Dials with any TLS options, writes `hello`, and waits until the other side ends the connection (or for
 * `maxMs`).
 */
export function observeTls(
  port: number,
  options: ConnectionOptions,
  hello: Uint8Array | string = '',
  maxMs = 3_000,
): Promise<Observed> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let connected = false;
    let error: string | null = null;
    const socket = tlsConnect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...options }, () => {
      connected = true;
      if (hello.length > 0) socket.write(hello);
    });
    const timer = setTimeout(() => {
      error = 'still open';
      socket.destroy();
    }, maxMs);
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.on('error', (thrown: NodeJS.ErrnoException) => (error = thrown.code ?? thrown.message));
    socket.on('close', () => {
      clearTimeout(timer);
      resolve({ connected, bytes: Buffer.concat(chunks), error });
    });
  });
}
