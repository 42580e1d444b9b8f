import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { jobSpecSchema } from '#shared/domain/job-spec.ts';
import type { TaskResult } from '#shared/domain/task.ts';
import { taskId, type JobId } from '#shared/lib/ids.ts';
import { CoveyError } from '#shared/errors.ts';
import { silentLogger } from '../../nodejs/transport/fixtures.ts';
import { useBench } from '../service/fixtures.ts';
import { connected, joined, nodeId } from '../state/fixtures.ts';
import { createCollector, type Collector } from './collector.ts';
import { jobView } from './job-views.ts';
import {
  assigned,
  doneReport,
  scriptedArtifacts,
  scriptedResults,
  stakeOf,
  type ScriptedArtifacts,
  type ScriptedResults,
} from './fixtures.ts';
import { submitJob } from './submit.ts';

const bench = useBench();
const a = nodeId('a');
let artifacts: ScriptedArtifacts;
let results: ScriptedResults;
let collector: Collector;

beforeEach(() => {
  bench.runtime.dispatch(joined('a', 'alpha'), connected('a'));
  artifacts = scriptedArtifacts({ rows: stakeOf('2', 40) });
  results = scriptedResults();
  collector = createCollector({ ...bench, artifacts, store: results, logger: silentLogger });
  collector.start();
});
afterEach(() => collector.close());

const submit = (spec: object): JobId =>
  submitJob({ ...bench, artifacts, models: () => [] }, jobSpecSchema.parse(spec));
const made = (digit: string, name: string): TaskResult => ({
  value: null,
  artifacts: [{ ...stakeOf(digit, 5), name }],
});
/** One task runs and is done with this result. */
function finish(id: JobId, index: number, result: TaskResult, range?: { from: number; to: number }): void {
  results.put(id, index, result);
  bench.runtime.dispatch(
    { type: 'tasks-assigned', at: 2_000, assignments: [assigned(id, index, a, range ?? null)] },
    { type: 'tasks-reported', at: 3_000, nodeId: a, reports: [doneReport(id, index, result)] },
  );
}
const phaseOf = (id: JobId) => bench.runtime.state.jobs.get(id)?.course.phase;
const resultOf = (id: JobId) => bench.runtime.state.jobs.get(id)?.course.result;

test('fetches what was made, keeps it, and collects', async () => {
  const id = submit({ kind: 'command', command: ['x'], partitions: 2 });
  finish(id, 0, made('4', 'out'));
  finish(id, 1, made('5', 'out'));
  await vi.waitFor(() => expect(phaseOf(id)).toBe('done'));
  expect(resultOf(id)).toMatchObject({ artifacts: [{ name: '0/out' }, { name: '1/out' }], missing: 0 });
  expect(artifacts.references.get(id)).toEqual(new Set([stakeOf('4', 0).id, stakeOf('5', 0).id]));
});

test('a result that cannot be had any more is a lost attempt', async () => {
  artifacts.onFetch = () => Promise.reject(new CoveyError('artifact_unreachable', 'alpha is gone.'));
  const id = submit({ kind: 'command', command: ['x'] });
  finish(id, 0, made('4', 'out'));
  await vi.waitFor(() => expect(bench.runtime.state.jobs.get(id)?.partitions[0]?.losses).toBe(1));
  expect(bench.runtime.state.jobs.get(id)?.partitions[0]).toMatchObject({
    phase: 'waiting',
    error: { code: 'artifact_unreachable' },
  });
});

test('a store without room fails the job, and no attempt: tried again it goes on where it was', async () => {
  const full = new CoveyError('artifact_quota', 'The store is full.');
  artifacts.onFetch = () => Promise.reject(full);
  const id = submit({ kind: 'command', command: ['x'], partitions: 2 });
  finish(id, 0, made('4', 'out'));
  await vi.waitFor(() => expect(phaseOf(id)).toBe('failed'));
  const job = () => jobView(bench.runtime.state, bench.runtime.state.jobs.get(id)!, 9_000);
  expect(job()).toMatchObject({ error: { code: 'artifact_quota' }, partitions: { running: 0, failed: 0 } });
  artifacts.onFetch = () => Promise.resolve();
  bench.runtime.dispatch({ type: 'job-retry-requested', at: 5_000, jobId: id });
  finish(id, 1, made('5', 'out'));
  await vi.waitFor(() => expect(phaseOf(id)).toBe('done'));
  expect(bench.runtime.state.jobs.get(id)?.partitions.map(({ attempt }) => attempt)).toEqual([1, 1]);
});

test('outputs are put together in the order of the input, not of their indexes', async () => {
  const order: string[][] = [];
  artifacts.concatenate = (ids) => {
    order.push([...ids]);
    return Promise.resolve(stakeOf('f', 10));
  };
  const dataset = { artifact: 'rows', format: 'binary', recordBytes: 10 };
  const id = submit({ kind: 'map', command: ['cat'], dataset });
  finish(id, 0, made('4', 'output'), { from: 2, to: 4 });
  finish(id, 1, made('5', 'output'), { from: 0, to: 2 });
  await vi.waitFor(() => expect(phaseOf(id)).toBe('done'));
  expect(order).toEqual([[stakeOf('5', 0).id, stakeOf('4', 0).id]]);
  expect(resultOf(id)?.artifacts).toEqual([{ ...stakeOf('f', 10), name: 'cat.out' }]);
});

