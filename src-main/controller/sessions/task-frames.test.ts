import { afterEach, describe, expect, test } from 'vitest';
import type { JobDefinition } from '../state/job-state.ts';
import { commandWork, definition, indexWork, jobId } from '../state/job-fixtures.ts';
import { failedReport, simulate, type Simulation } from './simulated-covey.ts';
import { expectWhole, job, mulberry, over, submit } from './simulated-jobs.ts';

let open: Simulation[] = [];
afterEach(() => {
  for (const simulation of open) simulation.close();
  open = [];
});

function covey(seed = 1, faults = { duplicates: 0, jitterMs: 0 }): Simulation {
  const simulation = simulate(mulberry(seed), faults);
  open.push(simulation);
  return simulation;
}

describe('auto shares', () => {
  test('three machines of speed 100, 50 and 25 end within 1.10 of the ideal', async () => {
    const simulation = covey();
    for (const [name, speed] of [
      ['a', 100],
      ['b', 50],
      ['c', 25],
    ] as const)
      simulation.worker(name, { speed });
    const startedAt = simulation.now;
    submit(simulation, { total: 175 * 40 });
    await simulation.until(over(simulation), 100_000);
    expect(simulation.now - startedAt).toBeLessThan(40_000 * 1.1);
    await expectWhole(simulation);
    expect(job(simulation).partitions.length).toBeLessThan(150);
  });

  test('one of them killed half-way: within 1.25', async () => {
    const simulation = covey();
    const workers = (
      [
        ['a', 100],
        ['b', 50],
        ['c', 25],
      ] as const
    ).map(([name, speed]) => simulation.worker(name, { speed }));
    const startedAt = simulation.now;
    submit(simulation, { total: 175 * 40 });
    simulation.at(20_000, () => workers[1] && simulation.kill(workers[1], null));
    await simulation.until(over(simulation), 200_000);
    // 20 s by all three, the rest by two.
    const idealMs = 20_000 + (175 * 20 * 1000) / 125;
    expect(simulation.now - startedAt).toBeLessThan(idealMs * 1.25);
    await expectWhole(simulation);
  });

  test('a machine that becomes four times slower gets less, and a second copy saves the end', async () => {
    const simulation = covey();
    const a = simulation.worker('a', { speed: 100 });
    simulation.worker('b', { speed: 100 });
    submit(simulation, { total: 8_000, speculative: true });
    simulation.at(15_000, () => (a.speed = 25));
    const startedAt = simulation.now;
    await simulation.until(over(simulation), 200_000);
    // 3,000 units in 15 s, then 125 a second.
    expect(simulation.now - startedAt).toBeLessThan((15_000 + (5_000 / 125) * 1000) * 1.1);
    await expectWhole(simulation);
  });

  test('many short tasks: workers never wait for the controller', async () => {
    const simulation = covey();
    for (const name of ['a', 'b', 'c', 'd']) simulation.worker(name, { speed: 1_000, latencyMs: 20 });
    const startedAt = simulation.now;
    submit(simulation, { total: 4_000, division: { mode: 'counted', count: 4_000, ranged: true } });
    await simulation.until(over(simulation), 100_000);
    // 1 s of work each; before the speed is known a task costs a round trip.
    expect(simulation.now - startedAt).toBeLessThan(1_500);
    await expectWhole(simulation);
  });
});

describe('manual shares', () => {
  test('are kept within a partition, and what is changed moves only what has not begun', async () => {
    const simulation = covey();
    const [a, b, c] = ['a', 'b', 'c'].map((name) => simulation.worker(name, { speed: 100 }));
    if (!a || !b || !c) throw new Error('no workers');
    const shares = (percents: readonly number[]) => ({
      mode: 'manual' as const,
      shares: [a, b, c].map(({ id }, index) => ({ nodeId: id, weight: percents[index] ?? 1 })),
    });
    simulation.runtime.commit({
      type: 'job-submitted',
      at: simulation.now,
      definition: definition({ total: 10_000 }),
      distribution: shares([60, 25, 15]),
    });
    simulation.at(10_000, () =>
      simulation.runtime.commit({
        type: 'distribution-set',
        at: simulation.now,
        jobId,
        distribution: shares([20, 20, 60]),
      }),
    );
    await simulation.until(over(simulation), 200_000);
    await expectWhole(simulation);
    const done = [a, b, c].map(({ id }) => job(simulation).tally.nodes.get(id)?.doneUnits);
    expect(done).toEqual([2_000, 2_000, 6_000]);
  });

  test('the share of a machine that is gone is done by the others', async () => {
    const simulation = covey();
    const [a, b] = ['a', 'b'].map((name) => simulation.worker(name, { speed: 100 }));
    simulation.worker('c');
    if (!a || !b) throw new Error('no workers');
    simulation.runtime.commit({
      type: 'job-submitted',
      at: simulation.now,
      definition: definition({ total: 4_000 }),
      distribution: {
        mode: 'manual',
        shares: [
          { nodeId: a.id, weight: 1 },
          { nodeId: b.id, weight: 3 },
        ],
      },
    });
    simulation.at(5_000, () => simulation.kill(b, null));
    await simulation.until(over(simulation), 200_000);
    await expectWhole(simulation);
    expect([...job(simulation).tally.nodes.keys()].sort()).toEqual([a.id, b.id]);
  });
});

