import { createHash, randomBytes } from 'node:crypto';
import type { NodeId } from '#shared/lib/ids.ts';
import type { Address } from '#shared/domain/node.ts';
import type { InviteView } from '#shared/api/schema.ts';
import { timings } from '#shared/config.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { JoinReply } from '#shared/protocol/join.ts';
import { encodeJoinString } from '../../nodejs/join-string.ts';
import { PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import type { JoinAttempt } from '../../nodejs/transport/transport.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { ControllerStore } from '../state/sqlite/store.ts';

export interface Invites {
  create(): InviteView;
  /** Admits the machine or throws a named refusal. The secret works once, whoever else has read it. */
  admit(attempt: JoinAttempt): JoinReply;
}

export interface InvitesOptions {
  readonly store: ControllerStore;
  readonly runtime: Runtime;
  readonly clock: Clock;
  readonly controllerId: NodeId;
  readonly controllerName: string;
  /** Where workers can dial this controller, best first. */
  readonly addresses: () => Address[];
}

export function createInvites(options: InvitesOptions): Invites {
  const { store, runtime, clock } = options;
  return {
    create() {
      const secret = randomBytes(32).toString('hex');
      const now = clock.now();
      const expiresAt = now + timings.joinSecretMs;
      store.addJoinSecret(hash(secret), now, expiresAt);
      const content = {
        controllerId: options.controllerId,
        addresses: options.addresses(),
        secret,
        expiresAt,
      };
      return { joinString: encodeJoinString(content), expiresAt };
    },
    admit({ peerId, request }) {
      if (request.protocol !== PROTOCOL_VERSION) {
        throw new CoveyError(
          'protocol_version_mismatch',
          `The controller speaks protocol ${PROTOCOL_VERSION}, this machine ${request.protocol}: install the same version of Covey on both.`,
        );
      }
      const key = hash(request.secret);
      const secret = store.joinSecret(key);
      if (!secret)
        throw new CoveyError('join_secret_invalid', 'This join string is not one of this controller.');
      if (secret.usedAt !== null) {
        throw new CoveyError(
          'join_secret_used',
          'This join string was used already. Make a new one with "covey invite".',
        );
      }
      const now = clock.now();
      if (secret.expiresAt <= now) {
        throw new CoveyError(
          'join_secret_expired',
          'This join string has expired. Make a new one with "covey invite".',
        );
      }
      if (peerId === options.controllerId) {
        throw new CoveyError('invalid_request', 'A controller cannot join itself.');
      }
      store.useJoinSecret(key, now, peerId);
      runtime.commit({
        type: 'node-joined',
        at: now,
        nodeId: peerId,
        name: uniqueName(runtime, request.name, peerId),
      });
      return { ok: true, controllerId: options.controllerId, controllerName: options.controllerName };
    },
  };
}

/** Two machines called "debian" become "debian" and "debian-2": names stand in commands. */
function uniqueName(runtime: Runtime, wanted: string, nodeId: NodeId): string {
  const base =
    wanted
      .trim()
      .replace(/[\s\p{C}]+/gu, '-')
      .slice(0, 64) || nodeId.slice(0, 8);
  const taken = new Set(
    [...runtime.state.nodes.values()].filter((n) => n.durable.id !== nodeId).map((n) => n.durable.name),
  );
  if (!taken.has(base)) return base;
  let number = 2;
  while (taken.has(`${base}-${number}`)) number += 1;
  return `${base}-${number}`;
}

function hash(secret: string): string {
  return createHash('sha256').update(secret, 'utf8').digest('hex');
}
