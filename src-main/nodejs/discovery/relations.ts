import type { AddressAttempt } from '#shared/domain/network.ts';
import type { Discovered } from '#shared/api/self.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { FoundPeer } from './peer-table.ts';

export interface TriedPeer {
  readonly peer: FoundPeer;
  readonly attempts: readonly AddressAttempt[];
  /** It was heard after it was last asked for. */
  readonly alive: boolean;
}

export interface Viewpoint {
  readonly selfId: NodeId;
  /** Where this node itself is reached, `host port`: what an earlier run of it announced may point there. */
  readonly ownPlaces: ReadonlySet<string>;
  readonly controllerId: NodeId | null;
  readonly memberIds: ReadonlySet<NodeId>;
  /** Whether its mark was made with our cluster secret. */
  readonly isKin: (peer: FoundPeer) => boolean;
}

export interface Related {
  readonly one: TriedPeer;
  readonly relation: Discovered['relation'];
  readonly verified: boolean;
}

/**
 * What each machine that was found is to us. Pure.
 *
 * For each peer, the first that applies:
 * 1. An address of it showed the key that it claims. It is `verified`.
 *    a. It answers at a place of our own, or at the same place as a run of that node that was heard of later: an
 *       earlier run. Left out.
 *    b. Another machine uses the same key too: this node, or a verified run of it at other places. `duplicate`.
 *    c. What the key says: our controller, a member, kin by its mark, or a stranger.
 * 2. Every answer showed another key: it lies about who it is. `stranger`.
 * 3. Nothing answered.
 *    a. It is silent, and another run of that node is known: an earlier run. Left out.
 *    b. It claims this node's key, or that of a verified machine: `duplicate`.
 *    c. As 1c, by its own word.
 */
export function relate(tried: readonly TriedPeer[], view: Viewpoint): Related[] {
  const places = (one: TriedPeer): Set<string> =>
    new Set(
      one.attempts
        .filter((attempt) => attempt.nodeId === one.peer.nodeId)
        .map(({ address }) => `${address.host} ${address.port}`),
    );
  const placesOf = new Map(tried.map((one) => [one, places(one)]));
  const others = (one: TriedPeer): TriedPeer[] =>
    tried.filter((other) => other !== one && other.peer.nodeId === one.peer.nodeId);
  const byClaim = ({ peer }: TriedPeer): Discovered['relation'] => {
    if (peer.nodeId === view.controllerId) return 'controller';
    if (view.memberIds.has(peer.nodeId)) return 'member';
    return view.isKin(peer) ? 'kin' : 'stranger';
  };

  return tried.flatMap((one): Related[] => {
    const mine = placesOf.get(one) ?? new Set<string>();
    const isSelf = one.peer.nodeId === view.selfId;
    if (mine.size > 0) {
      if (isSelf && meet(mine, view.ownPlaces)) return [];
      const verifiedOthers = others(one).filter((other) => (placesOf.get(other)?.size ?? 0) > 0);
      const sharing = verifiedOthers.filter((other) => meet(mine, placesOf.get(other)));
      if (sharing.some((other) => other.peer.seenAt > one.peer.seenAt)) return [];
      const isDuplicate = isSelf || verifiedOthers.length > sharing.length;
      return [{ one, relation: isDuplicate ? 'duplicate' : byClaim(one), verified: true }];
    }
    if (one.attempts.some((attempt) => attempt.nodeId !== null)) {
      return [{ one, relation: 'stranger', verified: false }];
    }
    if (!one.alive && (isSelf || others(one).length > 0)) return [];
    const claimsAnothers = isSelf || others(one).some((other) => (placesOf.get(other)?.size ?? 0) > 0);
    return [{ one, relation: claimsAnothers ? 'duplicate' : byClaim(one), verified: false }];
  });
}

function meet(some: ReadonlySet<string>, others: ReadonlySet<string> | undefined): boolean {
  return [...some].some((place) => others?.has(place) === true);
}
