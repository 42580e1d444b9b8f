import type { DeploymentLive, Live, NodeLive } from '#shared/api/dashboard.ts';
import type { ApiEvent, TransferView } from '#shared/api/schema.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { DeploymentId, JobId, NodeId } from '#shared/lib/ids.ts';
import { jobProgress } from '../state/job-progress.ts';
import { openJobs } from '../state/job-selectors.ts';
import type { JobRecord } from '../state/job-state.ts';
import { nodeStatus, observedEngine } from '../state/selectors.ts';
import type { ControllerState, DeploymentRecord, NodeRecord } from '../state/state.ts';

export const liveEveryMs = 1_000;
/** One message tells of so many jobs at most; the turn of the others comes with the next. */
const jobsAtOnce = 500;
/** The rate of tokens is over this long. */
const rateMs = 5_000;

export interface LiveFeedOptions {
  readonly state: () => ControllerState;
  readonly running: ReadonlyMap<DeploymentId, number>;
  /** Tokens that each deployment has generated so far. */
  readonly generated: ReadonlyMap<DeploymentId, number>;
  readonly transfers: () => readonly TransferView[];
  readonly clock: Clock;
}

export interface LiveFeed {
  /** Everything at once, then about once a second what has changed, until the returned function is called. */
  subscribe(listener: (event: ApiEvent) => void): () => void;
}

/**
 * Live figures for those who look. While nobody does nothing is worked out; all who do get the same object, so
 * that it is put into words once.
 */
export function createLiveFeed(options: LiveFeedOptions): LiveFeed {
  const listeners = new Set<(event: ApiEvent) => void>();
  let timer: NodeJS.Timeout | null = null;
  let figures = createFigures(options);

  const tick = (): void => {
    const live = figures.next(options.clock.now());
    const { nodes, deployments, transfers, jobs } = live;
    if (nodes.length + deployments.length + transfers.length + jobs.length === 0) return;
    const event = eventOf(live);
    for (const listener of listeners) listener(event);
  };
  return {
    subscribe(listener) {
      if (timer === null) {
        figures = createFigures(options);
        timer = setInterval(tick, liveEveryMs);
      } else {
        // Brings the others up to date, so that what follows is a change for everybody.
        tick();
      }
      listeners.add(listener);
      listener(eventOf(figures.all(options.clock.now())));
      return () => {
        listeners.delete(listener);
        if (listeners.size > 0 || timer === null) return;
        clearInterval(timer);
        timer = null;
      };
    },
  };
}

function eventOf(live: Live): ApiEvent {
  return { id: null, at: live.at, kind: 'live', level: 'info', message: 'Live figures', live };
}

interface Figures {
  /** Whatever there is; what follows is counted from here. */
  all(now: number): Live;
  /** What differs from what was told last. */
  next(now: number): Live;
}