describe('failures', () => {
  test('a poison partition is named, the others are done', async () => {
    const simulation = covey();
    simulation.worker('a');
    simulation.worker('b');
    simulation.onEnd = (assignment) => (assignment.index === 7 ? failedReport(assignment, 'crashed') : null);
    submit(simulation, { total: 100, division: { mode: 'counted', count: 100, ranged: true } });
    await simulation.until(over(simulation), 100_000);
    const { tally, course, partitions } = job(simulation);
    expect(tally.counts).toMatchObject({ done: 99, failed: 1 });
    expect(course).toMatchObject({ phase: 'collecting', error: { code: 'partition_poisoned' } });
    expect(course.error?.message).toContain('Partition 7 failed 3 times');
    expect(partitions[7]?.tasks.map(({ outcome }) => outcome)).toEqual(['crashed', 'crashed', 'crashed']);
    expect(new Set(partitions[7]?.tasks.map(({ nodeId }) => nodeId)).size).toBe(2);
    const last = partitions[7]?.tasks[2];
    expect(last && simulation.store.jobs.output(last.id)).toBe('what it said');
    simulation.runtime.dispatch({
      type: 'result-collected',
      at: simulation.now,
      jobId,
      result: { value: 1, artifacts: [], missing: 1 },
    });
    expect(job(simulation).course.phase).toBe('failed');
    simulation.onEnd = () => null;
    simulation.runtime.commit({ type: 'job-retry-requested', at: simulation.now, jobId });
    await simulation.until(over(simulation), 100_000);
    await expectWhole(simulation);
    expect(job(simulation).partitions[7]?.attempt).toBe(4);
  });

  test('an exit code that is not worth another attempt is final, and backoff doubles for the others', async () => {
    const simulation = covey();
    simulation.worker('a', { speed: 1_000_000 });
    const starts: number[] = [];
    simulation.onEnd = (assignment) => {
      if (assignment.index === 0) return failedReport(assignment, 'failed', 2);
      starts.push(simulation.now);
      return failedReport(assignment, 'failed', 75);
    };
    submit(simulation, {
      total: 2,
      division: { mode: 'counted', count: 2, ranged: false },
      retry: { attempts: 3, backoffMs: 4_000, exitCodes: [75] },
    });
    await simulation.until(over(simulation), 100_000);
    expect(job(simulation).partitions.map(({ attempt }) => attempt)).toEqual([1, 3]);
    const [first = 0, second = 0, third = 0] = starts;
    expect(second - first).toBeGreaterThanOrEqual(4_000);
    expect(second - first).toBeLessThan(5_500);
    expect(third - second).toBeGreaterThanOrEqual(8_000);
  });

  test('cancel ends what runs, and nothing is tried again', async () => {
    const simulation = covey();
    simulation.worker('a');
    submit(simulation, { total: 100_000 });
    simulation.at(5_000, () =>
      simulation.runtime.commit({ type: 'job-cancel-requested', at: simulation.now, jobId }),
    );
    await simulation.until(over(simulation), 10_000);
    expect(job(simulation).course).toMatchObject({ phase: 'cancelled', finishedAt: expect.any(Number) });
    await simulation.until(() => simulation.tasksAtWorkers() === 0, 10_000);
    simulation.runtime.commit({ type: 'job-removed', at: simulation.now, jobId, cause: 'person' });
    expect(simulation.store.load(simulation.now).jobs.size).toBe(0);
  });

  test('exclusive: not elsewhere before the lease of the lost machine is over', async () => {
    const simulation = covey();
    const a = simulation.worker('a', { speed: 0.001 });
    submit(simulation, { total: 1, exclusive: true, division: { mode: 'counted', count: 1, ranged: false } });
    await simulation.until(() => job(simulation).tally.counts.active === 1, 1_000);
    simulation.worker('b');
    const lostAt = simulation.now;
    simulation.kill(a, null);
    await simulation.until(over(simulation), 200_000);
    expect(simulation.now - lostAt).toBeGreaterThan(119_000);
    expect(simulation.now - lostAt).toBeLessThan(125_000);
  });

  test('what a lost session had is given away after 5 s', async () => {
    const simulation = covey();
    const a = simulation.worker('a', { speed: 0.001 });
    submit(simulation, { total: 1, division: { mode: 'counted', count: 1, ranged: false } });
    await simulation.until(() => job(simulation).tally.counts.active === 1, 1_000);
    const b = simulation.worker('b');
    const lostAt = simulation.now;
    simulation.disconnect(a, 1_000_000);
    await simulation.until(() => (job(simulation).tally.nodes.get(b.id)?.active ?? 0) > 0, 20_000);
    expect(simulation.now - lostAt).toBeGreaterThanOrEqual(5_000);
    expect(simulation.now - lostAt).toBeLessThanOrEqual(6_100);
  });

  test('a straggler gets a second copy, and what is slower is ended', async () => {
    const simulation = covey();
    simulation.worker('b', { speed: 10 });
    const a = simulation.worker('a', { speed: 10 });
    submit(simulation, {
      total: 40,
      speculative: true,
      division: { mode: 'counted', count: 4, ranged: true },
    });
    simulation.at(900, () => (a.speed = 0.001));
    await simulation.until(over(simulation), 30_000);
    const [slow] = job(simulation).partitions.filter(({ tasks }) => tasks.length > 1);
    expect(slow?.tasks.map(({ outcome, speculative }) => [outcome, speculative])).toEqual([
      ['superseded', false],
      ['done', true],
    ]);
    expect(simulation.tasksAtWorkers()).toBeGreaterThan(0);
    await simulation.until(() => simulation.tasksAtWorkers() === 0, 1_000);
    await expectWhole(simulation);
  });

  test('a machine that refuses a job is not asked again, others are', async () => {
    const simulation = covey();
    const a = simulation.worker('a');
    const b = simulation.worker('b', { latencyMs: 50 });
    simulation.onEnd = (assignment, { id }) => (id === a.id ? failedReport(assignment, 'refused') : null);
    submit(simulation, { total: 1_000 });
    await simulation.until(over(simulation), 100_000);
    const attempts = job(simulation).partitions.flatMap(({ tasks }) => tasks);
    expect(attempts.filter(({ nodeId }) => nodeId === a.id)).toHaveLength(1);
    expect(job(simulation).tally.nodes.get(b.id)?.doneUnits).toBe(1_000);
  });

  test('a session that comes back in time goes on with what it had', async () => {
    const simulation = covey();
    const a = simulation.worker('a', { speed: 0.1 });
    submit(simulation, { total: 1, division: { mode: 'counted', count: 1, ranged: false } });
    simulation.at(2_000, () => simulation.disconnect(a, 3_000));
    simulation.at(12_000 - 5_500, () => simulation.restartController(2_000));
    await simulation.until(over(simulation), 20_000);
    expect(job(simulation).partitions[0]?.attempt).toBe(1);
    await expectWhole(simulation);
  });

  test('a draining machine ends what it runs, gives back what it has not begun, and is empty then', async () => {
    const simulation = covey();
    const a = simulation.worker('a', { speed: 20 });
    simulation.worker('b', { speed: 20 });
    submit(simulation, { total: 1_000, division: { mode: 'counted', count: 1_000, ranged: true } });
    simulation.at(5_000, () =>
      simulation.runtime.commit({
        type: 'drain-started',
        at: simulation.now,
        nodeId: a.id,
        drain: { startedAt: simulation.now, deadlineAt: simulation.now + 600_000, completedAt: null },
      }),
    );
    await simulation.until(
      () => simulation.runtime.state.nodes.get(a.id)?.durable.drain?.completedAt != null,
      12_000,
    );
    await simulation.until(over(simulation), 100_000);
    await expectWhole(simulation);
  });
});

