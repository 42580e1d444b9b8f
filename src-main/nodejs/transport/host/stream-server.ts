import { connect, type NetConnectOpts, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { CoveyError, type ErrorCode } from '#shared/errors.ts';
import type { Grant, Member, TransportAudit } from '#shared/host/transport.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { Preamble } from '#shared/protocol/join.ts';
import { LIMITS, PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import { endWith, encodeFrame, readFrame } from '../frames.ts';
import { parsePreamble } from '../preamble.ts';
import { splice } from '../splice.ts';
import { accepted } from './accepted.ts';
import type { ArtifactServer } from './artifact-server.ts';
import type { GrantTable, GrantUse } from './grant-table.ts';
import type { MemberTable } from './member-table.ts';
import { answerProbe } from './probe-server.ts';
import { answerPulse } from './pulse.ts';
import type { RelayExchange } from './relay-exchange.ts';
import { remoteAddressOf } from './remote-address.ts';
import type { ReverseTable } from './reverse-table.ts';
import type { UploadLimit } from './upload-limit.ts';

export interface StreamServerOptions {
  readonly grants: GrantTable;
  readonly members: MemberTable;
  readonly gatewaySocket: string | null;
  readonly reverse: ReverseTable;
  /** null: this node relays for nobody. */
  readonly relays: RelayExchange | null;
  readonly pulseLostMs: number;
  readonly upload: UploadLimit;
  /** null: this node has no artifacts. */
  readonly artifacts: ArtifactServer | null;
  readonly audit: (audit: TransportAudit) => void;
}

/** A member may hold connections ready before it needs them (see spare-connections.ts). */
const memberPreambleMs = 60_000;
/** Connections of one member at once, spare ones included. */
const maxPerMember = 512;
const connectMs = 5_000;
const streamWaitMs = 5_000;
/** Probes at once, of all members. */
const maxProbes = 4;

/** What a connection is known for besides its member: how it was dialled, or that we dialled it for its peer. */
export type StreamKind = Grant['alpn'] | 'artifact' | 'dialled-for-peer';

/**
 * Takes `covey-tunnel`, `covey-http` and `covey-artifact` connections of members, and those that we dialled for a member: preamble,
 * check, then bytes both ways.
 */
export function createStreamServer(
  options: StreamServerOptions,
): (socket: TLSSocket, member: Member, kind: StreamKind) => void {
  const state: ServerState = { ...options, probing: new Set() };
  return (socket, member, kind) => {
    serve(state, socket, member, kind).catch((thrown: unknown) => {
      const error = CoveyError.from(thrown);
      if (!unremarkable.has(error.code)) {
        options.audit({
          kind: auditKind(error.code),
          remoteAddress: remoteAddressOf(socket),
          peerId: member.nodeId,
          detail: error.message,
        });
      }
      endWith(socket, encodeFrame(JSON.stringify({ ok: false, error: error.toBody() })));
    });
  };
}

interface ServerState extends StreamServerOptions {
  readonly probing: Set<NodeId>;
}

/** Of two ways that are tried at once one comes too late, or is waited for in vain. */
const unremarkable: ReadonlySet<ErrorCode> = new Set(['cancelled', 'timeout', 'shutting_down']);

function auditKind(code: ErrorCode): TransportAudit['kind'] {
  if (code === 'grant_invalid' || code === 'grant_expired') return 'grant_refused';
  return code === 'dial_refused' ? 'relay_refused' : 'protocol_error';
}

async function serve(
  options: ServerState,
  socket: TLSSocket,
  member: Member,
  kind: StreamKind,
): Promise<void> {
  // A connection that we dialled has no protocol of the peer's choice.
  const alpn = kind === 'dialled-for-peer' ? null : kind;
  if (member.refusal) {
    // Read first: an answer over unread bytes could be lost.
    await preambleOf(socket, LIMITS.preambleMs);
    throw CoveyError.fromBody(member.refusal);
  }
  if (options.members.count(member.nodeId) >= maxPerMember) {
    await preambleOf(socket, LIMITS.preambleMs);
    throw new CoveyError('too_many_requests', `This machine has ${maxPerMember} connections open here.`);
  }
  const untrack = options.members.track(member, { expel: () => socket.destroy() });
  socket.once('close', untrack);

  const preamble = await preambleOf(socket, memberPreambleMs);
  if (preamble === null) return;
  if (alpn === 'artifact' || preamble.target === 'artifact') {
    if (preamble.target !== 'artifact' || alpn === 'http' || alpn === 'tunnel') {
      throw new CoveyError('invalid_request', 'Artifacts, and nothing else, belong on covey-artifact.');
    }
    if (!options.artifacts) throw new CoveyError('artifact_not_found', 'This machine keeps no artifacts.');
    await options.artifacts.serve(socket, member.nodeId, preamble.grant);
    return;
  }
  switch (preamble.target) {
    case 'pulse': {
      if (alpn === 'http') throw new CoveyError('invalid_request', 'A pulse belongs on covey-tunnel.');
      const grant = options.grants.check(preamble.grant, member.nodeId, alpn);
      const use = options.grants.watch(grant, () => socket.destroy());
      socket.once('close', () => use.release());
      socket.write(accepted);
      answerPulse(socket, options.pulseLostMs);
      return;
    }
    case 'engine': {
      const grant = options.grants.check(preamble.grant, member.nodeId, alpn);
      const use = await options.grants.use(grant, () => socket.destroy(), streamWaitMs);
      await join(socket, { host: '127.0.0.1', port: grant.port }, use, options.upload);
      return;
    }
    case 'gateway': {
      if (alpn !== 'http' || member.role !== 'worker' || options.gatewaySocket === null) {
        throw new CoveyError('not_the_controller', 'This machine serves no requests for members.');
      }
      await join(socket, { path: options.gatewaySocket }, null, options.upload);
      return;
    }
    case 'reverse': {
      if (alpn !== 'tunnel') throw new CoveyError('invalid_request', 'It belongs on covey-tunnel.');
      const takeOver = options.reverse.take(preamble.token, member.nodeId);
      socket.write(accepted);
      takeOver(socket);
      return;
    }
    case 'relay': {
      if (alpn !== 'tunnel' || !options.relays) {
        throw new CoveyError('not_the_controller', 'This machine relays for nobody.');
      }
      await options.relays.meet(socket, member.nodeId, preamble.peer, preamble.token);
      return;
    }
    case 'probe': {
      const { probing } = options;
      if (probing.has(member.nodeId) || probing.size >= maxProbes) {
        throw new CoveyError('too_many_requests', 'The way to this machine is being measured already.');
      }
      probing.add(member.nodeId);
      socket.write(accepted);
      answerProbe(socket, () => probing.delete(member.nodeId));
      return;
    }
  }
}

/** null: the peer went away without a word, as it may with a spare connection. */
async function preambleOf(socket: TLSSocket, timeoutMs: number): Promise<Preamble | null> {
  const gone = new CoveyError('cancelled', 'The connection was not used.');
  let json: string;
  try {
    json = await readFrame(socket, {
      maxBytes: LIMITS.preambleBytes,
      timeoutMs,
      whatFor: 'a preamble',
      closed: () => gone,
    });
  } catch (error) {
    if (error !== gone && (error as CoveyError).code !== 'timeout') throw error;
    socket.destroy();
    return null;
  }
  const preamble = parsePreamble(json);
  if (!preamble) throw new CoveyError('invalid_request', 'The first frame is not a preamble.');
  if (preamble.protocol !== PROTOCOL_VERSION) {
    throw new CoveyError(
      'protocol_version_mismatch',
      `This machine speaks protocol ${PROTOCOL_VERSION}, the other ${preamble.protocol}: install the same version of Covey on both.`,
    );
  }
  return preamble;
}

async function join(
  socket: TLSSocket,
  target: NetConnectOpts,
  use: GrantUse | null,
  upload: UploadLimit,
): Promise<void> {
  let engine: Socket;
  try {
    engine = await connectTo(target);
  } catch (error) {
    use?.release();
    throw error;
  }
  // Released when the engine has seen the end: only then can it take another client.
  engine.once('close', () => use?.release());
  if (socket.destroyed) {
    engine.destroy();
    return;
  }
  socket.write(accepted);
  // What the gateway answers is not lent.
  splice(socket, engine, use ? { paceMs: (from, bytes) => (from === 'far' ? upload.take(bytes) : 0) } : {});
}

function connectTo(target: NetConnectOpts): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ ...target, allowHalfOpen: true, noDelay: true });
    const timer = setTimeout(() => socket.destroy(new Error(`no answer within ${connectMs} ms`)), connectMs);
    const fail = (error: Error): void => {
      clearTimeout(timer);
      reject(new CoveyError('engine_unreachable', `The engine does not answer: ${error.message}.`));
    };
    socket.once('error', fail);
    socket.once('connect', () => {
      clearTimeout(timer);
      socket.off('error', fail);
      resolve(socket);
    });
  });
}
