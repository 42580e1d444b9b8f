import { beforeEach, describe, expect, test } from 'vitest';
import { jobSpecSchema } from '#shared/domain/job-spec.ts';
import { jobSummarySchema, jobViewSchema, partitionViewSchema, taskViewSchema } from '#shared/domain/job.ts';
import type { ComputeFacts, TaskReport } from '#shared/domain/task.ts';
import { taskId, type JobId } from '#shared/lib/ids.ts';
import { useBench } from '../service/fixtures.ts';
import { connected, joined, nodeId } from '../state/fixtures.ts';
import {
  assigned,
  doneReport,
  scriptedArtifacts,
  scriptedResults,
  stakeOf,
  usage,
  type ScriptedArtifacts,
  type ScriptedResults,
} from './fixtures.ts';
import { jobFromRow } from '../state/sqlite/job-rows.ts';
import { createJobService, type JobService } from './job-service.ts';

const bench = useBench();
const [a, b] = [nodeId('a'), nodeId('b')];
const nobody = new AbortController().signal;
let artifacts: ScriptedArtifacts;
let results: ScriptedResults;
let service: JobService;

beforeEach(() => {
  bench.runtime.dispatch(
    joined('a', 'alpha'),
    joined('b', 'beta'),
    // Without a word of what they can compute the scheduler leaves them alone: tests say who gets what.
    connected('a'),
    connected('b'),
  );
  artifacts = scriptedArtifacts({
    numbers: stakeOf('1', 8_000),
    rows: stakeOf('2', 500),
    folder: stakeOf('3', 10, 'tree'),
    odd: stakeOf('4', 9),
  });
  results = scriptedResults();
  service = createJobService({
    runtime: bench.runtime,
    clock: bench.clock,
    sessions: bench.sessions,
    artifacts,
    store: results,
    models: () => ['tiny'],
  });
});

const kernel = { kind: 'kernel', kernel: 'sum', type: 'f64', input: 'numbers', partitions: 4 };
const command = { kind: 'command', command: ['./tool'], partitions: 3 };
const submit = (spec: object, key: string | null = null) => service.submit(jobSpecSchema.parse(spec), key);

