import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { liveSchema, type Live } from '#shared/api/dashboard.ts';
import { apiEventSchema, type ApiEvent, type TransferView } from '#shared/api/schema.ts';
import { taskId, type DeploymentId, type JobId } from '#shared/lib/ids.ts';
import { apply } from '../state/apply.ts';
import type { ControllerEvent } from '../state/events.ts';
import {
  connected,
  deployment,
  deploymentId,
  joined,
  nodeId,
  observation,
  replica,
  telemetry,
} from '../state/fixtures.ts';
import { definition } from '../state/job-fixtures.ts';
import { emptyState, type ControllerState } from '../state/state.ts';
import { createFigures, createLiveFeed } from './live-feed.ts';

let state: ControllerState;
let running: Map<DeploymentId, number>;
let generated: Map<DeploymentId, number>;
let transfers: TransferView[];
beforeEach(() => {
  state = emptyState(0);
  running = new Map();
  generated = new Map();
  transfers = [];
  record(
    joined('a', 'alpha'),
    joined('b', 'beta'),
    connected('a', { engines: [observation(1, 0, { busySlots: 1 })] }),
    connected('b', { engines: [observation(1, 1)] }),
    { type: 'deployment-created', at: 0, deployment: deployment() },
    { type: 'replica-placed', at: 0, deploymentId, replica: replica() },
  );
});
afterEach(() => void vi.useRealTimers());

function record(...events: ControllerEvent[]): void {
  state = events.reduce(apply, state);
}
function beat(digit: string, at: number, cpuLoad: number): void {
  record({
    type: 'heartbeat-received',
    at,
    nodeId: nodeId(digit),
    telemetry: { ...telemetry, cpuLoad, receiveBytesPerS: 5 },
    problems: [],
    lend: null,
  });
}
const jobOf = (number: number): JobId => `j-${String(number).padStart(8, '0')}` as JobId;
/** A job of three partitions. */
function submit(number: number): void {
  record({
    type: 'job-submitted',
    at: 0,
    definition: definition({
      id: jobOf(number),
      total: 3,
      unit: 'items',
      division: { mode: 'counted', count: 3, ranged: false },
    }),
    distribution: { mode: 'auto' },
  });
}
/** Its next partition goes to a machine. */
function assign(number: number, turn: number): void {
  const index = turn - 1;
  record({
    type: 'tasks-assigned',
    at: turn,
    assignments: [
      {
        jobId: jobOf(number),
        index,
        epoch: 1,
        attempt: 1,
        taskId: taskId(jobOf(number), index, 1),
        nodeId: nodeId('a'),
        range: null,
        owner: null,
        speculative: false,
      },
    ],
  });
}
const options = () => ({ state: () => state, running, generated, transfers: () => transfers });
const names = (live: Live): string[] => live.nodes.map(({ id }) => id.slice(0, 1));