test('begins again what a restart has left', async () => {
  collector.close();
  const id = submit({ kind: 'command', command: ['x'] });
  finish(id, 0, made('4', 'out'));
  expect(artifacts.fetched).toEqual([]);
  collector = createCollector({ ...bench, artifacts, store: results, logger: silentLogger });
  collector.start();
  await vi.waitFor(() => expect(phaseOf(id)).toBe('done'));
});

test('lets go of the artifacts of a job that is removed', async () => {
  const id = submit({ kind: 'command', command: ['x'] });
  finish(id, 0, made('4', 'out'));
  await vi.waitFor(() => expect(phaseOf(id)).toBe('done'));
  bench.runtime.dispatch({ type: 'job-removed', at: 5_000, jobId: id, cause: 'person' });
  expect(artifacts.references.has(id)).toBe(false);
});

test('what comes home for a job that was removed meanwhile is not kept', async () => {
  let arrive = (): void => undefined;
  artifacts.onFetch = () => new Promise((resolve) => (arrive = resolve));
  const id = submit({ kind: 'command', command: ['x'] });
  finish(id, 0, made('4', 'out'));
  bench.runtime.dispatch({ type: 'job-cancel-requested', at: 4_000, jobId: id });
  expect(phaseOf(id)).toBe('cancelled');
  bench.runtime.dispatch({ type: 'job-removed', at: 5_000, jobId: id, cause: 'person' });
  arrive();
  await vi.waitFor(() => expect(artifacts.fetched).toEqual(['out']));
  await Promise.resolve();
  expect(artifacts.references.size).toBe(0);
});

test('nothing more is fetched for a job that was told to end', async () => {
  const arrivals: (() => void)[] = [];
  artifacts.onFetch = () => new Promise((resolve) => void arrivals.push(resolve));
  const id = submit({ kind: 'command', command: ['x'], partitions: 12 });
  for (let index = 0; index < 12; index += 1) finish(id, index, made('4', `out-${index}`));
  expect(arrivals).toHaveLength(8);
  bench.runtime.dispatch({ type: 'job-cancel-requested', at: 4_000, jobId: id });
  for (const arrive of arrivals) arrive();
  await vi.waitFor(() => expect(artifacts.fetched).toHaveLength(8));
  collector.close();
  collector = createCollector({ ...bench, artifacts, store: results, logger: silentLogger });
  collector.start();
  await new Promise((resolve) => setImmediate(resolve));
  expect(arrivals).toHaveLength(8);
});

test('a result that does not combine is the failure of the job', async () => {
  artifacts.stakes.set('numbers', stakeOf('1', 800));
  const id = submit({ kind: 'kernel', kernel: 'sum', type: 'f64', input: 'numbers', partitions: 1 });
  finish(id, 0, { value: 'rubbish', artifacts: [] });
  await vi.waitFor(() => expect(phaseOf(id)).toBe('failed'));
  expect(bench.runtime.state.jobs.get(id)?.course.error?.message).toContain('Partition 0: ');
});

test('what is tried again while its results are put together is collected anew, with all that there is', async () => {
  const asked: { readonly ids: string[]; readonly answer: () => void }[] = [];
  artifacts.concatenate = (ids) =>
    new Promise((resolve) => {
      asked.push({ ids: [...ids], answer: () => resolve(stakeOf('f', ids.length)) });
    });
  const dataset = { artifact: 'rows', format: 'binary', recordBytes: 10 };
  const id = submit({ kind: 'map', command: ['cat'], dataset, retry: { attempts: 1 } });
  finish(id, 0, made('4', 'output'), { from: 0, to: 2 });
  const range = { from: 2, to: 4 };
  const error = { code: 'task_failed', message: 'exit code 1' } as const;
  const failed = { taskId: taskId(id, 1, 1), epoch: 1, error, exitCode: 1, usage: null, output: '' };
  bench.runtime.dispatch(
    { type: 'tasks-assigned', at: 2_000, assignments: [assigned(id, 1, a, range)] },
    {
      type: 'tasks-reported',
      at: 3_000,
      nodeId: a,
      reports: [{ type: 'failed', outcome: 'failed', ...failed }],
    },
  );
  await vi.waitFor(() => expect(asked).toHaveLength(1));
  bench.runtime.dispatch({ type: 'job-cancel-requested', at: 4_000, jobId: id });
  bench.runtime.dispatch({ type: 'job-retry-requested', at: 5_000, jobId: id });
  const again = { epoch: 2, taskId: taskId(id, 1, 2) };
  results.put(id, 1, made('5', 'output'));
  bench.runtime.dispatch(
    { type: 'tasks-assigned', at: 6_000, assignments: [{ ...assigned(id, 1, a, range), ...again }] },
    {
      type: 'tasks-reported',
      at: 7_000,
      nodeId: a,
      reports: [{ ...doneReport(id, 1, made('5', 'output')), ...again }],
    },
  );
  await vi.waitFor(() => expect(phaseOf(id)).toBe('collecting'));
  asked[0]?.answer();
  await vi.waitFor(() => expect(asked).toHaveLength(2));
  expect(asked.map(({ ids }) => ids.length)).toEqual([1, 2]);
  asked[1]?.answer();
  await vi.waitFor(() => expect(phaseOf(id)).toBe('done'));
  expect(resultOf(id)).toMatchObject({ missing: 0, artifacts: [{ bytes: 2 }] });
});
