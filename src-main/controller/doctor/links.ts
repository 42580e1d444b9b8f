import type { PairCheck } from '#shared/api/self.ts';
import type { LinkObservation } from '#shared/domain/engine.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { EngineId, NodeId } from '#shared/lib/ids.ts';
import type { Transport } from '../../nodejs/transport/transport.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { SessionRegistry } from '../sessions/session-registry.ts';
import type { ControllerState, NodeRecord } from '../state/state.ts';
import { pairKey, pairsToMeasure, type Pair } from './pairs.ts';

export interface LinksOptions {
  readonly runtime: Pick<Runtime, 'state' | 'dispatch'>;
  readonly sessions: Pick<SessionRegistry, 'request'>;
  /** For measurements that begin at the controller itself. */
  readonly transport: Pick<Transport, 'probe'>;
  /** Lets the two find a reverse or relayed path for a probe within this time. */
  readonly expectProbe: (from: NodeId, to: NodeId, ttlMs: number) => void;
  readonly self: { readonly nodeId: NodeId; readonly name: string };
  readonly clock: Clock;
  /** Requests that models answer now: nothing is measured beside them. */
  readonly requestsRunning: () => number;
}

/** The way between every two machines, as it was last measured or is seen in use. Live: nothing is stored. */
export interface Links {
  /** Both directions, by name of the first and the second. */
  list(): PairCheck[];
  /** The newest of a pair, null when it was never looked at. */
  latest(from: NodeId, to: NodeId): PairCheck | null;
  /**
   * Measures now and keeps the result. Never rejects: what went wrong is `error` in it.
   * @param bytes volume each way at most; 0 measures the round trip alone
   */
  measure(pair: Pair, bytes: number, signal: AbortSignal): Promise<PairCheck>;
  /** Begins to measure quietly in the background. */
  start(): void;
  close(): void;
}

const tickMs = 5_000;
const repeatMs = 6 * 3_600_000;
const retryMs = 10 * 60_000;
/** A member that has just come is still busy with itself. */
const settleMs = 5_000;
const backgroundBytes = 2 * 1024 * 1024;
const probeDeadlineMs = 16_000;
const maxKept = 4_096;