describe('submit', () => {
  test('records a job with everything resolved and keeps its artifacts', () => {
    const view = jobViewSchema.parse(
      submit({ ...kernel, name: 'big sum', requires: { nodes: ['alpha'] }, distribution: undefined }),
    );
    expect(view).toMatchObject({
      name: 'big sum',
      kind: 'kernel',
      status: 'queued',
      units: { unit: 'elements', total: 1_000, done: 0 },
      distribution: 'auto',
      result: null,
    });
    const { definition } = bench.runtime.state.jobs.get(view.id)!;
    expect(definition.work).toMatchObject({ kind: 'kernel', input: stakeOf('1', 8_000), second: null });
    expect(definition.place).toMatchObject({ nodes: [a], kernel: 'sum', commands: false });
    expect(definition.demand.wholeNode).toBe(true);
    expect([...(artifacts.references.get(view.id) ?? [])]).toEqual([stakeOf('1', 0).id]);
  });

  test('a name of several, and one that there is not, lead to ids, the newest first', () => {
    const ids = ['one', 'sum', 'sum'].map((name) => submit({ ...kernel, name }).id);
    const refusal = (ref: string) => {
      try {
        return service.job(ref);
      } catch (error) {
        return error;
      }
    };
    expect(refusal('sum')).toMatchObject({
      message: '2 jobs are called "sum": give an id.',
      details: {
        reasons: [ids[2], ids[1]].map((id) => ({
          message: expect.stringMatching(new RegExp(`^${id} is queued, submitted \\d{4}-.* UTC$`)) as string,
        })),
      },
    });
    expect(refusal('sums')).toMatchObject({
      message: `There is no job "sums". The newest are: ${ids[2]} (sum), ${ids[1]} (sum), ${ids[0]} (one).`,
    });
  });

  test('hides secrets from people and gives them to the work', () => {
    const { id } = submit({ ...command, secrets: { KEY: 's3cret' } });
    expect(service.spec(id)).toMatchObject({ secrets: { KEY: '(not shown)' } });
    expect(bench.runtime.state.jobs.get(id)?.definition.work).toMatchObject({
      program: { secrets: { KEY: 's3cret' } },
    });
  });

  test('reads a dataset first when its records have to be counted', () => {
    const spec = { kind: 'map', command: ['cat'], dataset: { artifact: 'rows', format: 'jsonl' } };
    const view = submit(spec);
    expect(view.status).toBe('preparing');
    expect(view.units.total).toBeNull();
    expect(bench.runtime.state.jobs.get(view.id)?.definition.index?.dataset.artifact.bytes).toBe(500);
  });

  test('names it after what it does', () => {
    expect(submit(kernel).name).toBe('sum numbers');
    expect(submit(command).name).toBe('tool');
    expect(submit({ kind: 'command', script: 'exit 0' }).name).toBe('command');
  });

  test.each([
    [{ ...kernel, kernel: 'xor' }, 'job_invalid', 'type'],
    [{ ...kernel, input: 'numbres' }, 'artifact_not_found', 'input'],
    [{ ...kernel, input: 'folder' }, 'dataset_invalid', 'input'],
    [{ ...kernel, input: 'odd' }, 'dataset_invalid', 'input'],
    [{ ...kernel, requires: { nodes: ['alpha', 'gamma'] } }, 'node_not_found', 'requires.nodes.1'],
    [
      { ...kernel, distribution: { mode: 'manual', shares: [{ node: 'gamma', percent: 1 }] } },
      'node_not_found',
      'distribution.shares.0.node',
    ],
    [{ ...kernel, requires: { nodes: ['alpha', a] } }, 'job_invalid', 'requires.nodes'],
    [
      {
        ...kernel,
        requires: { nodes: ['alpha'] },
        distribution: { mode: 'manual', shares: [{ node: 'beta', percent: 1 }] },
      },
      'job_invalid',
      'distribution.shares.0.node',
    ],
    [{ ...command, inputs: [{ artifact: 'none', path: 'x' }] }, 'artifact_not_found', 'inputs.0.artifact'],
    [
      { kind: 'inference', model: 'huge', task: 'chat', dataset: { artifact: 'rows', format: 'jsonl' } },
      'model_not_found',
      'model',
    ],
    [{ kind: 'command', script: 'x'.repeat(600_000) }, 'job_too_large', undefined],
  ])('%j: %s', (spec, code, field) => {
    expect(() => submit(spec)).toThrowError(
      expect.objectContaining({
        code,
        ...(field === undefined ? {} : { details: expect.objectContaining({ field }) as object }),
      }),
    );
    expect(bench.runtime.state.jobs.size).toBe(0);
    expect(artifacts.references.size).toBe(0);
  });

  test('asked for twice with one key is one job, also after a restart', () => {
    const secret = { ...command, secrets: { KEY: 's3cret' } };
    const { id } = submit(secret, 'key-00001');
    expect(submit(secret, 'key-00001').id).toBe(id);
    expect(submit(secret, 'key-00002').id).not.toBe(id);
    expect(submit(secret).id).not.toBe(id);
    expect(bench.runtime.state.jobs.size).toBe(3);
    expect(() => submit(kernel, 'key-00001')).toThrowError(
      expect.objectContaining({ code: 'job_invalid', details: { field: 'Idempotency-Key' } }),
    );
    const definition = JSON.stringify(bench.runtime.state.jobs.get(id)?.definition);
    const course = JSON.stringify(bench.runtime.state.jobs.get(id)?.course);
    const kept = jobFromRow({ no: 1, id, definition, course }).definition;
    expect(kept.submissionKey).toBe('key-00001');
    expect(JSON.stringify(kept.spec)).toBe(JSON.stringify(service.spec(id)));
  });
});

