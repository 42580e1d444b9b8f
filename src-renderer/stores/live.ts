import { create } from 'zustand';
import type { DeploymentLive, JobLive, Live, NodeLive } from '#shared/api/dashboard.ts';
import type { ApiEvent, TransferView } from '#shared/api/schema.ts';

/** A moment of the whole covey, for charts. */
export interface LiveSample {
  readonly at: number;
  readonly tokensPerS: number;
  readonly requestsRunning: number;
}
export type NodeSample = NodeLive & { readonly at: number };

interface LiveState {
  /** When the server last said something live, epoch ms of the server; null: not yet. */
  readonly at: number | null;
  readonly nodes: ReadonlyMap<string, NodeLive>;
  readonly deployments: ReadonlyMap<string, DeploymentLive>;
  /** Imports and downloads, also those that ended lately. */
  readonly transfers: ReadonlyMap<string, TransferView>;
  /** Jobs that were not finished when they were last told of, those told of last at the end. */
  readonly jobs: ReadonlyMap<string, JobLive>;
  /** Oldest first, since this page was opened, ten minutes at most. */
  readonly samples: readonly LiveSample[];
  /** By node, oldest first, ten minutes at most. */
  readonly nodeSamples: ReadonlyMap<string, readonly NodeSample[]>;
  /** By deployment: tokens/s, oldest first. */
  readonly deploymentSamples: ReadonlyMap<string, readonly LiveSample[]>;
  /** The newest stored events since this page was opened, newest first. */
  readonly events: readonly ApiEvent[];
}

const keepMs = 10 * 60_000;
const sampleEveryMs = 1_000;
const nodeSampleEveryMs = 2_000;
const maxEvents = 200;
/** Those that were told of last: how others ended, or that they wait, is in the lists. */
const maxJobs = 2_000;

const empty: LiveState = {
  at: null,
  nodes: new Map(),
  deployments: new Map(),
  transfers: new Map(),
  jobs: new Map(),
  samples: [],
  nodeSamples: new Map(),
  deploymentSamples: new Map(),
  events: [],
};

/** What the event stream says of now. Nothing in it is asked for, all of it is pushed. */
export const useLive = create<LiveState>(() => empty);

/** @param complete the first of a connection: what it does not name is no more */
export function addLive(live: Live, complete: boolean): void {
  useLive.setState((state) => {
    const nodes = new Map(complete ? [] : state.nodes);
    for (const node of live.nodes) nodes.set(node.id, node);
    const deployments = new Map(complete ? [] : state.deployments);
    for (const deployment of live.deployments) deployments.set(deployment.id, deployment);
    const transfers = new Map(complete ? [] : state.transfers);
    for (const transfer of live.transfers) transfers.set(transfer.id, transfer);
    const jobs = complete || live.jobs.length > 0 ? newestJobs(complete ? [] : state.jobs, live) : state.jobs;
    const { at } = live;

    const nodeSamples = new Map(state.nodeSamples);
    for (const node of live.nodes) {
      const list = nodeSamples.get(node.id) ?? [];
      nodeSamples.set(node.id, append(list, { ...node, at }, nodeSampleEveryMs));
    }
    const deploymentSamples = new Map<string, readonly LiveSample[]>();
    for (const { id, tokensPerS, requestsRunning } of deployments.values()) {
      const list = state.deploymentSamples.get(id) ?? [];
      deploymentSamples.set(id, append(list, { at, tokensPerS, requestsRunning }, sampleEveryMs));
    }
    const total = [...deployments.values()].reduce(
      (sum, one) => ({
        tokensPerS: sum.tokensPerS + one.tokensPerS,
        requestsRunning: sum.requestsRunning + one.requestsRunning,
      }),
      { tokensPerS: 0, requestsRunning: 0 },
    );
    const samples = append(state.samples, { at, ...total }, sampleEveryMs);
    return { at, nodes, deployments, transfers, jobs, samples, nodeSamples, deploymentSamples };
  });
}

function newestJobs(known: Iterable<readonly [string, JobLive]>, live: Live): ReadonlyMap<string, JobLive> {
  const jobs = new Map(known);
  for (const job of live.jobs) {
    jobs.delete(job.id);
    jobs.set(job.id, job);
  }
  for (const id of jobs.keys()) {
    if (jobs.size <= maxJobs) break;
    jobs.delete(id);
  }
  return jobs;
}

export function addEvents(events: readonly ApiEvent[]): void {
  const stored = events.filter((event) => event.id !== null).reverse();
  if (stored.length === 0) return;
  useLive.setState((state) => ({ events: [...stored, ...state.events].slice(0, maxEvents) }));
}

export function forgetLive(): void {
  useLive.setState(empty);
}

/** What is live of one node; null: nothing is. */
export function useNodeLive(id: string): NodeLive | null {
  return useLive((state) => state.nodes.get(id) ?? null);
}

export function useDeploymentLive(id: string): DeploymentLive | null {
  return useLive((state) => state.deployments.get(id) ?? null);
}

function append<T extends { readonly at: number }>(
  list: readonly T[],
  sample: T,
  everyMs: number,
): readonly T[] {
  const last = list.at(-1);
  // The newest always shows; those before it keep their distance.
  const before = list.at(-2);
  const tooClose = last !== undefined && before !== undefined && last.at - before.at < everyMs;
  const kept = tooClose ? list.slice(0, -1) : list;
  const from = kept.findIndex(({ at }) => at > sample.at - keepMs);
  return [...(from <= 0 ? kept : kept.slice(from)), sample];
}