describe('datasets', () => {
  test('are read first, then divided; places come with their partitions', async () => {
    const simulation = covey();
    simulation.worker('a', { speed: 50 });
    const seeks = [
      { record: 0, byte: 0 },
      { record: 500, byte: 9_000 },
    ];
    simulation.onEnd = ({ taskId, epoch, seek, range, index }) => {
      const usage = { wallMs: 1, cpuMs: null, peakBytes: null, stagingMs: 0 };
      const result = { value: { records: 1_000, seeks }, artifacts: [] };
      if (index === 9_999_999) return { type: 'done', taskId, epoch, result, usage, output: '' };
      expect(seek?.byte).toBe((range?.from ?? 0) >= 500 ? 9_000 : 0);
      return null;
    };
    submit(simulation, { index: indexWork, total: null, unit: 'records', work: commandWork });
    expect(job(simulation).course.phase).toBe('preparing');
    await simulation.until(over(simulation), 100_000);
    await expectWhole(simulation);
    expect(job(simulation).course.total).toBe(1_000);
    expect(job(simulation).preparation?.phase).toBe('done');
  });

  test('one that cannot be read fails the job; an empty input is one empty partition', async () => {
    const simulation = covey();
    simulation.worker('a');
    simulation.onEnd = (assignment) => failedReport(assignment, 'failed', 1);
    submit(simulation, { index: indexWork, total: null });
    await simulation.until(over(simulation), 100_000);
    expect(job(simulation).course).toMatchObject({ phase: 'failed', error: { code: 'partition_poisoned' } });

    const other = covey();
    other.worker('a');
    submit(other, { total: 0 });
    await other.until(over(other), 10_000);
    expect(job(other).partitions.map(({ range, phase }) => ({ range, phase }))).toEqual([
      { range: { from: 0, to: 0 }, phase: 'done' },
    ]);
  });
});