describe('a job that runs', () => {
  let id: JobId;
  beforeEach(() => {
    id = submit(command).id;
    bench.now = 2_000;
    bench.runtime.dispatch(
      { type: 'tasks-assigned', at: 2_000, assignments: [assigned(id, 0, a), assigned(id, 1, b)] },
      {
        type: 'tasks-reported',
        at: 2_000,
        nodeId: a,
        reports: [
          { type: 'started', taskId: taskId(id, 0, 1), epoch: 1 },
          { type: 'progress', taskId: taskId(id, 0, 1), epoch: 1, fraction: 0.5 },
        ],
      },
      {
        type: 'tasks-reported',
        at: 2_000,
        nodeId: b,
        reports: [{ type: 'started', taskId: taskId(id, 1, 1), epoch: 1 }],
      },
      {
        type: 'tasks-reported',
        at: 4_000,
        nodeId: b,
        reports: [doneReport(id, 1, { value: null, artifacts: [] })],
      },
    );
    bench.now = 4_000;
  });

  test('shows progress, speed, shares and partitions', () => {
    const view = jobViewSchema.parse(service.job(id));
    expect(view).toMatchObject({
      status: 'running',
      units: { total: 3, done: 1.5 },
      partitions: { total: 3, waiting: 1, running: 1, done: 1, failed: 0 },
      unitsPerS: 0.75,
      remainingMs: 2_000,
      notes: [],
    });
    expect(view.shares).toMatchObject([
      { nodeName: 'alpha', running: 1, doneUnits: 0, whyNot: 'runs a version that knows no jobs' },
      { nodeName: 'beta', running: 0, doneUnits: 1, whyNot: 'runs a version that knows no jobs' },
    ]);
    const { partitions, total } = service.partitions(id, { from: 0, limit: 10 });
    expect(total).toBe(3);
    expect(partitions.map((one) => partitionViewSchema.parse(one))).toMatchObject([
      { index: 0, status: 'running', progress: 0.5, nodeName: 'alpha', startedAt: 2_000 },
      { index: 1, status: 'done', progress: 1, nodeName: 'beta', finishedAt: 4_000 },
      { index: 2, status: 'waiting', progress: 0, nodeName: null, attempts: 0 },
    ]);
    expect(service.partitions(id, { from: 1, limit: 1, status: 'waiting' }).partitions).toMatchObject([
      { index: 2 },
    ]);
  });

  test('that was over before it was said to begin tells by its length when that was', () => {
    bench.runtime.dispatch(
      { type: 'tasks-assigned', at: 5_000, assignments: [assigned(id, 2, a)] },
      {
        type: 'tasks-reported',
        at: 8_000,
        nodeId: a,
        reports: [doneReport(id, 2, { value: null, artifacts: [] })],
      },
    );
    const startedAt = 8_000 - usage.wallMs;
    expect(service.partitions(id, { from: 2, limit: 1 }).partitions).toMatchObject([{ startedAt }]);
    expect(service.tasks({ limit: 1, job: id, index: 2 })).toMatchObject([{ startedAt, endedAt: 8_000 }]);
  });

  test('lists its tasks, newest first, by machine and partition', () => {
    const tasks = service.tasks({ limit: 10 }).map((task) => taskViewSchema.parse(task));
    expect(tasks.map((task) => [task.index, task.nodeName, task.outcome])).toEqual([
      [1, 'beta', 'done'],
      [0, 'alpha', 'running'],
    ]);
    expect(service.tasks({ limit: 10, node: 'alpha' })).toHaveLength(1);
    expect(service.tasks({ limit: 10, job: id, index: 1 })).toHaveLength(1);
    expect(service.tasks({ limit: 1 })).toHaveLength(1);
    const runs = (node?: string) =>
      service.tasks({ limit: 9, outcome: 'running', ...(node === undefined ? {} : { node }) });
    expect(runs()).toMatchObject([{ index: 0, nodeName: 'alpha', jobName: service.job(id).name }]);
    expect([runs('alpha').length, runs('beta').length]).toEqual([1, 0]);
  });

  test('counts what attempts took', () => {
    expect(service.stats(id)).toEqual({
      jobId: id,
      wallMs: 2_000,
      cpuMs: usage.cpuMs,
      tasks: { running: 1, done: 1 },
      partitionMs: { p50: 2_000, p90: 2_000, p99: 2_000, max: 2_000 },
      stagedBytes: 0,
      peakBytes: usage.peakBytes,
    });
  });

  test('has logs: of the machine while it runs, of the database afterwards', async () => {
    bench.answer = () => ({ output: 'so far', truncated: true });
    expect(await service.log(id, { index: 0 }, nobody)).toEqual({
      taskId: taskId(id, 0, 1),
      output: 'so far',
      truncated: true,
      running: true,
    });
    expect(bench.asked).toEqual([{ nodeId: a, method: 'task.log', params: { taskId: taskId(id, 0, 1) } }]);
    results.outputs.set(taskId(id, 1, 1), 'the end');
    expect(await service.log(id, { index: 1 }, nobody)).toMatchObject({ output: 'the end', running: false });
    await expect(service.log(id, { index: 2 }, nobody)).rejects.toThrow('has not been begun');
    const count = service.job(id).partitions.total;
    await expect(service.log(id, { index: count }, nobody)).rejects.toThrow(
      `There is no partition ${count} of ${id}, which has ${count}.`,
    );
    await expect(service.log(id, { index: 1, attempt: 2 }, nobody)).rejects.toThrow('no attempt 2');
  });

  test('is found by its name, and cancelled once', () => {
    expect(service.job('tool').id).toBe(id);
    expect(['cancelling', 'cancelled']).toContain(service.cancel(id).status);
    expect(() => service.retry(id)).toThrow('still tries');
    expect(() => service.remove(id)).toThrow('cancel it first');
  });

  test('gets other shares', () => {
    const shares = [
      { node: 'alpha', percent: 3 },
      { node: 'beta', percent: 1 },
    ];
    const view = service.setDistribution(id, { mode: 'manual', shares });
    expect(view.distribution).toBe('manual');
    expect(view.shares.map((share) => share.targetPercent)).toEqual([75, 25]);
    expect(service.setDistribution(id, { mode: 'auto' }).distribution).toBe('auto');
    expect(() =>
      service.setDistribution(id, { mode: 'manual', shares: [{ node: 'gamma', percent: 1 }] }),
    ).toThrowError(expect.objectContaining({ details: { field: 'shares.0.node' } }));
  });
});

