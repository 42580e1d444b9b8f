import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { taskId } from '#shared/lib/ids.ts';
import type { TaskReport } from '#shared/domain/task.ts';
import { apply } from '../apply.ts';
import type { ControllerEvent } from '../events.ts';
import { nodeId } from '../fixtures.ts';
import { definition, indexWork, jobId } from '../job-fixtures.ts';
import type { Assignment } from '../job-events.ts';
import { emptyState, type ControllerState } from '../state.ts';
import { openDatabase, type Connection } from './database.ts';
import { createStore, type ControllerStore } from './store.ts';

let directory: string;
let connection: Connection;
let store: ControllerStore;
let state: ControllerState;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-jobs-'));
  connection = openDatabase(join(directory, 'covey.db'));
  store = createStore(connection);
  state = emptyState(0);
});
afterEach(() => {
  store.close();
  rmSync(directory, { recursive: true, force: true });
});

const a = nodeId('a');
const usage = { wallMs: 5, cpuMs: null, peakBytes: null, stagingMs: 0 };

function assignment(index: number, attempt: number, overrides: Partial<Assignment> = {}): Assignment {
  return {
    jobId,
    index,
    epoch: attempt,
    attempt,
    taskId: taskId(jobId, index, attempt),
    nodeId: a,
    range: { from: index * 10, to: index * 10 + 10 },
    owner: null,
    speculative: false,
    ...overrides,
  };
}

function done(index: number, attempt: number, value: number, epoch = attempt): TaskReport {
  const result = { value, artifacts: [] };
  return {
    type: 'done',
    taskId: taskId(jobId, index, attempt),
    epoch,
    result,
    usage,
    output: `out ${value}`,
  };
}

function record(...events: ControllerEvent[]): void {
  const before = state;
  state = events.reduce(apply, state);
  store.save(
    before,
    state,
    [],
    events.filter((event) => event.type === 'tasks-reported'),
  );
}

const submitted = (overrides = {}): ControllerEvent => ({
  type: 'job-submitted',
  at: 1,
  definition: definition({ total: 30, ...overrides }),
  distribution: { mode: 'auto' },
});
const reported = (...reports: TaskReport[]): ControllerEvent => ({
  type: 'tasks-reported',
  at: 3,
  nodeId: a,
  reports,
});

describe('jobs on disk', () => {
  test('come back as they were, with what follows from them', () => {
    record(submitted());
    record({ type: 'tasks-assigned', at: 2, assignments: [assignment(0, 1), assignment(1, 1)] });
    record(reported(done(0, 1, 7)));
    const loaded = store.load(9).jobs.get(jobId);
    expect(loaded).toEqual(state.jobs.get(jobId));
    expect(loaded?.tally).toMatchObject({
      counts: { done: 1, active: 1 },
      doneUnits: 10,
      rest: [{ from: 20, to: 30, owner: null }],
    });
  });

  test('one whose dataset is being read comes back too', () => {
    record(submitted({ index: indexWork, total: null }));
    record({ type: 'tasks-assigned', at: 2, assignments: [assignment(9_999_999, 1, { range: null })] });
    expect(store.load(9).jobs.get(jobId)).toEqual(state.jobs.get(jobId));
  });

  test('the accepted result and what was printed are kept; late and repeated ones are not', () => {
    record(submitted());
    record({ type: 'tasks-assigned', at: 2, assignments: [assignment(0, 1)] });
    expect(store.jobs.result(jobId, 0)).toBeNull();
    record(reported(done(0, 1, 99, 5), done(0, 1, 7), done(0, 1, 8)));
    record(reported(done(0, 1, 9)));
    record({ type: 'tasks-reported', at: 4, nodeId: nodeId('b'), reports: [done(0, 1, 10)] });
    expect(store.jobs.result(jobId, 0)).toEqual({ value: 7, artifacts: [] });
    expect(store.jobs.output(taskId(jobId, 0, 1))).toBe('out 7');
  });

  test('a result that could not be written at first is written with the next turn', () => {
    record(submitted());
    record({ type: 'tasks-assigned', at: 2, assignments: [assignment(0, 1)] });
    const before = state;
    const word = reported(done(0, 1, 7));
    const later: ControllerEvent = { type: 'tasks-assigned', at: 5, assignments: [assignment(1, 1)] };
    state = [word, later].reduce(apply, state);
    store.save(before, state, [], word.type === 'tasks-reported' ? [word] : []);
    expect(store.jobs.result(jobId, 0)).toEqual({ value: 7, artifacts: [] });
    expect(store.load(9).jobs.get(jobId)).toEqual(state.jobs.get(jobId));
  });

  test('one that was cancelled comes back without what never began, and all of it when it is asked for again', () => {
    record(submitted({ division: { mode: 'counted', count: 3, ranged: true } }));
    record({ type: 'tasks-assigned', at: 2, assignments: [assignment(0, 1)] });
    record(reported(done(0, 1, 7)));
    record({ type: 'job-cancel-requested', at: 4, jobId });
    expect(state.jobs.get(jobId)?.partitions).toHaveLength(1);
    expect(store.load(9).jobs.get(jobId)).toEqual(state.jobs.get(jobId));
    record({ type: 'job-retry-requested', at: 5, jobId });
    expect(state.jobs.get(jobId)?.partitions).toHaveLength(3);
    expect(store.load(9).jobs.get(jobId)).toEqual(state.jobs.get(jobId));
    expect(store.jobs.result(jobId, 0)).toEqual({ value: 7, artifacts: [] });
  });

  test('progress is not written', () => {
    record(submitted());
    record({ type: 'tasks-assigned', at: 2, assignments: [assignment(0, 1)] });
    const writes = () => connection.prepare('SELECT total_changes() AS n').get();
    const before = writes();
    record(reported({ type: 'progress', taskId: taskId(jobId, 0, 1), epoch: 1, fraction: 0.5 }));
    expect(state.jobs.get(jobId)?.partitions[0]?.tasks[0]?.progress).toBe(0.5);
    expect(writes()).toEqual(before);
  });

  test('a removed job leaves nothing', () => {
    record(submitted());
    record({ type: 'tasks-assigned', at: 2, assignments: [assignment(0, 1)] });
    record(reported(done(0, 1, 7)));
    record({ type: 'job-failed', at: 4, jobId, error: { code: 'internal_error', message: 'no' } });
    expect(state.jobs.get(jobId)?.course.phase).toBe('failed');
    record({ type: 'job-removed', at: 5, jobId, cause: 'person' });
    for (const table of ['jobs', 'partitions', 'task_outputs']) {
      expect(connection.prepare(`SELECT count(*) AS n FROM ${table}`).get()).toEqual({ n: 0 });
    }
  });
});