describe('gangs', () => {
  const gang = (ranks: number, restarts = 0): Partial<JobDefinition> => ({
    kind: 'gang',
    total: ranks,
    unit: 'ranks',
    work: commandWork,
    division: { mode: 'counted', count: ranks, ranged: false },
    gang: { perNode: null, restarts },
  });

  test('start together when all have room, not before', async () => {
    const simulation = covey();
    simulation.worker('a', { cpus: 2 });
    const startedAt = simulation.now;
    submit(simulation, gang(4));
    await simulation.until(() => simulation.now > startedAt + 5_000, 10_000);
    expect(job(simulation).tally.counts).toMatchObject({ waiting: 4, active: 0 });
    simulation.worker('b', { cpus: 3 });
    await simulation.until(over(simulation), 10_000);
    const { partitions, course } = job(simulation);
    expect(course).toMatchObject({ phase: 'collecting', gang: { start: 1, goAt: expect.any(Number) } });
    expect(partitions.map(({ tasks }) => tasks[0]?.nodeId[0])).toEqual(['a', 'a', 'b', 'b']);
  });

  test('exclusive: not again before the lease of a rank that was lost is over', async () => {
    const simulation = covey();
    const workers = ['a', 'b', 'c'].map((name) => simulation.worker(name, { speed: 0.01 }));
    submit(simulation, { ...gang(2, 1), exclusive: true });
    await simulation.until(() => job(simulation).course.gang?.goAt != null, 5_000);
    const lost = workers.find(({ id }) => id === job(simulation).partitions[0]?.tasks[0]?.nodeId);
    if (!lost) throw new Error('nobody has rank 0');
    const lostAt = simulation.now;
    simulation.disconnect(lost, 1_000_000);
    await simulation.until(() => job(simulation).course.gang?.start === 2, 200_000);
    expect(simulation.now - lostAt).toBeGreaterThan(119_000);
    expect(simulation.now - lostAt).toBeLessThan(130_000);
  });

  test('one rank that fails ends all; all start again as often as allowed', async () => {
    const simulation = covey();
    simulation.worker('a', { cpus: 4, speed: 0.2 });
    let failures = 0;
    simulation.onEnd = (assignment) => {
      if (assignment.index !== 2 || failures === 2) return null;
      failures += 1;
      return failedReport(assignment, 'failed', 1);
    };
    submit(simulation, gang(3, 2));
    await simulation.until(over(simulation), 100_000);
    expect(job(simulation).course).toMatchObject({ phase: 'collecting', gang: { start: 3 } });
    expect(job(simulation).partitions.every(({ attempt, phase }) => attempt === 3 && phase === 'done')).toBe(
      true,
    );

    const strict = covey();
    strict.worker('a', { cpus: 4, speed: 0.2 });
    strict.onEnd = (assignment) => (assignment.index === 2 ? failedReport(assignment, 'failed', 1) : null);
    submit(strict, gang(3));
    await strict.until(over(strict), 100_000);
    expect(job(strict).course).toMatchObject({
      phase: 'failed',
      error: { message: 'rank 2 on a: It failed.' },
    });
    expect(job(strict).partitions[2]).toMatchObject({ phase: 'failed', error: { message: 'It failed.' } });
    await strict.until(() => strict.tasksAtWorkers() === 0, 10_000);
  });
});