/** The figures as they were told, and what is new in them. Pure but for what it remembers. */
export function createFigures(options: Omit<LiveFeedOptions, 'clock'>): Figures {
  const { state, running, generated } = options;
  /** What a node's figures came from: the same objects give the same figures. */
  const toldNodes = new Map<NodeId, readonly unknown[]>();
  const toldDeployments = new Map<DeploymentId, string>();
  const toldTransfers = new Map<string, TransferView>();
  /** The same record is the same progress, but for its speed. Those told longest ago come first. */
  const toldJobs = new Map<JobId, JobRecord>();
  const rates = new Map<DeploymentId, { at: number; tokens: number }[]>();

  const tokensPerS = (id: DeploymentId, now: number): number => {
    const samples = rates.get(id) ?? [];
    rates.set(id, samples);
    samples.push({ at: now, tokens: generated.get(id) ?? 0 });
    while (samples.length > 2 && now - (samples[1]?.at ?? now) >= rateMs) samples.shift();
    const first = samples[0];
    const last = samples.at(-1);
    if (!first || !last || last.at <= first.at) return 0;
    const rate = ((last.tokens - first.tokens) * 1000) / (last.at - first.at);
    return Math.round(Math.max(0, rate) * 10) / 10;
  };

  /** A job that has not begun stands still: lists say all there is to say of it. */
  const movedJobs = (): readonly JobRecord[] => {
    const moved = openJobs(state().jobs).filter((job) => {
      const told = toldJobs.get(job.definition.id);
      return told === undefined ? job.course.phase !== 'queued' : told !== job;
    });
    if (moved.length <= jobsAtOnce) return moved;
    const turns = new Map([...toldJobs.keys()].map((id, turn) => [id, turn]));
    const turnOf = ({ definition }: JobRecord): number => turns.get(definition.id) ?? -1;
    return moved.sort((a, b) => turnOf(a) - turnOf(b)).slice(0, jobsAtOnce);
  };

  const changed = (now: number): Live => {
    const { nodes, deployments } = state();
    const live: Live = { at: now, nodes: [], deployments: [], transfers: [], jobs: [] };
    for (const id of toldNodes.keys()) if (!nodes.has(id)) toldNodes.delete(id);
    for (const [id, node] of nodes) {
      const from = [node.live.telemetry, node.live.lend, nodeStatus(state(), node)];
      const told = toldNodes.get(id);
      if (told && from.every((value, index) => value === told[index])) continue;
      toldNodes.set(id, from);
      live.nodes.push(nodeLive(state(), node));
    }
    for (const id of toldDeployments.keys()) {
      if (deployments.has(id)) continue;
      toldDeployments.delete(id);
      rates.delete(id);
    }
    for (const [id, deployment] of deployments) {
      const view: DeploymentLive = {
        id,
        requestsRunning: running.get(id) ?? 0,
        tokensPerS: tokensPerS(id, now),
        ...slotsOf(state(), deployment),
      };
      const text = JSON.stringify(view);
      if (toldDeployments.get(id) === text) continue;
      toldDeployments.set(id, text);
      live.deployments.push(view);
    }
    const transfers = options.transfers();
    for (const id of toldTransfers.keys()) {
      if (!transfers.some((transfer) => transfer.id === id)) toldTransfers.delete(id);
    }
    for (const transfer of transfers) {
      if (toldTransfers.get(transfer.id) === transfer) continue;
      toldTransfers.set(transfer.id, transfer);
      live.transfers.push(transfer);
    }
    for (const id of toldJobs.keys())
      if (state().jobs.get(id)?.course.finishedAt !== null) toldJobs.delete(id);
    for (const job of movedJobs()) {
      const { id } = job.definition;
      toldJobs.delete(id);
      toldJobs.set(id, job);
      live.jobs.push({ id, ...jobProgress(job, now) });
    }
    return live;
  };

  return {
    next: changed,
    all(now) {
      toldNodes.clear();
      toldDeployments.clear();
      toldTransfers.clear();
      toldJobs.clear();
      return changed(now);
    },
  };
}

function nodeLive(state: ControllerState, node: NodeRecord): NodeLive {
  const { durable, live } = node;
  // What a machine said last is no live figure once its connection is gone.
  const telemetry = live.session ? live.telemetry : null;
  return {
    id: durable.id,
    status: nodeStatus(state, node),
    cpuLoad: telemetry?.cpuLoad ?? null,
    ramAvailableBytes: telemetry?.ramAvailableBytes ?? null,
    receiveBytesPerS: telemetry?.receiveBytesPerS ?? null,
    sendBytesPerS: telemetry?.sendBytesPerS ?? null,
    devices: telemetry?.deviceFree ?? [],
    celsius: telemetry?.celsius ?? null,
    lend: live.session ? live.lend : null,
  };
}

function slotsOf(
  state: ControllerState,
  { replica }: DeploymentRecord,
): Pick<DeploymentLive, 'slotsBusy' | 'slotsTotal'> {
  const leader = replica && observedEngine(state, replica.leader);
  return {
    slotsBusy: leader?.busySlots ?? null,
    slotsTotal: replica?.plan.parallel ?? null,
  };
}
