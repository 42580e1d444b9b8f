import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { taskId, type JobId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { ComputeFacts, TaskReport, Work } from '#shared/domain/task.ts';
import { controllerFrame, type ControllerFrame } from '#shared/protocol/session.ts';
import { LIMITS } from '#shared/protocol/version.ts';
import { createRuntime, type Runtime } from '../runtime/runtime.ts';
import { defaultPolicy } from '../scheduler/policy.ts';
import { connected, GiB, joined, nodeId } from '../state/fixtures.ts';
import { commandWork, definition, jobId } from '../state/job-fixtures.ts';
import type { JobDefinition } from '../state/job-state.ts';
import { openDatabase } from '../state/sqlite/database.ts';
import { createStore, type ControllerStore } from '../state/sqlite/store.ts';
import { createTaskFrames, type TaskFrames } from './task-frames.ts';

type Tasks = Extract<ControllerFrame, { type: 'tasks' }>;
const silent: Logger = {
  log: () => undefined,
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silent,
};
const a = nodeId('a');
const compute: ComputeFacts = {
  kernels: null,
  commands: { allowed: true, sandbox: 'bubblewrap', limits: 'rlimits', network: false },
  cpus: 2_000,
  memoryBytes: GiB,
  problems: [],
};

let directory: string;
let store: ControllerStore;
let runtime: Runtime;
let frames: TaskFrames;
let sent: string[];
let diskFull: boolean;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-sending-'));
  sent = [];
  diskFull = false;
  store = createStore(openDatabase(join(directory, 'covey.db')));
  const failing: ControllerStore = {
    ...store,
    save(...args) {
      if (diskFull) throw new Error('disk full');
      return store.save(...args);
    },
  };
  const clock = { now: () => 1_000 };
  runtime = createRuntime({
    store: failing,
    clock,
    policy: defaultPolicy,
    logger: silent,
    running: () => new Map(),
  });
  frames = createTaskFrames({ runtime, clock, leaseMs: 1_000, send: (_node, text) => sent.push(text) });
  runtime.dispatch(joined('a', 'alpha'));
});
afterEach(() => {
  frames.stop();
  store.close();
  rmSync(directory, { recursive: true, force: true });
});

const submit = (overrides: Partial<JobDefinition> = {}): void =>
  runtime.commit({
    type: 'job-submitted',
    at: 1,
    definition: definition({ division: { mode: 'counted', count: 4, ranged: false }, ...overrides }),
    distribution: { mode: 'auto' },
  });
const tasksSent = (): Tasks[] =>
  sent.map((text) => {
    const frame = controllerFrame.parse(JSON.parse(text));
    if (frame.type !== 'tasks') throw new Error(frame.type);
    return frame;
  });
const done = (index: number): TaskReport => ({
  type: 'done',
  taskId: `${jobId}.${index}.1` as never,
  epoch: 1,
  result: { value: index, artifacts: [] },
  usage: { wallMs: 1, cpuMs: null, peakBytes: null, stagingMs: 0 },
  output: '',
});
const turnOfLoop = () => new Promise((resolve) => setImmediate(resolve));

