import type { PendingView } from '#shared/api/joining.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import { shortNodeId, type NodeId } from '#shared/lib/ids.ts';
import { LIMITS } from '#shared/protocol/version.ts';
import { equalSecrets } from '../../nodejs/pairing/equal.ts';
import { addressGroup } from '../../nodejs/transport/host/connection-gate.ts';

/** A machine that waits for the people at both ends. */
export interface PendingRequest {
  readonly nodeId: NodeId;
  readonly name: string;
  readonly remoteAddress: string;
  readonly digits: string;
  /** The number was typed here. */
  approved(): void;
  /** Both have agreed: lets the machine in. Throws when that cannot be recorded. */
  admit(): void;
  /** The request is over without admission. */
  end(error: CoveyError): void;
}

export interface PendingBook {
  /** A request of the same key is replaced. Throws `join_busy` when too many wait already. */
  add(request: PendingRequest): { readonly expiresInMs: number };
  /** The person at the machine agrees. */
  confirm(request: PendingRequest): void;
  /** The connection is gone; does nothing when the request is not listed any more. */
  remove(request: PendingRequest): boolean;
  /** Throws `join_code_wrong`, `join_code_mismatch`. */
  approve(code: string): PendingView;
  /** @param ref id, at least 6 digits of the node id, or name. Throws `join_request_not_found` */
  deny(ref: string): PendingView;
  views(): PendingView[];
  close(): void;
}

export interface PendingOptions {
  readonly clock: Clock;
  /** Something for the event list. */
  readonly onNote: (note: PendingNote, view: PendingView | null) => void;
}
/** `guessed`: too many wrong numbers, so every request was ended. */
export type PendingNote = 'expired' | 'approved' | 'wrong-code' | 'guessed' | 'same-code';

export const pendingLimits = { waitMs: 5 * 60_000, wrongCodes: 5, wrongCodesMs: 60_000 } as const;

interface Entry {
  readonly request: PendingRequest;
  readonly askedAt: number;
  readonly expiresAt: number;
  readonly timer: NodeJS.Timeout;
  approved: boolean;
  confirmed: boolean;
}

