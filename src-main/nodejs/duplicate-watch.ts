import { networkInterfaces } from 'node:os';
import type { AddressAttempt } from '#shared/domain/network.ts';
import type { Address } from '#shared/domain/node.ts';
import { CoveyError, type ErrorBody } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { BootId, NodeId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { Discovery } from './discovery/discovery.ts';
import type { FoundPeer } from './discovery/peer-table.ts';
import { dialAddresses } from './own-addresses.ts';
import type { Transport } from './transport/transport.ts';

/** A peer, and since when this watch knows it (epoch ms). */
export interface Sighting extends Pick<
  FoundPeer,
  'nodeId' | 'bootId' | 'name' | 'role' | 'addresses' | 'seenAt'
> {
  readonly firstSeenAt: number;
}

export interface Surroundings {
  readonly selfId: NodeId;
  readonly selfBootId: BootId;
  readonly startedAt: number;
  /** Where this run's own cluster port can be dialled. */
  readonly own: readonly Address[];
  /** Of the covey that this machine belongs to; null: none, or this is it. */
  readonly controllerId: NodeId | null;
  readonly now: number;
}

/** One identity that seems to run more than once, with the other runs that have to show the key to be believed. */
export interface Suspicion {
  readonly whose: 'self' | 'controller';
  readonly nodeId: NodeId;
  readonly runs: readonly Sighting[];
}

/** Heard within this time counts as running. */
const freshMs = 120_000;
/** A run that was heard this long after another began did not end before it. */
const overlapMs = 5_000;

/**
 * Identities that are announced by two runs of the program at once, from different addresses: ours, and our
 * controller's. A restart is none: the run before is not heard after the next has begun. Nothing of it is proven.
 */
export function suspicions(sightings: readonly Sighting[], around: Surroundings): Suspicion[] {
  const fresh = sightings.filter(({ seenAt }) => around.now - seenAt <= freshMs);
  const found: Suspicion[] = [];
  const own = new Set(around.own.map(addressText));
  const others = fresh.filter(
    (one) =>
      one.nodeId === around.selfId &&
      one.bootId !== around.selfBootId &&
      one.seenAt >= around.startedAt + overlapMs &&
      !one.addresses.some((address) => own.has(addressText(address))),
  );
  if (others.length > 0) found.push({ whose: 'self', nodeId: around.selfId, runs: others });
  if (around.controllerId === null || around.controllerId === around.selfId) return found;
  const controllers = fresh.filter((one) => one.nodeId === around.controllerId && one.role === 'controller');
  for (const [index, one] of controllers.entries()) {
    const other = controllers
      .slice(index + 1)
      .find((candidate) => overlap(one, candidate) && !sharesAddress(one, candidate));
    if (!other) continue;
    found.push({ whose: 'controller', nodeId: around.controllerId, runs: [one, other] });
    break;
  }
  return found;
}

function overlap(one: Sighting, other: Sighting): boolean {
  return (
    one.bootId !== other.bootId &&
    Math.min(one.seenAt, other.seenAt) >= Math.max(one.firstSeenAt, other.firstSeenAt) + overlapMs
  );
}

function sharesAddress(one: Sighting, other: Sighting): boolean {
  const texts = new Set(one.addresses.map(addressText));
  return other.addresses.some((address) => texts.has(addressText(address)));
}

export interface DuplicateWatch {
  /** What people at this machine should know now. */
  notices(): readonly ErrorBody[];
  close(): void;
}

const lookMs = 10_000;
const askMs = 3_000;
/** What did not show the key is asked again after this long: anybody can announce anything. */
const askAgainMs = 60_000;
const maxAsked = 4;
/** Places of impostors that are told of, in the life of this process. */
const maxImpostors = 32;
/** Another run of ours that was heard is called this often, rather than waited for: an answer proves that it lives. */
const maxCalls = 3;

/**
 * Watches discovery for copies of this machine's identity and of its controller's. A copy is believed when it
 * shows the key in a TLS handshake, so that an announcement alone frightens nobody.
 */
export function createDuplicateWatch(options: {
  readonly discovery: Pick<Discovery, 'peers' | 'onChange' | 'refresh'>;
  readonly transport: Pick<Transport, 'identify' | 'clusterAddress'>;
  readonly self: { readonly nodeId: NodeId; readonly bootId: BootId };
  readonly controllerId: () => NodeId | null;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Once for each copy of this machine's own identity. */
  readonly onDuplicate?: (notice: ErrorBody) => void;
  /** Once for each place that announces itself as this machine and shows another key: one sentence. */
  readonly onImpostor?: (sentence: string) => void;
  readonly interfaces?: typeof networkInterfaces;
}): DuplicateWatch {
  const { discovery, transport, self, clock, logger } = options;
  const interfaces = options.interfaces ?? networkInterfaces;
  const startedAt = clock.now();
  let firstSeen = new Map<string, number>();
  let notices: readonly ErrorBody[] = [];
  let looking = false;
  let closed = false;
  const asked = new Map<string, { readonly at: number; readonly shown: Address | null }>();
  const told = new Set<string>();
  const called = new Map<string, number>();
  const impostors = new Set<string>();

  const noteImpostor = ({ address, nodeId }: AddressAttempt): void => {
    const place = addressText(address);
    if (nodeId === null || impostors.has(place) || impostors.size >= maxImpostors) return;
    impostors.add(place);
    const sentence = `What answers at ${place} is announced as this machine and shows another key (${nodeId.slice(0, 12)}): nobody who looks at the key believes it.`;
    logger.warn('another machine is announced as this one, with another key', { at: place });
    options.onImpostor?.(sentence);
  };

  const sightings = (): Sighting[] => {
    const peers = discovery.peers();
    const now = clock.now();
    const known = firstSeen;
    firstSeen = new Map(peers.map((peer) => [runOf(peer), known.get(runOf(peer)) ?? now]));
    return peers.map((peer) => ({ ...peer, firstSeenAt: firstSeen.get(runOf(peer)) ?? now }));
  };

  /** Where the run showed the key; null: nowhere. */
  const shown = async (run: Sighting): Promise<Address | null> => {
    const earlier = asked.get(runOf(run));
    if (earlier && clock.now() - earlier.at < askAgainMs) return earlier.shown;
    const attempts = await transport.identify(run.addresses, askMs);
    const answer = attempts.find((attempt) => attempt.nodeId === run.nodeId)?.address ?? null;
    asked.set(runOf(run), { at: clock.now(), shown: answer });
    if (run.nodeId === self.nodeId) {
      for (const attempt of attempts) if (attempt.nodeId !== run.nodeId) noteImpostor(attempt);
    }
    return answer;
  };

  const look = async (): Promise<void> => {
    const around: Surroundings = {
      selfId: self.nodeId,
      selfBootId: self.bootId,
      startedAt,
      own: [...dialAddresses(transport.clusterAddress, interfaces()), ...loopback(transport.clusterAddress)],
      controllerId: options.controllerId(),
      now: clock.now(),
    };
    for (const run of [...asked.keys()]) if (!firstSeen.has(run)) asked.delete(run);
    for (const run of [...called.keys()]) if (!firstSeen.has(run)) called.delete(run);
    const next: ErrorBody[] = [];
    const seen = sightings();
    const silent = seen.filter(
      (run) =>
        run.nodeId === self.nodeId &&
        run.bootId !== self.bootId &&
        run.seenAt < startedAt + overlapMs &&
        (called.get(runOf(run)) ?? 0) < maxCalls,
    );
    for (const run of silent) called.set(runOf(run), (called.get(runOf(run)) ?? 0) + 1);
    if (silent.length > 0) discovery.refresh();
    for (const { whose, runs } of suspicions(seen, around)) {
      const proven: string[] = [];
      for (const run of runs.slice(0, maxAsked)) {
        const address = await shown(run);
        if (address) proven.push(`${run.name} at ${addressText(address)}`);
      }
      if (whose === 'self' && proven.length > 0) {
        const notice = ownNotice(proven);
        next.push(notice);
        if (!told.has(notice.message)) {
          told.add(notice.message);
          logger.warn('another machine uses the identity of this one', { machines: proven.join(', ') });
          options.onDuplicate?.(notice);
        }
      }
      if (whose === 'controller' && proven.length > 1) next.push(controllerNotice(proven));
    }
    if (!closed) notices = next;
  };

  const start = (): void => {
    if (looking || closed) return;
    looking = true;
    look()
      .catch((error: unknown) => logger.debug('looking for copies failed', { reason: String(error) }))
      .finally(() => (looking = false));
  };
  const timer = setInterval(start, lookMs).unref();
  const stopListening = discovery.onChange(start);

  return {
    notices: () => notices,
    close() {
      closed = true;
      clearInterval(timer);
      stopListening();
    },
  };
}

const repair = 'On the copy, stop Covey, run "covey identity new" and join again.';

function ownNotice(others: readonly string[]): ErrorBody {
  return new CoveyError(
    'identity_in_use',
    `This machine's identity is also used by ${others.join(' and ')}. A data directory or a disk was probably copied. ${repair}`,
  ).toBody();
}

function controllerNotice(both: readonly string[]): ErrorBody {
  return new CoveyError(
    'identity_in_use',
    `Two controllers use one identity: ${both.join(' and ')}. A data directory or a disk was probably copied. ` +
      'On the copy, stop Covey and run "covey identity new".',
  ).toBody();
}

function runOf({ nodeId, bootId }: Pick<FoundPeer, 'nodeId' | 'bootId'>): string {
  return `${nodeId} ${bootId}`;
}

function addressText({ host, port }: Address): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function loopback(listen: Address | null): Address[] {
  return listen ? ['127.0.0.1', '::1'].map((host) => ({ host, port: listen.port })) : [];
}
