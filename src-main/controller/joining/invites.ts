import { createHash, randomBytes } from 'node:crypto';
import type { InviteView } from '#shared/api/joining.ts';
import { timings } from '#shared/config.ts';
import type { Address } from '#shared/domain/node.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { encodeJoinString } from '../../nodejs/join-string.ts';
import type { JoiningStore } from '../state/sqlite/joining-store.ts';

export interface Invites {
  create(): InviteView;
  /**
   * Spends the secret on `nodeId` and then lets it in by `admit`; when that throws, the secret is unspent again.
   * A machine that has spent it already may present it again as long as it is a member: the answer that it waited
   * for was lost. Throws `join_secret_invalid`, `join_secret_used`, `join_secret_expired`.
   */
  redeem(secret: string, nodeId: NodeId, admit: () => void): void;
}

export interface InvitesOptions {
  readonly store: JoiningStore;
  readonly clock: Clock;
  readonly controllerId: NodeId;
  /** Where workers can dial this controller, best first. */
  readonly addresses: () => Address[];
  readonly isMember: (nodeId: NodeId) => boolean;
}

/** Join strings: each carries a secret of which only the hash is kept, and which works once. */
export function createInvites(options: InvitesOptions): Invites {
  const { store, clock } = options;
  return {
    create() {
      const addresses = options.addresses().slice(0, 16);
      if (addresses.length === 0) {
        throw new CoveyError(
          'invalid_request',
          'This controller has no address that another machine could dial. Connect it to a network first.',
        );
      }
      const secret = randomBytes(32).toString('hex');
      const now = clock.now();
      const expiresAt = now + timings.joinSecretMs;
      store.addJoinSecret(hash(secret), now, expiresAt);
      return {
        joinString: encodeJoinString({ controllerId: options.controllerId, addresses, secret, expiresAt }),
        expiresAt,
      };
    },
    redeem(secret, nodeId, admit) {
      const key = hash(secret);
      const row = store.joinSecret(key);
      if (!row) {
        throw new CoveyError('join_secret_invalid', 'This join string is not one of this controller.');
      }
      if (row.usedAt !== null) {
        if (row.usedBy === nodeId && options.isMember(nodeId)) return admit();
        throw new CoveyError(
          'join_secret_used',
          'This join string was used already. Make a new one with "covey invite".',
        );
      }
      const now = clock.now();
      if (row.expiresAt <= now) {
        throw new CoveyError(
          'join_secret_expired',
          'This join string has expired. Make a new one with "covey invite".',
        );
      }
      store.useJoinSecret(key, now, nodeId);
      try {
        admit();
      } catch (error) {
        store.releaseJoinSecret(key);
        throw error;
      }
    },
  };
}

function hash(secret: string): string {
  return createHash('sha256').update(secret, 'utf8').digest('hex');
}
