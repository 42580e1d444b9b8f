import { randomBytes } from 'node:crypto';
import type { BlockedView, InviteView, PendingView } from '#shared/api/joining.ts';
import type { Address } from '#shared/domain/node.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { JoinConversation } from '../../nodejs/transport/transport.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { JoiningStore } from '../state/sqlite/joining-store.ts';
import { createAttemptLimits } from './attempt-limits.ts';
import { createClusterSecrets } from './cluster-secrets.ts';
import { serveJoin, type JoinDesk, type JoinOutcome, type JoinWay } from './conversation.ts';
import { createInvites } from './invites.ts';
import { createJoinAudit } from './join-audit.ts';
import { uniqueName } from './names.ts';
import { createPendingBook, pendingLimits, type PendingNote } from './pending.ts';

/** How machines become members. The operations throw CoveyError. */
export interface Joining {
  /** Serves one conversation to its end; for `Transport.onJoin`. */
  accept(conversation: JoinConversation): void;
  invite(): InviteView;
  pending(): { readonly pending: PendingView[]; readonly blocked: BlockedView[] };
  /** @param code six digits. Throws `join_code_wrong`, `join_code_mismatch` */
  approve(code: string): PendingView;
  /**
   * @param id of the request, or the machine's name
   * @param block refuse this key from now on. Throws `join_request_not_found`
   */
  deny(id: string, block: boolean): PendingView;
  /** @param id at least 6 digits of the node id, or the name. Throws `join_request_not_found` */
  unblock(id: string): void;
  /** What all members may hold; null: there is none. */
  clusterSecret(): string | null;
  /** Makes one, or another: what was good before is no longer. */
  newClusterSecret(): Promise<string>;
  dropClusterSecret(): Promise<void>;
  /** Fires when the secret has changed, for the announcement and the members. */
  onClusterSecret(listener: (secret: string | null) => void): void;
  /** The removed machine knows the secret, so there is another one, at once. */
  onNodeRemoved(): Promise<void>;
  /** Ends the requests that wait; later conversations are refused. */
  close(): void;
}

export interface JoiningOptions {
  readonly store: JoiningStore;
  readonly runtime: Pick<Runtime, 'state' | 'commit' | 'dispatch'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly controllerId: NodeId;
  readonly controllerName: string;
  /** Where workers can dial this controller, best first. */
  readonly addresses: () => Address[];
  /** The cluster secret lies in it. */
  readonly dataDirectory: string;
}

const ways: Readonly<Record<JoinWay, string>> = {
  'join-string': 'by a join string',
  approval: 'by its number',
  'cluster-secret': 'by the cluster secret',
};

