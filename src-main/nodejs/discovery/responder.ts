import type { RemoteInfo } from 'node:dgram';
import type { Server } from 'bonjour-service/dist/lib/mdns-server.js';
import type { OwnRecord } from './announcement.ts';
import { serviceName } from './announcement.ts';
import { readHeader } from './dns-message.ts';
import { FilteredSocket } from './filtered-socket.ts';
import type { InterfaceAddress } from './interfaces.ts';
import { take, type Bucket } from './packet-gate.ts';

/** One multicast DNS responder: a socket on one address of one interface. Never throws; `problem` tells. */
export interface Responder {
  readonly at: InterfaceAddress;
  /** What to answer with from now on; null: nothing. */
  answerWith(records: readonly OwnRecord[] | null): void;
  announce(records: readonly OwnRecord[]): void;
  /** As `announce`, with a lifetime of zero; resolves when it went out or could not. */
  sayGoodbye(records: readonly OwnRecord[]): Promise<void>;
  ask(): void;
  /** One clause without a subject, null while it works as far as is known. */
  problem(now: number): string | null;
  /** It will never work again; another one may. */
  readonly broken: boolean;
  close(): void;
}

export interface ResponderOptions {
  readonly at: InterfaceAddress;
  readonly Server: ServerClass;
  /** Called for every packet that comes in; whether it is looked at. */
  readonly admit: (from: RemoteInfo) => boolean;
  readonly onResponse: (packet: Buffer, from: RemoteInfo) => void;
  readonly now: () => number;
}

export type ServerClass = typeof Server;

/** The part of the library's object that is used (it comes without types). */
interface MulticastDns {
  on(event: 'error' | 'warning', listener: (error: NodeJS.ErrnoException) => void): void;
  /** It has joined the multicast group; tried again every few seconds until then. */
  on(event: 'networkInterface', listener: () => void): void;
  query(
    question: { questions: { name: string; type: string }[] },
    done: (error?: Error | null) => void,
  ): void;
  respond(message: { answers: readonly OwnRecord[] }, done: (error?: Error | null) => void): void;
  destroy(): void;
}

const mdnsPort = 5353;
const maxQuestions = 8;
/** Answers go to everyone, so that more of them help nobody; a question beyond is answered when there is room. */
const answers = { perS: 10, burst: 10 };
/** Multicast comes back to the sender's own socket at once, unless something between drops it. */
const echoMs = 1_500;
const goodbyeMs = 250;

export function createResponder({ at, Server, admit, onResponse, now }: ResponderOptions): Responder {
  let setupFailure: string | null = null;
  let sendFailure: string | null = null;
  let broken = false;
  let closed = false;
  /** When the first packet was sent that has not come back. */
  let unheardSince: number | null = null;
  let registered: readonly OwnRecord[] = [];
  const bucket: Bucket = { tokens: answers.burst, filledAt: now() };
  let waiting: NodeJS.Timeout | null = null;

  const accepts = (packet: Buffer, from: RemoteInfo): boolean => {
    if (closed) return false;
    if (from.address === at.address) unheardSince = null;
    if (!admit(from)) return false;
    const header = readHeader(packet);
    if (!header) return false;
    if (header.isResponse) {
      // RFC 6762, 6: responses come from port 5353, all others are ignored.
      if (from.port === mdnsPort) onResponse(packet, from);
      return false;
    }
    if (registered.length === 0 || header.questions === 0 || header.questions > maxQuestions) return false;
    if (!packet.includes('covey') && !packet.includes('_dns-sd')) return false;
    if (take(bucket, answers, now())) return true;
    waiting ??= setTimeout(() => {
      waiting = null;
      if (!closed && take(bucket, answers, now())) socket.replay(packet, from);
    }, 1_000 / answers.perS).unref();
    return false;
  };

  const socket = new FilteredSocket(accepts);
  const options = { bind: '0.0.0.0', interface: at.address, reuseAddr: true, socket };
  const sent = (error?: Error | null): void => {
    sendFailure = error ? explain(error) : null;
    if (!error) unheardSince ??= now();
  };
  const server = new Server(options as ConstructorParameters<ServerClass>[0], sent);
  const mdns = server.mdns as MulticastDns;
  mdns.on('error', (error) => {
    setupFailure = explain(error);
    broken = true;
  });
  mdns.on('warning', (error) => {
    // Without a system call's name it is about a packet that could not be read.
    if (error.syscall !== undefined) setupFailure = explain(error);
  });
  mdns.on('networkInterface', () => {
    if (!broken) setupFailure = null;
  });
  const attempt = (action: () => void): void => {
    if (closed || broken) return;
    try {
      action();
    } catch (error) {
      sendFailure = explain(error as NodeJS.ErrnoException);
    }
  };
  const respond = (records: readonly OwnRecord[], done = sent): void =>
    attempt(() => mdns.respond({ answers: records }, done));
  const unregister = (): void => {
    server.unregister([...registered] as never[]);
    registered = [];
  };

  return {
    at,
    answerWith(records) {
      unregister();
      registered = records ?? [];
      server.register([...registered] as never[]);
    },
    announce: (records) => respond(records),
    async sayGoodbye(records) {
      if (closed || broken) return;
      await new Promise<void>((resolve) => {
        setTimeout(resolve, goodbyeMs).unref();
        respond(
          records.map((record) => ({ ...record, ttl: 0 })),
          () => resolve(),
        );
      });
    },
    ask: () => attempt(() => mdns.query({ questions: [{ name: serviceName, type: 'PTR' }] }, sent)),
    problem(time) {
      const failure = setupFailure ?? sendFailure;
      if (failure !== null) return failure;
      if (unheardSince === null || time - unheardSince < echoMs) return null;
      return `hears nothing of what it sends there: a firewall on this machine seems to drop UDP port ${mdnsPort}`;
    },
    get broken() {
      return broken;
    },
    close() {
      if (closed) return;
      closed = true;
      if (waiting) clearTimeout(waiting);
      try {
        mdns.destroy();
      } catch {
        // It never opened.
      }
    },
  };
}

function explain(error: NodeJS.ErrnoException): string {
  switch (error.code) {
    case 'EADDRINUSE':
      return `cannot use UDP port ${mdnsPort}: another program holds it and does not share it`;
    case 'EACCES':
    case 'EPERM':
      return `may not use multicast there: a firewall or this system's policy forbids it`;
    case 'ENETUNREACH':
    case 'EHOSTUNREACH':
    case 'ENETDOWN':
    case 'EADDRNOTAVAIL':
      return `cannot send multicast there: the network is down or has no route for it`;
    case 'ENODEV':
    case 'ENOPROTOOPT':
    case 'EOPNOTSUPP':
      return `carries no multicast`;
    default:
      return `cannot use multicast there (${error.code ?? error.message})`.slice(0, 200);
  }
}