describe('sending', () => {
  test('no frame is larger than a session lets through, and each has the works of what it starts', () => {
    const work = (script: string): Work =>
      commandWork.kind === 'command'
        ? { ...commandWork, program: { ...commandWork.program, command: null, script } }
        : commandWork;
    for (const digit of ['1', '2', '3']) {
      submit({
        id: `j-0000000${digit}` as JobId,
        work: work('x'.repeat(500 * 1024)),
        division: { mode: 'counted', count: 600, ranged: false },
      });
    }
    runtime.dispatch(connected('a', { compute }));
    const all = tasksSent();
    expect(all.flatMap(({ start }) => start)).toHaveLength(1_800);
    for (const text of sent) expect(text.length).toBeLessThan(LIMITS.frameBytes);
    for (const { works, start } of all) {
      expect(works.map((work) => work.jobId).sort()).toEqual(
        [...new Set(start.map((task) => task.jobId))].sort(),
      );
    }
  });

  test('a gang of 1,024 ranks with all their ports goes in frames that a session lets through', () => {
    const { program } = commandWork.kind === 'command' ? commandWork : { program: null };
    if (!program) throw new Error('no program');
    const large = { ...program, command: null, script: 'x'.repeat(500 * 1024) };
    submit({
      work: { kind: 'gang', program: large, outputs: [], ports: 16 },
      gang: { perNode: null, restarts: 0 },
      division: { mode: 'counted', count: 1_024, ranged: false },
    });
    runtime.dispatch(connected('a', { compute }));
    sent = [];
    const reports = Array.from({ length: 1_024 }, (_, index): TaskReport => {
      const ports = Array.from({ length: 16 }, (_none, port) => 20_000 + port);
      return { type: 'started', taskId: taskId(jobId, index, 1), epoch: 1, host: 'h'.repeat(256), ports };
    });
    // Another job with a large work begins in the same turn.
    runtime.dispatch(
      { type: 'tasks-reported', at: 2, nodeId: a, reports },
      {
        type: 'job-submitted',
        at: 2,
        definition: definition({
          id: 'j-00000002' as JobId,
          work: { kind: 'command', program: large, outputs: [] },
          division: { mode: 'counted', count: 500, ranged: false },
        }),
        distribution: { mode: 'auto' },
      },
    );
    runtime.beat();
    for (const text of sent) expect(text.length).toBeLessThan(LIMITS.frameBytes);
    const gos = tasksSent().flatMap(({ go }) => go);
    expect(gos).toHaveLength(1_024);
    expect(gos.every(({ ranks }) => ranks.length === 1_024)).toBe(true);
  }, 60_000);

  test('nothing is sent while it is not on disk, all of it once it is', async () => {
    submit();
    diskFull = true;
    runtime.dispatch(connected('a', { compute }));
    expect(sent).toEqual([]);
    diskFull = false;
    runtime.beat();
    expect(tasksSent().flatMap(({ start }) => start)).toHaveLength(4);

    sent = [];
    diskFull = true;
    frames.reported(a, [done(0)]);
    await turnOfLoop();
    expect(sent).toEqual([]);
    expect(store.jobs.result(jobId, 0)).toBeNull();
    diskFull = false;
    runtime.beat();
    expect(tasksSent().flatMap(({ settled }) => settled)).toEqual([`${jobId}.0.1`]);
    expect(store.jobs.result(jobId, 0)).toEqual({ value: 0, artifacts: [] });
  });

  test('what comes in one turn of the loop is one transaction, and repeated ends are settled again', async () => {
    submit();
    runtime.dispatch(connected('a', { compute }));
    sent = [];
    let turns = 0;
    runtime.onTurn(() => (turns += 1));
    for (const index of [0, 1, 2]) frames.reported(a, [done(index)]);
    await turnOfLoop();
    expect(turns).toBe(1);
    frames.reported(a, [done(0)]);
    await turnOfLoop();
    expect(tasksSent().map(({ settled }) => settled.length)).toEqual([3, 1]);
  });

  test('hello: what is not wanted is cancelled or settled, what is not named is given out again', () => {
    submit();
    runtime.dispatch(connected('a', { compute }));
    sent = [];
    frames.closed(a);
    runtime.dispatch({ type: 'session-closed', at: 2, nodeId: a, sessionId: 1, goodbye: false });
    const stranger = (index: number) => `j-0000000f.${index}.1` as never;
    const observed = [
      { taskId: `${jobId}.0.1` as never, epoch: 1, phase: 'running' as const },
      { taskId: `${jobId}.1.1` as never, epoch: 7, phase: 'running' as const },
      { taskId: stranger(0), epoch: 1, phase: 'running' as const },
      { taskId: stranger(1), epoch: 1, phase: 'ended' as const },
    ];
    runtime.dispatch(connected('a', { compute, session: 2 }), ...frames.reconcile(a, observed));
    frames.opened(a, observed);
    const all = tasksSent();
    expect(all.flatMap(({ start }) => start.map(({ taskId }) => taskId))).toEqual([
      `${jobId}.1.2`,
      `${jobId}.2.2`,
      `${jobId}.3.2`,
    ]);
    const cancelled = all.flatMap(({ cancel }) => cancel);
    expect(cancelled).toContain(stranger(0));
    expect(cancelled).toContain(`${jobId}.1.1`);
    expect(cancelled).not.toContain(`${jobId}.0.1`);
    expect(all.flatMap(({ settled }) => settled)).toEqual([stranger(1)]);
  });

  test('a machine that lends more gets more', () => {
    submit();
    runtime.dispatch(connected('a', { compute: { ...compute, cpus: 1 } }));
    sent = [];
    runtime.dispatch({ type: 'compute-observed', at: 3, nodeId: a, compute: { ...compute, cpus: 1 } });
    expect(sent).toEqual([]);
    runtime.dispatch({ type: 'compute-observed', at: 3, nodeId: a, compute: { ...compute, cpus: 2 } });
    expect(tasksSent().flatMap(({ start }) => start)).toHaveLength(1);
  });
});