/** Throws `data_directory_unusable` when the cluster secret's file is damaged. */
export async function createJoining(options: JoiningOptions): Promise<Joining> {
  const { store, runtime, clock, logger, controllerId, controllerName } = options;
  const audit = createJoinAudit({ runtime, clock, logger });
  const limits = createAttemptLimits();
  const secrets = await createClusterSecrets({ dataDirectory: options.dataDirectory, logger, audit });
  const isMember = (nodeId: NodeId): boolean => runtime.state.nodes.has(nodeId);
  const invites = createInvites({ ...options, isMember });
  let closed = false;

  const book = createPendingBook({ clock, onNote: notePending });
  function notePending(note: PendingNote, view: PendingView | null): void {
    const who = view && `${view.name} (${view.id}, at ${view.remoteAddress})`;
    switch (note) {
      case 'approved':
        return audit.note('audit-join-approved', 'info', `The number of ${who} was typed.`, view?.nodeId);
      case 'expired': {
        const minutes = pendingLimits.waitMs / 60_000;
        const message = `${who} waited ${minutes} minutes to be approved and confirmed: the request has expired.`;
        return audit.note('audit-join-denied', 'info', message, view?.nodeId);
      }
      case 'wrong-code':
        return audit.note(
          'security-join-refused',
          'warn',
          'A number was typed that no waiting machine shows.',
        );
      case 'guessed': {
        const message = `${pendingLimits.wrongCodes} wrong numbers within a minute: all requests to join were ended.`;
        return audit.note('security-join-refused', 'error', message);
      }
      case 'same-code': {
        const message = `${who} and another machine showed the same number: neither was let in.`;
        return audit.note('security-join-refused', 'error', message, view?.nodeId);
      }
    }
  }

  const ended = ({ peerId, name, remoteAddress, admitted, error, step, request }: JoinOutcome): void => {
    const listed = request !== null && book.remove(request);
    if (admitted) return;
    // Being told to wait must not make the wait longer.
    if (error?.code !== 'join_busy') limits.failed(remoteAddress, clock.now());
    const who = `${name ?? 'A machine'} (${peerId.slice(0, 12)}, at ${remoteAddress})`;
    // A machine that breaks its commitment before it is listed has been judged by nobody yet.
    const known = request !== null || error?.code !== 'join_code_mismatch';
    if (error && !(known && settledByPeople.has(error.code))) {
      audit.note('security-join-refused', 'warn', `${who} was not let in: ${error.message}`, peerId);
    } else if (listed) {
      audit.note('audit-join-denied', 'info', `${who} took its request to join back.`, peerId);
    } else if (!error && step === 'proving') {
      const message = `${who} did not accept our proof of the cluster secret: it holds another one.`;
      audit.note('security-join-refused', 'warn', message, peerId);
    } else if (!error && step === 'challenged') {
      audit.note('security-join-refused', 'warn', `${who} asked to join and then went away.`, peerId);
    }
  };

  const desk: JoinDesk = {
    controllerId,
    controllerName,
    nonce: () => randomBytes(32).toString('hex'),
    enter(peerId, remoteAddress) {
      if (closed) throw new CoveyError('shutting_down', 'The controller is stopping. Try again later.');
      const waitMs = limits.waitMs(remoteAddress, clock.now());
      if (waitMs > 0) throw busy('Too many attempts to join from this address have failed.', waitMs);
      if (store.isBlocked(peerId)) {
        throw new CoveyError(
          'join_blocked',
          'The controller has blocked this machine. "covey unblock" there lets it ask again.',
        );
      }
    },
    challenge() {
      const { waitMs, giveBack } = limits.takeChallenge(clock.now());
      if (waitMs > 0) {
        throw busy(
          'Too many machines are asking to be approved; a join string ("covey invite") works.',
          waitMs,
        );
      }
      return giveBack;
    },
    clusterSecret: secrets.current,
    redeem: (secret, peerId, admit) => invites.redeem(secret, peerId, admit),
    wait(request) {
      const waiting = book.add(request);
      const message = `${request.name} (${request.nodeId.slice(0, 12)}, at ${request.remoteAddress}) asks to join. Type the number that it shows: "covey approve NUMBER".`;
      audit.note('audit-join-requested', 'info', message, request.nodeId);
      return waiting;
    },
    confirm: (request) => book.confirm(request),
    admit(peerId, wanted, way) {
      const name = uniqueName(runtime.state, wanted, peerId);
      runtime.commit({ type: 'node-joined', at: clock.now(), nodeId: peerId, name });
      audit.note('audit-join-approved', 'info', `${name} was let in ${ways[way]}.`, peerId);
      return { type: 'admitted', controllerId, controllerName, addresses: options.addresses().slice(0, 16) };
    },
    ended,
  };

  return {
    accept: (conversation) => serveJoin(conversation, desk),
    invite() {
      const invite = invites.create();
      audit.note('audit-invite-created', 'info', 'A join string was made.');
      return invite;
    },
    pending: () => ({ pending: book.views(), blocked: store.blocked() }),
    approve: (code) => book.approve(code),
    deny(id, block) {
      const view = book.deny(id);
      const { nodeId, name } = view;
      if (block) store.block({ nodeId, name, blockedAt: clock.now() });
      const message = `${name} (${view.id}, at ${view.remoteAddress}) was denied${block ? ' and blocked' : ''}.`;
      audit.note('audit-join-denied', 'info', message, nodeId);
      return view;
    },
    unblock(id) {
      const node = findBlocked(store.blocked(), id);
      store.unblock(node.nodeId);
      audit.note('audit-join-denied', 'info', `${node.name} may ask to join again.`, node.nodeId);
    },
    clusterSecret: secrets.current,
    newClusterSecret: secrets.renew,
    dropClusterSecret: secrets.drop,
    onClusterSecret: secrets.onChange,
    onNodeRemoved: secrets.rotate,
    close() {
      closed = true;
      book.close();
      audit.close();
    },
  };
}

/** Refusals that a person decided or let happen: they have events of their own. */
const settledByPeople = new Set<CoveyError['code']>([
  'join_denied',
  'join_expired',
  'join_code_mismatch',
  'shutting_down',
]);

function busy(why: string, waitMs: number): CoveyError {
  const retryAfterS = Math.max(1, Math.ceil(waitMs / 1_000));
  return new CoveyError('join_busy', `${why} Try again in ${retryAfterS} s.`, { retryAfterS });
}

function findBlocked(blocked: readonly BlockedView[], ref: string): BlockedView {
  const prefix = /^[0-9a-f]{6,64}$/.test(ref) ? blocked.filter(({ nodeId }) => nodeId.startsWith(ref)) : [];
  const found = prefix.length > 0 ? prefix : blocked.filter(({ name }) => name === ref);
  const [only] = found;
  if (only && found.length === 1) return only;
  throw new CoveyError(
    'join_request_not_found',
    found.length > 1
      ? `Several blocked machines are called "${ref}": use the id from "covey pending".`
      : `No machine "${ref}" is blocked. "covey pending" lists those that are.`,
    { field: 'id' },
  );
}