/** The machines that ask to join, while people compare and type their numbers. */
export function createPendingBook(options: PendingOptions): PendingBook {
  const { clock, onNote } = options;
  const entries = new Map<NodeId, Entry>();
  let wrongCodesAt: number[] = [];

  const viewOf = ({ request, askedAt, expiresAt, approved, confirmed }: Entry): PendingView => ({
    id: shortNodeId(request.nodeId),
    nodeId: request.nodeId,
    name: request.name,
    remoteAddress: request.remoteAddress,
    askedAt,
    expiresAt,
    approved,
    confirmed,
  });
  const drop = (entry: Entry): void => {
    clearTimeout(entry.timer);
    entries.delete(entry.request.nodeId);
  };
  const end = (entry: Entry, error: CoveyError): void => {
    drop(entry);
    entry.request.end(error);
  };
  const expire = (entry: Entry): void => {
    onNote('expired', viewOf(entry));
    end(
      entry,
      new CoveyError(
        'join_expired',
        'The request to join has expired: it was not approved and confirmed in time. Ask again.',
      ),
    );
  };
  const settle = (entry: Entry): void => {
    if (!entry.approved || !entry.confirmed) return;
    drop(entry);
    try {
      entry.request.admit();
    } catch (error) {
      entry.request.end(CoveyError.from(error));
      throw error;
    }
  };
  const endAll = (error: CoveyError): void => {
    for (const entry of [...entries.values()]) end(entry, error);
  };

  const wrongCode = (): CoveyError => {
    const now = clock.now();
    wrongCodesAt = wrongCodesAt.filter((at) => at <= now && now - at < pendingLimits.wrongCodesMs);
    wrongCodesAt.push(now);
    onNote('wrong-code', null);
    if (wrongCodesAt.length < pendingLimits.wrongCodes) {
      return new CoveyError(
        'join_code_wrong',
        entries.size === 0
          ? 'No machine is waiting to join. Ask again at the machine, then type the number that it shows.'
          : 'No waiting machine shows that number. Look at the machine and type its number again. If it is the same number, somebody between the two machines is reading along, or the machine has asked another controller: do not let it in, and ask again on a network that you trust or with a join string ("covey invite").',
        { field: 'code' },
      );
    }
    wrongCodesAt = [];
    endAll(
      new CoveyError(
        'join_code_mismatch',
        'Too many wrong numbers were typed at the controller, so all requests to join were ended. Ask again.',
      ),
    );
    onNote('guessed', null);
    return new CoveyError(
      'join_code_wrong',
      `No waiting machine shows that number. It was wrong number ${pendingLimits.wrongCodes} within a minute, so all requests to join were ended: ask again at the machine. If numbers keep differing, somebody between the two machines is reading along; use a join string ("covey invite").`,
      { field: 'code' },
    );
  };

  const find = (ref: string): Entry => {
    const all = [...entries.values()];
    const prefix = /^[0-9a-f]{6,64}$/.test(ref)
      ? all.filter((one) => one.request.nodeId.startsWith(ref))
      : [];
    const found = prefix.length > 0 ? prefix : all.filter((one) => one.request.name === ref);
    const [only] = found;
    if (only && found.length === 1) return only;
    throw new CoveyError(
      'join_request_not_found',
      found.length > 1
        ? `Several machines that wait are called "${ref}": use the id from "covey pending".`
        : `No machine "${ref}" is waiting to join. "covey pending" lists those that are.`,
      { field: 'id' },
    );
  };

  return {
    add(request) {
      const earlier = entries.get(request.nodeId);
      if (earlier) {
        end(
          earlier,
          new CoveyError('join_expired', 'This machine has asked again: the earlier request is over.'),
        );
      }
      const group = addressGroup(request.remoteAddress);
      const near = [...entries.values()].filter((one) => addressGroup(one.request.remoteAddress) === group);
      if (entries.size >= LIMITS.joinWaiting || near.length >= LIMITS.joinWaitingPerAddress) {
        throw new CoveyError(
          'join_busy',
          'Too many machines are waiting to be approved. Approve or deny those at the controller ("covey pending"), then ask again.',
          { retryAfterS: 60 },
        );
      }
      const askedAt = clock.now();
      const entry: Entry = {
        request,
        askedAt,
        expiresAt: askedAt + pendingLimits.waitMs,
        timer: setTimeout(() => expire(entry), pendingLimits.waitMs).unref(),
        approved: false,
        confirmed: false,
      };
      entries.set(request.nodeId, entry);
      return { expiresInMs: pendingLimits.waitMs };
    },
    confirm(request) {
      const entry = entries.get(request.nodeId);
      if (entry?.request !== request) return;
      entry.confirmed = true;
      settle(entry);
    },
    remove(request) {
      const entry = entries.get(request.nodeId);
      if (entry?.request !== request) return false;
      drop(entry);
      return true;
    },
    approve(code) {
      const now = clock.now();
      for (const entry of [...entries.values()]) if (entry.expiresAt <= now) expire(entry);
      // All of them are compared, so that the time tells nothing.
      const matching = [...entries.values()].filter((entry) => equalSecrets(entry.request.digits, code));
      const [entry] = matching;
      if (!entry) throw wrongCode();
      if (matching.length > 1) {
        const error = new CoveyError(
          'join_code_mismatch',
          'Two waiting machines show that number, so neither was let in. Ask again at the machine that you mean.',
          { field: 'code' },
        );
        onNote('same-code', viewOf(entry));
        for (const one of matching) end(one, error);
        throw error;
      }
      if (!entry.approved) {
        entry.approved = true;
        onNote('approved', viewOf(entry));
        entry.request.approved();
      }
      const view = viewOf(entry);
      settle(entry);
      return view;
    },
    deny(ref) {
      const entry = find(ref);
      const view = viewOf(entry);
      end(
        entry,
        new CoveyError('join_denied', 'The controller has denied the request of this machine to join.'),
      );
      return view;
    },
    views: () => [...entries.values()].map(viewOf).sort((a, b) => a.askedAt - b.askedAt),
    close() {
      endAll(new CoveyError('shutting_down', 'The controller is stopping. Ask again when it is back.'));
    },
  };
}
