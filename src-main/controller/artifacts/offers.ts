import { randomBytes } from 'node:crypto';
import type { ArtifactStake } from '#shared/domain/artifact.ts';
import type { Address } from '#shared/domain/node.ts';
import type { ArtifactId, NodeId } from '#shared/lib/ids.ts';
import type { ControllerFrame } from '#shared/protocol/session.ts';
import type { ArtifactSource } from '../../nodejs/artifacts/source-pool.ts';
import type { Transport } from '../../nodejs/transport/transport.ts';

export interface OffersOptions {
  readonly self: {
    readonly nodeId: NodeId;
    readonly name: string;
    readonly addresses: () => readonly Address[];
  };
  readonly transport: Pick<Transport, 'addArtifactGrant'>;
  readonly send: (nodeId: NodeId, frame: ControllerFrame) => boolean;
  /** A connected member; null: it is not. */
  readonly member: (
    nodeId: NodeId,
  ) => { readonly name: string; readonly addresses: readonly Address[] } | null;
  /** Measured round trip between two machines, null: not known. */
  readonly rttMs: (from: NodeId, to: NodeId) => number | null;
}

/** Who has which artifact, and the rights to read it there. Live: members tell it anew in every session. */
export interface Offers {
  told(nodeId: NodeId, whole: boolean, added: readonly ArtifactId[], removed: readonly ArtifactId[]): void;
  gone(nodeId: NodeId): void;
  holders(id: ArtifactId): NodeId[];
  /** Where `peer` can read it, nearest first; each source knows of the right by now or soon. */
  sourcesFor(peer: NodeId, artifact: ArtifactId, mine: boolean): ArtifactSource[];
  /** The right of the controller to read it at one member; empty when it is not connected. */
  sourceAt(holder: NodeId, artifact: ArtifactId): ArtifactSource[];
  /** Answers `artifact-wanted`. */
  answer(peer: NodeId, stake: ArtifactStake, mine: boolean): void;
}

const maxSources = 8;
const grantMs = 6 * 3_600_000;
/** What one member may say that it has. */
const maxHeld = 200_000;
/** Rights that are given again, with a new term, to who asks again. */
const maxTokens = 20_000;

export function createOffers(options: OffersOptions): Offers {
  const { self, transport } = options;
  const held = new Map<NodeId, Set<ArtifactId>>();

  const holders = (id: ArtifactId): NodeId[] =>
    [...held].filter(([nodeId, ids]) => ids.has(id) && options.member(nodeId)).map(([nodeId]) => nodeId);
  /** By holder, peer and artifact; the oldest first. Otherwise whoever asks again and again fills the others' memory. */
  const tokens = new Map<string, string>();
  const tokenFor = (holder: NodeId, peer: NodeId, artifact: ArtifactId): string => {
    const key = `${holder} ${peer} ${artifact}`;
    const token = tokens.get(key) ?? randomBytes(32).toString('hex');
    tokens.delete(key);
    tokens.set(key, token);
    const [oldest] = tokens.keys();
    if (oldest && tokens.size > maxTokens) tokens.delete(oldest);
    return token;
  };
  const grantAt = (holder: NodeId, peer: NodeId, artifact: ArtifactId): string | null => {
    const token = tokenFor(holder, peer, artifact);
    if (holder === self.nodeId) {
      transport.addArtifactGrant({ token, artifact, peer, ttlMs: grantMs });
      return token;
    }
    const frame = { type: 'artifact-grant', artifact, peer, grant: token, ttlMs: grantMs } as const;
    return options.send(holder, frame) ? token : null;
  };
  const source = (holder: NodeId, peer: NodeId, artifact: ArtifactId): ArtifactSource[] => {
    const about =
      holder === self.nodeId ? { name: self.name, addresses: self.addresses() } : options.member(holder);
    const grant = about && grantAt(holder, peer, artifact);
    if (!about || !grant) return [];
    return [{ nodeId: holder, name: about.name, addresses: about.addresses.slice(0, 16), grant }];
  };
  const sourcesFor: Offers['sourcesFor'] = (peer, artifact, mine) => {
    const others = holders(artifact).filter((nodeId) => nodeId !== peer && nodeId !== self.nodeId);
    const all = mine && peer !== self.nodeId ? [self.nodeId, ...others] : others;
    const rtt = (nodeId: NodeId): number =>
      options.rttMs(peer, nodeId) ?? options.rttMs(nodeId, peer) ?? Infinity;
    return (
      all
        .map((nodeId) => ({ nodeId, rttMs: rtt(nodeId), tie: Math.random() }))
        // Among machines of which nothing is known the load is spread.
        .sort((a, b) => (a.rttMs === b.rttMs ? a.tie - b.tie : a.rttMs - b.rttMs))
        .slice(0, maxSources)
        .flatMap(({ nodeId }) => source(nodeId, peer, artifact))
    );
  };

  return {
    told(nodeId, whole, added, removed) {
      const ids = whole ? new Set<ArtifactId>() : (held.get(nodeId) ?? new Set());
      for (const id of removed) ids.delete(id);
      for (const id of added) if (ids.size < maxHeld) ids.add(id);
      held.set(nodeId, ids);
    },
    gone: (nodeId) => void held.delete(nodeId),
    holders,
    sourcesFor,
    sourceAt: (holder, artifact) => source(holder, self.nodeId, artifact),
    answer(peer, stake, mine) {
      const sources = sourcesFor(peer, stake.id, mine).map((one) => ({
        ...one,
        addresses: [...one.addresses],
      }));
      options.send(peer, { type: 'artifact-sources', artifact: stake, sources });
    },
  };
}
