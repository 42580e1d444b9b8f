import type { TLSSocket } from 'node:tls';
import type { Address } from '#shared/domain/node.ts';
import { CoveyError } from '#shared/errors.ts';
import type { TransportAudit, TransportEvent } from '#shared/host/transport.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { JoinControllerFrame } from '#shared/protocol/join.ts';
import { LIMITS } from '#shared/protocol/version.ts';
import { createFrameDecoder, encodeFrame, endWith } from '../frames.ts';
import { localAddressOf, remoteAddressOf } from './remote-address.ts';

/** The conversations on `covey-join`: frames of JSON text, read by nobody here. */
export interface Joins {
  /** A stranger's (or member's) connection. The main process hears of it with its first frame. */
  accept(socket: TLSSocket, peerId: NodeId): void;
  /** A connection that was dialled; its end is the main process's business. */
  dialled(socket: TLSSocket, peerId: NodeId, operation: number, address: Address): void;
  get(session: number): Join | undefined;
  closeAll(): void;
}

export interface Join {
  send(text: string): void;
  close(): void;
  /** It may last this long from now, and does not count among those that are to be quick. */
  hold(deadlineMs: number): void;
}

/** A join has less than ten frames either way. */
const maxFrames = 32;
const exporterLabel = 'EXPORTER-covey-join';

/**
 * Those that were dialled are few at once and end after LIMITS.joinMs unless they are held. Frames are small and
 * few: a peer that sends more, or something else, is cut.
 */
export function createJoins(options: {
  readonly emit: (event: TransportEvent) => void;
  readonly audit: (audit: TransportAudit) => void;
  readonly nextSession: () => number;
}): Joins {
  const open = new Map<number, Join>();
  let quick = 0;

  const converse = (
    socket: TLSSocket,
    peerId: NodeId,
    dialled: { readonly operation: number; readonly address: Address } | null,
  ): void => {
    const session = options.nextSession();
    const remoteAddress = remoteAddressOf(socket);
    let decode = createFrameDecoder(LIMITS.joinBytes);
    let frames = 0;
    let announced = false;
    let heard = false;
    let ending = false;
    let reason: CoveyError | null = null;
    let counted = dialled === null;
    if (counted) quick += 1;
    const uncount = (): void => {
      if (counted) quick -= 1;
      counted = false;
    };

    const announce = (): void => {
      announced = true;
      open.set(session, join);
      options.emit({
        type: 'join',
        session,
        operation: dialled?.operation ?? null,
        peerId,
        remoteAddress,
        localAddress: localAddressOf(socket),
        binding: socket.exportKeyingMaterial(32, exporterLabel, Buffer.alloc(0)).toString('hex'),
        dialledAddress: dialled?.address ?? null,
      });
    };
    const end = (why: CoveyError | null, last?: Buffer): void => {
      if (ending) return;
      ending = true;
      reason ??= why;
      socket.off('data', onData);
      endWith(socket, last);
    };
    /** Who has not said a proper word gets none back. */
    const cut = (detail: string): void => {
      reason ??= new CoveyError('invalid_request', `The other side sent ${detail}.`);
      options.audit({ kind: 'protocol_error', remoteAddress, peerId, detail: `a join with ${detail}` });
      ending = true;
      socket.destroy();
    };
    const onData = (chunk: Buffer): void => {
      heard = true;
      for (let rest = chunk; rest.length > 0 && !ending;) {
        const progress = decode(rest);
        if (progress.kind === 'more') return;
        if (progress.kind === 'error') return cut(progress.reason);
        frames += 1;
        if (frames > maxFrames) return cut(`more than ${maxFrames} frames`);
        decode = createFrameDecoder(LIMITS.joinBytes);
        rest = progress.rest;
        if (!announced) announce();
        options.emit({ type: 'message', session, text: progress.json });
      }
    };
    const expire = (): void => {
      const error = new CoveyError('timeout', 'The join took too long.');
      if (announced) end(error, refusal(error));
      else cut('nothing in time');
    };
    let timer = dialled ? undefined : setTimeout(expire, LIMITS.joinMs);

    const join: Join = {
      send(text) {
        if (!ending && !socket.destroyed) socket.write(encodeFrame(text));
      },
      close: () => end(null),
      hold(deadlineMs) {
        if (dialled || ending) return;
        uncount();
        clearTimeout(timer);
        timer = setTimeout(expire, deadlineMs);
      },
    };

    socket.on('error', (error: Error) => {
      reason ??= new CoveyError('controller_unreachable', `The join broke: ${error.message}`, {}, error);
    });
    socket.once('end', () => {
      if (announced) end(null);
      else if (heard) cut('no request before its end');
      // A dial that was given up.
      else socket.destroy();
    });
    socket.once('close', () => {
      clearTimeout(timer);
      uncount();
      if (!announced) return;
      open.delete(session);
      options.emit({ type: 'session-closed', session, error: reason?.toBody() ?? null });
    });
    if (dialled) announce();
    socket.on('data', onData);
  };

  return {
    accept(socket, peerId) {
      if (quick >= LIMITS.joinConcurrent) {
        const detail = `${quick} joins at once`;
        options.audit({ kind: 'join_limited', remoteAddress: remoteAddressOf(socket), peerId, detail });
        endWith(
          socket,
          refusal(new CoveyError('join_busy', 'Too many machines are joining at once. Try again.')),
        );
        return;
      }
      converse(socket, peerId, null);
    },
    dialled: (socket, peerId, operation, address) => converse(socket, peerId, { operation, address }),
    get: (session) => open.get(session),
    closeAll() {
      for (const join of [...open.values()]) join.close();
    },
  };
}

function refusal(error: CoveyError): Buffer {
  return encodeFrame(
    JSON.stringify({ type: 'refused', error: error.toBody() } satisfies JoinControllerFrame),
  );
}
