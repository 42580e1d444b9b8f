import { setTimeout as delay } from 'node:timers/promises';
import type { AddressAttempt, InterfaceView } from '#shared/domain/network.ts';
import type { Discovered, DiscoveryView } from '#shared/api/self.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { announcementMark } from '../pairing/cluster-secret.ts';
import type { Transport } from '../transport/transport.ts';
import type { Announcement, Discovery } from './discovery.ts';
import type { FoundPeer } from './peer-table.ts';
import { relate, type TriedPeer } from './relations.ts';

export interface DiscoveryViewOptions {
  readonly discovery: Discovery;
  readonly transport: Pick<Transport, 'identify'>;
  readonly selfId: NodeId;
  readonly clock: Clock;
  /** Called at each view. `controllerId` null: this node belongs to none. */
  readonly membership: () => {
    readonly controllerId: NodeId | null;
    readonly memberIds: readonly NodeId[];
  };
  readonly clusterSecret: () => string | null;
}

/** Rejects with `cancelled` when the signal aborts, and never else; takes up to 3 s. */
export type DiscoveryLook = (signal: AbortSignal) => Promise<DiscoveryView>;

/** All of it, asking included. */
const wholeMs = 3_000;
/** For answers to come in after asking anew. */
const settleMs = 300;
const attemptMs = 1_500;
/** Machines that are tried at the same time, each at all its addresses. */
const atOnce = 12;
/** Shorter than this is no fair try. */
const leastMs = 200;

const order: readonly Discovered['relation'][] = [
  'self',
  'controller',
  'member',
  'duplicate',
  'kin',
  'stranger',
];

/**
 * Makes the view of `/api/discovery`: asks anew, tries every address of every machine found, and says what each
 * is to us.
 */
export function createDiscoveryView(options: DiscoveryViewOptions): DiscoveryLook {
  const { discovery, transport, clock } = options;

  const look = async (signal: AbortSignal): Promise<DiscoveryView> => {
    const startedAt = clock.now();
    const leftMs = (): number => startedAt + wholeMs - clock.now();
    discovery.refresh();
    if (discovery.enabled) await delay(settleMs, undefined, { signal });
    const { controllerId, memberIds } = options.membership();
    const members = new Set(memberIds);
    const weight = (peer: FoundPeer): number =>
      peer.nodeId === controllerId ? 0 : members.has(peer.nodeId) || peer.nodeId === options.selfId ? 1 : 2;
    const peers = discovery.peers().toSorted((a, b) => weight(a) - weight(b));
    const tried: TriedPeer[] = [];
    const tryPeers = async (queue: Iterator<FoundPeer>): Promise<void> => {
      for (let next = queue.next(); !next.done && !signal.aborted; next = queue.next()) {
        const peer = next.value;
        const timeoutMs = Math.min(attemptMs, leftMs());
        const attempts =
          timeoutMs < leastMs ? notTried(peer) : await transport.identify(peer.addresses, timeoutMs);
        tried.push({ peer, attempts, alive: peer.seenAt >= startedAt });
      }
    };
    const queue = peers.values();
    await Promise.all(Array.from({ length: atOnce }, () => tryPeers(queue)));

    const interfaces = discovery.interfaces();
    const own = discovery.announced();
    const secret = options.clusterSecret();
    const related = relate(tried, {
      selfId: options.selfId,
      ownPlaces: ownPlaces(own, interfaces),
      controllerId,
      memberIds: members,
      isKin: ({ mark, nonce, nodeId }) =>
        secret !== null && mark !== null && mark === announcementMark(secret, nonce, nodeId),
    });
    const machines = [
      ...(own && discovery.enabled ? [describeSelf(own, interfaces, clock.now())] : []),
      ...related.map(({ one: { peer, attempts }, relation, verified }): Discovered => {
        const { nodeId, name, role, version, seenAt } = peer;
        return {
          nodeId,
          name,
          role,
          version,
          relation,
          verified,
          attempts: [...attempts],
          interfaces: [...peer.interfaces],
          lastSeenAt: seenAt,
        };
      }),
    ].sort((a, b) => order.indexOf(a.relation) - order.indexOf(b.relation) || compareText(a.name, b.name));
    return {
      enabled: discovery.enabled,
      interfaces,
      machines,
      problem: problemOf(discovery.enabled, interfaces, peers.length),
    };
  };

  return async (signal) => {
    const aborted = new Promise<never>((_resolve, reject) => {
      const cancel = (): void => reject(new CoveyError('cancelled', 'Looking for machines was cancelled.'));
      if (signal.aborted) cancel();
      else signal.addEventListener('abort', cancel, { once: true });
    });
    return Promise.race([look(signal), aborted]);
  };
}

/** The view of a node that runs without discovery. */
export function discoveryOff(): DiscoveryView {
  return { enabled: false, interfaces: [], machines: [], problem: problemOf(false, [], 0) };
}

function notTried(peer: FoundPeer): AddressAttempt[] {
  const problem = 'was not tried: too many machines were found to try them all in time';
  return peer.addresses.map((address) => ({ address, nodeId: null, connectMs: null, problem }));
}

function ownPlaces(own: Announcement | null, interfaces: readonly InterfaceView[]): Set<string> {
  if (!own) return new Set();
  const hosts = own.host === undefined ? ['127.0.0.1', ...interfaces.map((one) => one.address)] : [own.host];
  return new Set(hosts.map((host) => `${host} ${own.port}`));
}

function describeSelf(own: Announcement, interfaces: readonly InterfaceView[], now: number): Discovered {
  return {
    nodeId: own.nodeId,
    name: own.name,
    role: own.role,
    version: own.version,
    relation: 'self',
    verified: true,
    attempts: [],
    interfaces: interfaces.filter((one) => one.working).map((one) => one.name),
    lastSeenAt: now,
  };
}

function problemOf(enabled: boolean, interfaces: readonly InterfaceView[], found: number): string | null {
  if (!enabled) return 'Discovery is switched off on this machine; machines can be added by address.';
  if (interfaces.length === 0) {
    return 'This machine has no network interface that is up, so it can find no other.';
  }
  if (!interfaces.some((one) => one.working)) {
    const first = interfaces[0];
    return `Discovery works on no network interface: ${first?.name} ${first?.problem}.`;
  }
  if (found > 0) return null;
  return (
    'No other machine was heard. If some should be there: the network, or a firewall on their side, may drop ' +
    'multicast (UDP port 5353), as many guest and wireless networks do; they can be added by address.'
  );
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