export function createLinks(options: LinksOptions): Links {
  const { runtime, sessions, self, clock } = options;
  const measured = new Map<string, PairCheck>();
  /** When the background tried a pair last, and whether it came to a path. */
  const attempts = new Map<string, { readonly at: number; readonly failed: boolean }>();
  /** The path that was last reported as an event, so that a change is told once. */
  const paths = new Map<string, string>();
  const closing = new AbortController();
  let timer: NodeJS.Timeout | null = null;
  let measuring = false;

  const nameOf = (id: NodeId): string =>
    runtime.state.nodes.get(id)?.durable.name ?? (id === self.nodeId ? self.name : id.slice(0, 12));

  const keep = (check: PairCheck): PairCheck => {
    const key = pairKey(check.from, check.to);
    // The newest last, so that the oldest can be dropped.
    measured.delete(key);
    measured.set(key, check);
    for (const old of measured.keys()) {
      if (measured.size <= maxKept) break;
      measured.delete(old);
    }
    tellPath(check);
    return check;
  };

  const tellPath = ({ from, to, path }: Pick<PairCheck, 'from' | 'to' | 'path'>): void => {
    if (path === null) return;
    const key = pairKey(from, to);
    const before = paths.get(key);
    paths.set(key, path);
    if (before === undefined || before === path) return;
    runtime.dispatch({
      type: 'noted',
      at: clock.now(),
      kind: 'network-path-changed',
      level: path === 'relay' ? 'warn' : 'info',
      message: `${nameOf(from)} reaches ${nameOf(to)} by a ${path} connection now, before it was ${before}.`,
      nodeId: from,
    });
  };

  const probe = async ([from, to]: Pair, bytes: number, signal: AbortSignal) => {
    const peer = runtime.state.nodes.get(to);
    const addresses = (peer?.durable.facts?.addresses ?? []).slice(0, 16);
    const target = { peer: to, peerName: nameOf(to), addresses, bytes };
    options.expectProbe(from, to, probeDeadlineMs);
    if (from === self.nodeId) {
      return options.transport.probe({ ...target, timeoutMs: probeDeadlineMs, signal });
    }
    return sessions.request(from, 'network.probe', target, { deadlineMs: probeDeadlineMs, signal });
  };

  const measure = async (pair: Pair, bytes: number, signal: AbortSignal): Promise<PairCheck> => {
    const [from, to] = pair;
    const base = { from, fromName: nameOf(from), to, toName: nameOf(to) };
    try {
      const { path, rttMs, bytesPerS, attempts: tried } = await probe(pair, bytes, signal);
      return keep({ ...base, path, rttMs, bytesPerS, measuredAt: clock.now(), attempts: tried, error: null });
    } catch (thrown) {
      const error = CoveyError.from(thrown).toBody();
      const check = {
        ...base,
        path: null,
        rttMs: null,
        bytesPerS: null,
        measuredAt: clock.now(),
        attempts: [],
      };
      // What was cut off says nothing about the way.
      return signal.aborted ? { ...check, error } : keep({ ...check, error });
    }
  };

  /** What leaders see of their stages right now, over what was measured. */
  const inUse = (): PairCheck[] => {
    const at = clock.now();
    return linksInUse(runtime.state).map(({ from, to, link }) => {
      const known = measured.get(pairKey(from, to));
      const rates = [known?.bytesPerS, link.bytesPerS].filter((rate) => rate != null);
      return {
        from,
        fromName: nameOf(from),
        to,
        toName: nameOf(to),
        path: link.path,
        rttMs: link.rttMs ?? known?.rttMs ?? null,
        // Traffic is a lower bound for what the way could carry.
        bytesPerS: rates.length === 0 ? null : Math.max(...rates),
        measuredAt: at,
        attempts: known?.attempts ?? [],
        error: null,
      };
    });
  };

  /** What nobody can see any more goes. */
  const forgetRemoved = (): void => {
    const exists = (id: NodeId): boolean => id === self.nodeId || runtime.state.nodes.has(id);
    for (const map of [measured, attempts, paths]) {
      for (const key of map.keys()) if (!key.split(' ').every((id) => exists(id as NodeId))) map.delete(key);
    }
  };

  const dueAt = (pair: Pair): number => {
    const last = attempts.get(pairKey(...pair));
    if (last) return last.at + (last.failed ? retryMs : repeatMs);
    const known = measured.get(pairKey(...pair));
    return known ? known.measuredAt + repeatMs : 0;
  };

  const tick = async (): Promise<void> => {
    forgetRemoved();
    inUse().forEach(tellPath);
    if (measuring || isBusy(runtime.state) || options.requestsRunning() > 0) return;
    const now = clock.now();
    const settled = connectedNodes(runtime.state).filter(
      ({ live }) => live.session !== null && now - live.session.openedAt >= settleMs,
    );
    // Large coveys: the pairs that the doctor would look at too.
    const { pairs } = pairsToMeasure(settled.map(({ durable }) => durable.id));
    const due = pairs.find((pair) => dueAt(pair) <= now);
    if (due === undefined) return;
    measuring = true;
    try {
      const { error } = await measure(due, backgroundBytes, closing.signal);
      attempts.set(pairKey(...due), { at: clock.now(), failed: error !== null });
    } finally {
      measuring = false;
    }
  };

  const latest = (from: NodeId, to: NodeId): PairCheck | null =>
    inUse().find((check) => check.from === from && check.to === to) ??
    measured.get(pairKey(from, to)) ??
    null;

  return {
    list() {
      forgetRemoved();
      const all = new Map(measured);
      for (const check of inUse()) all.set(pairKey(check.from, check.to), check);
      return [...all.values()]
        .map((check) => ({ ...check, fromName: nameOf(check.from), toName: nameOf(check.to) }))
        .sort((a, b) => a.fromName.localeCompare(b.fromName) || a.toName.localeCompare(b.toName));
    },
    latest,
    measure,
    start() {
      timer ??= setInterval(() => void tick(), tickMs).unref();
    },
    close() {
      if (timer) clearInterval(timer);
      closing.abort(new CoveyError('shutting_down', 'The controller is stopping.'));
    },
  };
}

export function connectedNodes(state: ControllerState): NodeRecord[] {
  return [...state.nodes.values()].filter(({ live }) => live.session !== null);
}

/** Measuring takes bandwidth from loads, so it waits for them. */
function isBusy(state: ControllerState): boolean {
  return [...state.deployments.values()].some(({ phase }) => phase === 'loading');
}

interface LinkInUse {
  readonly from: NodeId;
  readonly to: NodeId;
  readonly link: LinkObservation;
}

function linksInUse(state: ControllerState): LinkInUse[] {
  const found: LinkInUse[] = [];
  for (const { replica } of state.deployments.values()) {
    if (!replica) continue;
    const stageNode = new Map<EngineId, NodeId>(
      replica.stages.map(({ engineId, nodeId }) => [engineId, nodeId]),
    );
    const from = replica.leader.nodeId;
    const leader = state.nodes.get(from)?.live.engines.get(replica.leader.engineId);
    for (const link of leader?.links ?? []) {
      const to = stageNode.get(link.stageEngineId);
      if (to !== undefined && to !== from && link.connected) found.push({ from, to, link });
    }
  }
  return found;
}
