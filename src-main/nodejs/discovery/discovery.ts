import { randomBytes } from 'node:crypto';
import { networkInterfaces } from 'node:os';
import type { InterfaceView } from '#shared/domain/network.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { BootId, NodeId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { ownRecords, parseAnnouncement } from './announcement.ts';
import { createVicinity, planInterfaces, type Interfaces } from './interfaces.ts';
import { createPacketGate } from './packet-gate.ts';
import { createPeerTable, type FoundPeer } from './peer-table.ts';
import { createResponder, type Responder, type ServerClass } from './responder.ts';

/**
 * Finds machines on the local network and lets them find this one, by multicast DNS. It only finds: nothing it
 * tells is proven, and who is there is known by sessions alone.
 */
export interface Discovery {
  /** Announces this node from now on, answers who asks, and says goodbye for it when it is replaced by null. */
  announce(announcement: Announcement | null): void;
  /** What is announced, whether or not discovery is enabled. */
  announced(): Announcement | null;
  /** At most 512, without this run of this node; those heard last first. */
  peers(): FoundPeer[];
  /** Fires when a peer comes, goes or says something else. Returns what removes the listener. */
  onChange(listener: () => void): () => void;
  interfaces(): InterfaceView[];
  readonly enabled: boolean;
  setEnabled(enabled: boolean): void;
  /** Asks again now. */
  refresh(): void;
  /** Says goodbye and ends; takes at most a quarter of a second. */
  close(): Promise<void>;
}

export interface Announcement {
  readonly role: 'controller' | 'worker';
  readonly nodeId: NodeId;
  readonly bootId: BootId;
  readonly name: string;
  readonly version: string;
  /** Of the cluster. */
  readonly port: number;
  /** The one address where the port is bound; absent: it is bound to all. */
  readonly host?: string;
  /** The cluster secret's mark over a nonce, 32 hex digits; null without a secret. */
  readonly mark: ((nonce: string) => string) | null;
}

export interface DiscoveryOptions {
  readonly logger: Logger;
  readonly clock: Clock;
  /** Default: the system's. */
  readonly interfaces?: () => Interfaces;
}

/** After the socket opens or something changed; the first one finds, the others make up for lost packets. */
const burstsMs = [0, 150, 500, 1_500, 4_000] as const;
const announceBurstsMs = [0, 1_000] as const;
const tickMs = 2_000;
/** Three times within the lifetime of what we announce. */
const announceMs = 40_000;
const nonceMs = 8 * 60_000;
const retryMs = 15_000;
/** Between two calls of the listeners. */
const quietMs = 100;
const floodPauseMs = 5_000;
/** A tick this late means that the machine slept: neighbours have changed. */
const sleptMs = 10_000;

