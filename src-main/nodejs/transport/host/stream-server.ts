import { connect, type NetConnectOpts, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { CoveyError } from '#shared/errors.ts';
import type { Grant, Member, TransportAudit } from '#shared/host/transport.ts';
import type { Preamble } from '#shared/protocol/join.ts';
import { LIMITS, PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import { endWith, encodeFrame, readFrame } from '../frames.ts';
import { parsePreamble } from '../preamble.ts';
import { splice } from '../splice.ts';
import type { GrantTable, GrantUse } from './grant-table.ts';
import type { MemberTable } from './member-table.ts';
import { answerPulse } from './pulse.ts';
import { remoteAddressOf } from './remote-address.ts';

export interface StreamServerOptions {
  readonly grants: GrantTable;
  readonly members: MemberTable;
  readonly gatewaySocket: string | null;
  readonly pulseLostMs: number;
  readonly audit: (audit: TransportAudit) => void;
}

/** A member may hold connections ready before it needs them (see spare-connections.ts). */
const memberPreambleMs = 60_000;
/** Connections of one member at once, spare ones included. */
const maxPerMember = 512;
const connectMs = 5_000;
const streamWaitMs = 5_000;

/** Takes `covey-tunnel` and `covey-http` connections of members: preamble, check, then bytes both ways. */
export function createStreamServer(
  options: StreamServerOptions,
): (socket: TLSSocket, member: Member, alpn: Grant['alpn']) => void {
  return (socket, member, alpn) => {
    serve(options, socket, member, alpn).catch((thrown: unknown) => {
      const error = CoveyError.from(thrown);
      options.audit({
        kind: error.code.startsWith('grant_') ? 'grant_refused' : 'protocol_error',
        remoteAddress: remoteAddressOf(socket),
        peerId: member.nodeId,
        detail: error.message,
      });
      endWith(socket, encodeFrame(JSON.stringify({ ok: false, error: error.toBody() })));
    });
  };
}

async function serve(
  options: StreamServerOptions,
  socket: TLSSocket,
  member: Member,
  alpn: Grant['alpn'],
): Promise<void> {
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
  switch (preamble.target) {
    case 'pulse': {
      if (alpn !== 'tunnel') throw new CoveyError('invalid_request', 'A pulse belongs on covey-tunnel.');
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
      await join(socket, { host: '127.0.0.1', port: grant.port }, use);
      return;
    }
    case 'gateway': {
      if (alpn !== 'http' || member.role !== 'worker' || options.gatewaySocket === null) {
        throw new CoveyError('not_the_controller', 'This machine serves no requests for members.');
      }
      await join(socket, { path: options.gatewaySocket }, null);
      return;
    }
    case 'reverse':
    case 'relay':
    case 'probe':
      throw new CoveyError('dial_refused', 'Nobody here has asked for this connection.');
  }
}

const accepted = encodeFrame(JSON.stringify({ ok: true }));

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

async function join(socket: TLSSocket, target: NetConnectOpts, use: GrantUse | null): Promise<void> {
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
  splice(socket, engine);
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
