import { beforeEach, expect, it } from 'vitest';
import type { DeploymentLive, JobLive, NodeLive } from '#shared/api/dashboard.ts';
import type { DeploymentId, JobId, NodeId } from '#shared/lib/ids.ts';
import { addEvents, addLive, forgetLive, useLive } from './live.ts';

const node = (id: string, cpuLoad: number): NodeLive => ({
  id: id as NodeId,
  status: 'ready',
  cpuLoad,
  ramAvailableBytes: null,
  receiveBytesPerS: null,
  sendBytesPerS: null,
  devices: [],
  celsius: null,
  lend: null,
});
const deployment = (id: string, tokensPerS: number): DeploymentLive => ({
  id: id as DeploymentId,
  requestsRunning: 1,
  tokensPerS,
  slotsBusy: null,
  slotsTotal: null,
});

beforeEach(forgetLive);

const live = (at: number, nodes: NodeLive[], deployments: DeploymentLive[] = []) => ({
  at,
  nodes,
  deployments,
  transfers: [],
  jobs: [],
});

it('keeps what did not change, and forgets all that a new connection does not name', () => {
  addLive(live(0, [node('a', 0.1), node('b', 0.2)], [deployment('d', 5)]), true);
  addLive(live(1_000, [node('a', 0.3)]), false);
  expect([...useLive.getState().nodes.values()].map(({ cpuLoad }) => cpuLoad)).toEqual([0.3, 0.2]);
  expect(useLive.getState().samples.map(({ tokensPerS }) => tokensPerS)).toEqual([5, 5]);
  addLive(live(2_000, [node('b', 0.4)]), true);
  expect([...useLive.getState().nodes.keys()]).toEqual(['b']);
  expect(useLive.getState().samples.at(-1)).toEqual({ at: 2_000, tokensPerS: 0, requestsRunning: 0 });
});

it('keeps ten minutes of a node, one sample every two seconds, the newest always', () => {
  for (let s = 0; s <= 1_200; s++) addLive(live(s * 1_000, [node('a', s)]), s === 0);
  const samples = useLive.getState().nodeSamples.get('a') ?? [];
  expect(samples.length).toBeGreaterThanOrEqual(300);
  expect(samples.length).toBeLessThanOrEqual(303);
  expect(samples.at(-1)?.cpuLoad).toBe(1_200);
  expect(samples[0]?.at).toBeGreaterThanOrEqual(598_000);
});

it('keeps the jobs that were told of last, however many have run since it was opened', () => {
  const job = (number: number): JobLive => ({
    id: `j-${number}` as JobId,
    status: 'running',
    units: { unit: 'items', total: 10, done: 1 },
    partitions: { total: 10, waiting: 0, running: 1, done: 1, failed: 0, cancelled: 0 },
    unitsPerS: null,
    remainingMs: null,
  });
  for (let turn = 0; turn < 100; turn++) {
    const jobs = Array.from({ length: 50 }, (_, index) => job(turn * 50 + index));
    addLive({ ...live(turn * 1_000, []), jobs: [job(0), ...jobs] }, turn === 0);
  }
  const { jobs } = useLive.getState();
  expect(jobs.size).toBe(2_000);
  expect(jobs.has('j-0') && jobs.has('j-4999')).toBe(true);
  addLive(live(200_000, [node('a', 0.1)]), false);
  // Lists of thousands are not drawn anew for what is not about them.
  expect(useLive.getState().jobs).toBe(jobs);
});

it('keeps the newest events that are stored, newest first', () => {
  const event = (id: number | null) => ({ id, at: 0, kind: 'noted', level: 'info', message: '' }) as const;
  for (let id = 1; id <= 500; id++) addEvents([event(id), event(null)]);
  const { events } = useLive.getState();
  expect(events.length).toBe(200);
  expect([events[0]?.id, events.at(-1)?.id]).toEqual([500, 301]);
});