/** Begins to listen at once; the library is loaded only while discovery is enabled. */
export function createDiscovery(options: DiscoveryOptions): Discovery {
  const { logger, clock } = options;
  const readInterfaces = options.interfaces ?? networkInterfaces;
  const peers = createPeerTable();
  const gate = createPacketGate();
  const listeners = new Set<() => void>();
  const timers = new Set<NodeJS.Timeout>();
  const responders = new Map<string, Responder>();
  let Server: ServerClass | null = null;
  let loadProblem: string | null = null;
  let enabled = true;
  let closed = false;
  let own: Announcement | null = null;
  let nonce = { value: '', madeAt: 0 };
  let announcedAt = 0;
  let pausedUntil = 0;
  let retriedAt = clock.now();
  let tickedAt = clock.now();
  let toldAt = 0;
  let telling = false;
  let interfaces: Interfaces = {};
  let seenInterfaces = '';
  let plan = planInterfaces({});
  let vicinity = createVicinity(plan, {});

  /** At once, but not for every packet of a burst. */
  const changed = (): void => {
    if (closed || telling) return;
    const waitMs = Math.max(0, toldAt + quietMs - clock.now());
    telling = true;
    later(Math.min(waitMs, quietMs), () => {
      telling = false;
      toldAt = clock.now();
      for (const listener of [...listeners]) listener();
    });
  };
  const later = (ms: number, action: () => void): void => {
    if (ms === 0) return action();
    const timer = setTimeout(() => {
      timers.delete(timer);
      action();
    }, ms).unref();
    timers.add(timer);
  };

  const onResponse = (packet: Buffer, from: { readonly address: string }, responder: Responder): void => {
    const now = clock.now();
    const { address } = from;
    const accepts = (one: string): boolean =>
      vicinity.isOwn(one) ? vicinity.isOwn(address) : vicinity.plausible(one);
    const isCertain = vicinity.near(address).exact || plan.used.length === 1;
    const source = { address, interfaces: isCertain ? [responder.at.name] : [] };
    let news = false;
    for (const announcement of parseAnnouncement(packet)) {
      if (announcement.bootId === own?.bootId && announcement.nodeId === own.nodeId) continue;
      // Bound to its machine's loopback: that machine alone can reach it.
      if (announcement.addresses.some(isLoopback) && !vicinity.isOwn(address)) continue;
      news = peers.hear(announcement, source, now, accepts) || news;
    }
    if (news) changed();
  };

  /** What this responder says of us, its own address first. */
  const recordsAt = (responder: Responder): ReturnType<typeof ownRecords> | null => {
    if (!own) return null;
    const here = responder.at.address;
    const addresses =
      own.host === undefined ? [here, ...plan.ownAddresses.filter((one) => one !== here)] : [own.host];
    return ownRecords(
      { ...own, nonce: nonce.value, mark: own.mark === null ? null : own.mark(nonce.value) },
      addresses,
    );
  };
  const announceAt = (responder: Responder): void => {
    const records = recordsAt(responder);
    responder.answerWith(records?.answered ?? null);
    if (records) responder.announce(records.announced);
  };
  const announceAll = (): void => {
    if (own && clock.now() - nonce.madeAt >= nonceMs) renewNonce();
    announcedAt = clock.now();
    for (const responder of responders.values()) announceAt(responder);
  };
  const renewNonce = (): void => {
    nonce = { value: randomBytes(16).toString('hex'), madeAt: clock.now() };
  };
  const introduce = (to: readonly Responder[]): void => {
    const alive = (): Responder[] => to.filter((one) => responders.get(one.at.address) === one);
    for (const ms of announceBurstsMs) later(ms, () => alive().forEach(announceAt));
    for (const ms of burstsMs) later(ms, () => alive().forEach((one) => one.ask()));
  };

  const open = (): void => {
    if (!Server || !enabled || closed || clock.now() < pausedUntil) return;
    const wanted = new Map(plan.used.map((one) => [one.address, one]));
    for (const [address, responder] of responders) {
      if (wanted.get(address) === responder.at && !responder.broken) continue;
      responder.close();
      responders.delete(address);
    }
    const opened: Responder[] = [];
    for (const [address, at] of wanted) {
      if (responders.has(address)) continue;
      const responder: Responder = createResponder({
        at,
        Server,
        now: () => clock.now(),
        admit: ({ address: from }) => {
          // Sockets that are bound to all addresses hear each other's packets: the subnet tells whose it is.
          if (!vicinity.near(from).on.includes(at)) return false;
          const admitted = gate.admit(from, clock.now());
          if (gate.flooded) pause();
          return admitted && vicinity.plausible(from);
        },
        onResponse: (packet, from) => onResponse(packet, from, responder),
      });
      responders.set(address, responder);
      opened.push(responder);
    }
    if (opened.length > 0) introduce(opened);
  };
  const shut = (): void => {
    for (const responder of responders.values()) responder.close();
    responders.clear();
  };
  const pause = (): void => {
    if (clock.now() < pausedUntil) return;
    pausedUntil = clock.now() + floodPauseMs;
    logger.warn('discovery hears a flood of packets and stops listening for a while', {
      pauseMs: floodPauseMs,
    });
    shut();
    later(floodPauseMs + 1, () => {
      gate.reset();
      open();
    });
  };

  /** @returns whether this machine's addresses are others than before */
  const readPlan = (): boolean => {
    interfaces = readInterfaces();
    const seen = JSON.stringify(interfaces);
    if (seen === seenInterfaces) return false;
    seenInterfaces = seen;
    const next = planInterfaces(interfaces);
    // Objects of unchanged addresses stay: by them a responder knows that it may go on.
    const used = next.used.map(
      (one) => plan.used.find((old) => JSON.stringify(old) === JSON.stringify(one)) ?? one,
    );
    plan = { ...next, used };
    vicinity = createVicinity(plan, interfaces);
    return true;
  };

  const tick = (): void => {
    const now = clock.now();
    const slept = now - tickedAt > sleptMs;
    tickedAt = now;
    if (!enabled) return;
    if (now - retriedAt >= retryMs) {
      retriedAt = now;
      if (!Server) load();
      open();
    }
    const moved = readPlan();
    if (moved) {
      logger.debug('addresses changed', { addresses: plan.used.map((one) => one.address).join(' ') });
      open();
    }
    if (moved || slept) introduce([...responders.values()]);
    if (peers.expire(now)) changed();
    if (now - announcedAt >= announceMs) announceAll();
  };

  const load = (): void => {
    if (Server || closed || !enabled) return;
    void import('bonjour-service/dist/lib/mdns-server.js').then(
      (library) => {
        Server = library.Server;
        loadProblem = null;
        open();
      },
      (error: unknown) => {
        loadProblem = 'cannot load the multicast DNS library';
        logger.error(loadProblem, { error: String(error) });
      },
    );
  };
  const goodbye = async (): Promise<void> => {
    await Promise.all(
      [...responders.values()].map(async (responder) => {
        const records = recordsAt(responder);
        responder.answerWith(null);
        if (records) await responder.sayGoodbye(records.announced);
      }),
    );
  };

  readPlan();
  queueMicrotask(load); // Whoever switches it off at once never loads the library.
  const ticking = setInterval(tick, tickMs).unref();

  return {
    announce(announcement) {
      if (closed) return;
      const before = own;
      if (before && before.bootId !== announcement?.bootId) void goodbye();
      own = announcement;
      if (!own) return;
      renewNonce();
      announcedAt = clock.now();
      introduce([...responders.values()]);
    },
    announced: () => own,
    peers: () => peers.list(),
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    interfaces() {
      const now = clock.now();
      const flood = now < pausedUntil ? 'was flooded with packets; listens again in a few seconds' : null;
      const off = enabled ? null : 'discovery is switched off';
      return [
        ...plan.used.map(({ name, address, virtual }) => {
          const responder = responders.get(address);
          const opening = responder ? null : (loadProblem ?? 'not opened yet');
          const problem = off ?? flood ?? opening ?? responder?.problem(now) ?? null;
          return { name, address, virtual, working: problem === null, problem };
        }),
        ...plan.unused.map((one) => ({ ...one, working: false })),
      ];
    },
    get enabled() {
      return enabled;
    },
    setEnabled(wanted) {
      if (wanted === enabled || closed) return;
      enabled = wanted;
      if (wanted) {
        readPlan();
        load();
        open();
        return;
      }
      const ending = [...responders.values()];
      void goodbye().then(() => ending.forEach((responder) => responder.close()));
      responders.clear();
      if (peers.clear()) changed();
    },
    refresh() {
      for (const responder of responders.values()) responder.ask();
    },
    async close() {
      if (closed) return;
      closed = true;
      clearInterval(ticking);
      for (const timer of timers) clearTimeout(timer);
      listeners.clear();
      await goodbye();
      shut();
    },
  };
}

function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1';
}
