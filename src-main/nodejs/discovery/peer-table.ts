import type { Address } from '#shared/domain/node.ts';
import type { BootId, NodeId } from '#shared/lib/ids.ts';
import { announcementLimits, type ReadAnnouncement } from './announcement.ts';

/** A machine that announces itself. Two boots of one node id are two peers. None of it is proven. */
export interface FoundPeer {
  readonly nodeId: NodeId;
  readonly bootId: BootId;
  readonly name: string;
  readonly role: 'controller' | 'worker';
  readonly version: string;
  /** At most 16: where its packets came from, then what it says of itself. */
  readonly addresses: readonly Address[];
  /** 32 hex digits, new every few minutes; what `mark` is made over. */
  readonly nonce: string;
  readonly mark: string | null;
  /** Ours, on which it was heard. */
  readonly interfaces: readonly string[];
  /** Epoch ms of its latest packet. */
  readonly seenAt: number;
}

export const peerLimits = {
  peers: 512,
  /** From one address: a whole reflector's worth, but not the whole table. */
  perSource: 64,
  /** Addresses from which one peer is heard. */
  sources: 8,
} as const;

/** Where a packet came from, with the interfaces of ours that it may have come in by. */
export interface PacketSource {
  readonly address: string;
  readonly interfaces: readonly string[];
}

/** Who was heard and not yet expired; bounded, with time as an argument (epoch ms). */
export interface PeerTable {
  /**
   * @param accepts which of the announced addresses may be kept
   * @returns whether what `list` tells has changed, but for `seenAt`
   */
  hear(
    announcement: ReadAnnouncement,
    source: PacketSource,
    now: number,
    accepts: (address: string) => boolean,
  ): boolean;
  /** Forgets what was not announced again in time. @returns whether there was any */
  expire(now: number): boolean;
  /** Those heard last come first. */
  list(): FoundPeer[];
  clear(): boolean;
}

interface Heard {
  readonly port: number;
  readonly addresses: readonly string[];
  readonly interfaces: readonly string[];
  readonly seenAt: number;
  readonly expiresAt: number;
}

interface Entry {
  latest: ReadAnnouncement;
  readonly sources: Map<string, Heard>;
}

export function createPeerTable(): PeerTable {
  /** In the order in which they were heard last. */
  const entries = new Map<string, Entry>();

  const makeRoom = (source: string): void => {
    const ofSource = [...entries].filter(([, entry]) => entry.sources.has(source));
    const oldest =
      ofSource.length >= peerLimits.perSource
        ? ofSource[0]?.[0]
        : entries.size >= peerLimits.peers
          ? entries.keys().next().value
          : undefined;
    if (oldest !== undefined) entries.delete(oldest);
  };

  return {
    hear(announcement, source, now, accepts) {
      const key = `${announcement.nodeId} ${announcement.bootId}`;
      const known = entries.get(key);
      if (announcement.ttlMs === 0) {
        // Only where it was heard before: a goodbye from elsewhere is somebody else's.
        if (!known?.sources.delete(source.address)) return false;
        if (known.sources.size === 0) entries.delete(key);
        return true;
      }
      const before = known && describe(known);
      if (!known) makeRoom(source.address);
      const entry: Entry = known ?? { latest: announcement, sources: new Map() };
      const earlier = entry.sources.get(source.address);
      if (!earlier && entry.sources.size >= peerLimits.sources) return false;
      entry.latest = announcement;
      entry.sources.set(source.address, {
        port: announcement.port,
        addresses: announcement.addresses.filter(accepts),
        interfaces: [...new Set([...(earlier?.interfaces ?? []), ...source.interfaces])].slice(-8),
        seenAt: now,
        expiresAt: now + announcement.ttlMs,
      });
      entries.delete(key);
      entries.set(key, entry);
      return before === undefined || before !== describe(entry);
    },
    expire(now) {
      let gone = false;
      for (const [key, entry] of entries) {
        for (const [address, heard] of entry.sources) {
          if (heard.expiresAt <= now) gone = entry.sources.delete(address) || gone;
        }
        if (entry.sources.size === 0) entries.delete(key);
      }
      return gone;
    },
    list: () => [...entries.values()].map(toPeer).reverse(),
    clear() {
      const any = entries.size > 0;
      entries.clear();
      return any;
    },
  };
}

function describe(entry: Entry): string {
  return JSON.stringify({ ...toPeer(entry), seenAt: 0 });
}

function toPeer({ latest, sources }: Entry): FoundPeer {
  // Newest first: after a change of address the old one is the one that no longer answers.
  const heard = [...sources].reverse();
  const addresses = new Map<string, Address>();
  const add = (host: string, port: number): void => {
    const key = `${host} ${port}`;
    if (addresses.size < announcementLimits.addresses && !addresses.has(key))
      addresses.set(key, { host, port });
  };
  for (const [source, { port }] of heard) add(source, port);
  for (const [, one] of heard) for (const host of one.addresses) add(host, one.port);
  return {
    nodeId: latest.nodeId,
    bootId: latest.bootId,
    name: latest.name,
    role: latest.role,
    version: latest.version,
    addresses: [...addresses.values()],
    nonce: latest.nonce,
    mark: latest.mark,
    interfaces: [...new Set(heard.flatMap(([, one]) => one.interfaces))],
    seenAt: Math.max(...heard.map(([, one]) => one.seenAt)),
  };
}