/** What a machine with two processors says that lets programs run. */
const compute: ComputeFacts = {
  kernels: null,
  commands: { allowed: true, sandbox: 'bubblewrap', limits: 'rlimits', network: false },
  cpus: 2,
  memoryBytes: 2 ** 30,
  problems: [],
};

test('a job that waits behind others says so', () => {
  const huge = submit({ ...command, name: 'huge' }).id;
  const alone = (id: JobId) => service.job(id).notes.filter((note) => note.startsWith('It waits'));
  // Machines that can compute, and have as much as they take.
  const compute: ComputeFacts = {
    kernels: null,
    commands: { allowed: true, sandbox: 'bubblewrap', limits: 'rlimits', network: false },
    cpus: 1,
    memoryBytes: 2 ** 30,
    problems: [],
  };
  bench.runtime.dispatch({ type: 'compute-observed', at: 1_500, nodeId: a, compute });
  expect(service.job(huge).partitions.running).toBe(1);
  expect(alone(huge)).toEqual([]);
  const small = submit({ ...command, name: 'small', partitions: 1 }).id;
  expect(alone(small)).toEqual([`It waits its turn behind ${huge}.`]);
  const urgent = submit({ ...command, name: 'urgent', partitions: 1, priority: 1 }).id;
  expect(alone(urgent)).toEqual([`It waits for room beside ${huge}.`]);
});

test('a gang for which there are too few machines says so', () => {
  bench.runtime.dispatch({ type: 'compute-observed', at: 1_500, nodeId: a, compute });
  const gang = { kind: 'gang', name: 'gang', command: ['true'] } as const;
  const notesOf = (spec: { ranks: number; perNode?: number }): string[] => {
    const { id, notes } = submit({ ...gang, ...spec });
    service.cancel(id);
    return notes;
  };
  expect(notesOf({ ranks: 2 })).toEqual([]);
  expect(notesOf({ ranks: 3 })).toEqual([
    'It waits for more machines: those that can take it have room for 2 of its 3 ranks.',
  ]);
  expect(notesOf({ ranks: 2, perNode: 1 })).toEqual([
    'It waits for more machines: those that can take it have room for 1 of its 2 ranks.',
  ]);
});