describe('figures', () => {
  test('are everything at first, then what has changed', () => {
    const figures = createFigures(options());
    const all = figures.all(0);
    expect(liveSchema.parse(all)).toEqual(all);
    expect(names(all)).toEqual(['a', 'b']);
    expect(all.deployments).toEqual([
      { id: deploymentId, requestsRunning: 0, tokensPerS: 0, slotsBusy: 1, slotsTotal: 2 },
    ]);
    expect(figures.next(1_000)).toEqual({ at: 1_000, nodes: [], deployments: [], transfers: [], jobs: [] });

    beat('b', 1_500, 0.5);
    expect(figures.next(2_000).nodes).toMatchObject([
      { id: nodeId('b'), status: 'busy', cpuLoad: 0.5, receiveBytesPerS: 5, sendBytesPerS: null },
    ]);
    record({ type: 'node-paused', at: 2_500, nodeId: nodeId('a') });
    expect(figures.next(3_000).nodes).toMatchObject([{ id: nodeId('a'), status: 'paused' }]);
    running.set(deploymentId, 2);
    expect(figures.next(4_000)).toMatchObject({ nodes: [], deployments: [{ requestsRunning: 2 }] });
  });

  test('of a machine whose connection is gone are no longer there', () => {
    const figures = createFigures(options());
    figures.all(0);
    record({ type: 'session-closed', at: 1, nodeId: nodeId('a'), sessionId: 1, goodbye: true });
    expect(figures.next(1_000).nodes).toMatchObject([
      { status: 'offline', cpuLoad: null, ramAvailableBytes: null, devices: [] },
    ]);
  });

  test('tokens per second are those of the last five, and fall to 0', () => {
    const figures = createFigures(options());
    generated.set(deploymentId, 1_000);
    const rate = (now: number): number => {
      const { deployments } = figures.all(now);
      return deployments[0]?.tokensPerS ?? NaN;
    };
    expect(rate(0)).toBe(0);
    generated.set(deploymentId, 1_010);
    expect(rate(1_000)).toBe(10);
    for (let second = 2; second <= 10; second += 1) {
      generated.set(deploymentId, 1_010 + 20 * (second - 1));
      rate(second * 1_000);
    }
    generated.set(deploymentId, 1_210);
    expect(rate(11_000)).toBe((20 * 4) / 5 + 20 / 5);
    for (let second = 12; second <= 16; second += 1) rate(second * 1_000);
    expect(rate(17_000)).toBe(0);
  });

  test('of transfers come when they move', () => {
    const transfer: TransferView = {
      id: 't-1',
      kind: 'pull',
      nodeId: nodeId('a'),
      source: 'hf:a/b',
      status: 'running',
      doneBytes: 1,
      totalBytes: 9,
      bytesPerS: null,
      model: null,
      error: null,
    };
    const figures = createFigures(options());
    transfers = [transfer];
    expect(figures.all(0).transfers).toEqual([transfer]);
    expect(figures.next(1).transfers).toEqual([]);
    transfers = [{ ...transfer, doneBytes: 5 }];
    expect(figures.next(2).transfers).toEqual(transfers);
  });

  test('of jobs come when they move, until they end', () => {
    submit(1);
    const figures = createFigures(options());
    // It has not begun: lists say the same.
    expect(figures.all(0).jobs).toEqual([]);
    assign(1, 1);
    expect(figures.next(1).jobs).toMatchObject([
      { id: jobOf(1), status: 'running', partitions: { done: 0 } },
    ]);
    expect(figures.next(2).jobs).toEqual([]);
    expect(figures.all(3).jobs).toHaveLength(1);
    record({ type: 'job-cancel-requested', at: 4, jobId: jobOf(1) });
    expect(figures.next(5).jobs).toMatchObject([{ status: 'cancelling' }]);
  });

  test('of a great many jobs come in turn, 500 at once', () => {
    for (let number = 1; number <= 1_200; number += 1) submit(number);
    const figures = createFigures(options());
    for (let number = 1; number <= 1_200; number += 1) assign(number, 1);
    const told = (now: number): Set<string> => new Set(figures.next(now).jobs.map(({ id }) => id));
    const first = told(1);
    expect(first.size).toBe(500);
    // All of them move on between two messages, and yet each has its turn.
    for (let number = 1; number <= 1_200; number += 1) assign(number, 2);
    const second = told(2);
    for (let number = 1; number <= 1_200; number += 1) assign(number, 3);
    const third = told(3);
    expect([second.size, third.size]).toEqual([500, 500]);
    expect(new Set([...first, ...second, ...third]).size).toBe(1_200);
  });
});

describe('feed', () => {
  test('works only while somebody looks; each gets everything, then the same changes once a second', () => {
    vi.useFakeTimers();
    let looks = 0;
    const feed = createLiveFeed({
      ...options(),
      state: () => ((looks += 1), state),
      clock: { now: () => Date.now() },
    });
    vi.advanceTimersByTime(10_000);
    expect(looks).toBe(0);

    const first: ApiEvent[] = [];
    const second: ApiEvent[] = [];
    const leaveFirst = feed.subscribe((event) => first.push(event));
    expect(first).toHaveLength(1);
    expect(apiEventSchema.parse(first[0])).toMatchObject({ id: null, kind: 'live' });
    vi.advanceTimersByTime(5_000);
    expect(first).toHaveLength(1);
    beat('a', 1, 0.9);
    const leaveSecond = feed.subscribe((event) => second.push(event));
    expect(first[1]?.live && names(first[1].live)).toEqual(['a']);
    expect(second[0]?.live && names(second[0].live)).toEqual(['a', 'b']);
    beat('b', 2, 0.9);
    vi.advanceTimersByTime(1_000);
    expect([first.length, second.length]).toEqual([3, 2]);
    expect(first[2]).toBe(second[1]);
    leaveFirst();
    leaveSecond();
    expect(vi.getTimerCount()).toBe(0);
  });
});