test('a gang that could not start says why, and when it is tried again', () => {
  bench.runtime.dispatch({ type: 'compute-observed', at: 1_500, nodeId: a, compute });
  const { id } = submit({ kind: 'gang', name: 'gang', command: ['true'], ranks: 2 });
  const report = (index: number, outcome: 'lost' | 'cancelled', message: string): TaskReport => ({
    ...{ type: 'failed', taskId: taskId(id, index, 1), epoch: 1, outcome },
    error: { code: 'gang_incomplete', message },
    ...{ exitCode: null, usage: null, output: '' },
  });
  bench.runtime.dispatch({
    type: 'tasks-reported',
    at: 2_000,
    nodeId: a,
    reports: [
      report(1, 'lost', 'there are only 0 free ports'),
      report(0, 'cancelled', 'the job was cancelled'),
    ],
  });
  expect(service.job(id).notes).toEqual([
    expect.stringMatching(/^It starts again in \d+ s: rank 1 on alpha: there are only 0 free ports$/),
  ]);
});

test('unfinished jobs have a bounded number of partitions together', () => {
  for (let number = 0; number < 5; number += 1) submit({ ...command, partitions: 100_000 });
  expect(() => submit({ ...command, partitions: 1 })).toThrowError(
    expect.objectContaining({ code: 'too_many_requests', details: { field: 'partitions' } }),
  );
  const [first] = service.list({ from: 0, limit: 1 }).jobs;
  service.cancel(first!.id);
  expect(submit(command).partitions.total).toBe(3);
});

test('a job that waits says for whom', () => {
  bench.runtime.dispatch({
    type: 'drain-started',
    at: 1_500,
    nodeId: b,
    drain: { startedAt: 1_500, deadlineAt: 9_000, completedAt: null },
  });
  expect(submit(command).notes).toEqual([
    'It waits, no machine can take it now. alpha: runs a version that knows no jobs; beta: is drained.',
  ]);
});

describe('a list', () => {
  test('is newest first, in pages, by status', () => {
    const ids = [submit(command).id, submit(kernel).id, submit(command).id].reverse();
    const list = (query: Partial<Parameters<JobService['list']>[0]>) => {
      const { jobs, ...rest } = service.list({ from: 0, limit: 9, ...query });
      return { ids: jobs.map(({ id }) => id), ...rest };
    };
    expect(list({ limit: 2 })).toEqual({ ids: ids.slice(0, 2), total: 3, more: true });
    expect(list({ limit: 2, before: ids[1]! })).toEqual({ ids: ids.slice(2), total: 1, more: false });
    expect(list({ limit: 1, from: 1 })).toEqual({ ids: ids.slice(1, 2), total: 3, more: true });
    expect(list({ from: 3 })).toEqual({ ids: [], total: 3, more: false });
    expect(list({ status: ['done'] })).toEqual({ ids: [], total: 0, more: false });
    expect(list({ status: ['done', 'queued'] }).ids).toEqual(ids);
    expect(list({ kind: ['kernel'] })).toEqual({ ids: [ids[1]], total: 1, more: false });
    expect(list({ text: 'TOO' }).ids).toEqual([ids[0], ids[2]]);
    expect(list({ text: ids[2]! }).ids).toEqual([ids[2]]);
    expect(() => list({ limit: 1, before: 'j-00000000' as JobId })).toThrow('j-00000000');
  });

  test('has nothing in it that grows with machines or results', () => {
    submit(command);
    const [job] = service.list({ from: 0, limit: 1 }).jobs;
    expect(job).not.toHaveProperty('shares');
    expect(job).not.toHaveProperty('result');
    expect(jobSummarySchema.strict().parse(job)).toEqual(job);
  });
});
