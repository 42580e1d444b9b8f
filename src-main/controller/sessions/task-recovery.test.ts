import { afterEach, describe, expect, test } from 'vitest';
import { commandWork, definition, jobId } from '../state/job-fixtures.ts';
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

describe('a controller that dies', () => {
  const run = async (write: number | null, when: 'before' | 'after'): Promise<number> => {
    const simulation = covey();
    simulation.worker('a', { speed: 50, cpus: 2 });
    simulation.worker('b', { speed: 30 });
    let failed = false;
    simulation.onEnd = (assignment) => {
      if (assignment.index !== 3 || failed) return null;
      failed = true;
      return failedReport(assignment, 'crashed');
    };
    submit(simulation, {
      work: commandWork,
      total: 300,
      speculative: true,
      division: { mode: 'counted', count: 6, ranged: true },
    });
    const before = simulation.writes;
    if (write !== null) simulation.crashAtWrite(write, when);
    await simulation.until(over(simulation), 60_000);
    expect(job(simulation).course.phase).toBe('collecting');
    await expectWhole(simulation);
    return simulation.writes - before;
  };

  test('has one result of each partition, at whichever write it died, before it or after', async () => {
    const writes = await run(null, 'after');
    expect(writes).toBeGreaterThan(8);
    for (let write = 1; write <= writes; write += 1) {
      await run(write, 'before');
      await run(write, 'after');
    }
  });
});

describe('a clock that is set', () => {
  const hour = 3_600_000;

  test('forward ends nothing that has time left', async () => {
    const simulation = covey();
    simulation.worker('a', { speed: 0.05 });
    submit(simulation, {
      total: 1,
      timeoutMs: 30_000,
      retry: { attempts: 1, backoffMs: 0, exitCodes: null },
      division: { mode: 'counted', count: 1, ranged: false },
    });
    simulation.at(5_000, () => simulation.setClock(hour));
    await simulation.until(over(simulation), 60_000);
    expect(job(simulation).partitions[0]).toMatchObject({ phase: 'done', attempt: 1 });
    await expectWhole(simulation);
  });

  test('back holds up neither what was lost just before nor what waits for its next attempt', async () => {
    const simulation = covey();
    const a = simulation.worker('a', { speed: 0.1 });
    simulation.worker('b', { speed: 0.2 });
    simulation.onEnd = (assignment, { name }) =>
      name === 'b' && assignment.attempt === 1 ? failedReport(assignment, 'failed', 1) : null;
    submit(simulation, {
      total: 2,
      retry: { attempts: 3, backoffMs: 10_000, exitCodes: null },
      division: { mode: 'counted', count: 2, ranged: false },
    });
    simulation.at(8_000, () => simulation.kill(a, null));
    simulation.at(9_000, () => simulation.setClock(-hour));
    await simulation.until(over(simulation), 60_000);
    const outcomes = job(simulation).partitions.map(({ tasks }) => tasks.map(({ outcome }) => outcome));
    expect(outcomes).toEqual([
      ['lost', 'done'],
      ['failed', 'done'],
    ]);
    await expectWhole(simulation);
  });
});

describe('whatever happens', () => {
  test.each(Array.from({ length: 12 }, (_, seed) => seed + 1))(
    'every partition is accepted exactly once (seed %i)',
    { timeout: 60_000 },
    async (seed) => {
      const random = mulberry(seed * 7_919);
      const simulation = covey(seed, { duplicates: 0.2, jitterMs: 300 });
      const workers = ['a', 'b', 'c', 'd'].map((name) =>
        simulation.worker(name, { speed: 5 + random() * 100, cpus: 1 + Math.floor(random() * 4) }),
      );
      const counted = random() < 0.5;
      submit(simulation, {
        total: 20_000,
        speculative: random() < 0.5,
        work: commandWork,
        retry: { attempts: 50, backoffMs: 100, exitCodes: null },
        division: counted ? { mode: 'counted', count: 200, ranged: true } : definition().division,
      });
      simulation.onEnd = (assignment) =>
        random() < 0.05 ? failedReport(assignment, random() < 0.5 ? 'crashed' : 'failed') : null;
      let calm = false;
      const disturb = (): void => {
        if (calm) return;
        const worker = workers[Math.floor(random() * workers.length)];
        const what = random();
        if (worker && what < 0.35) simulation.kill(worker, 500 + random() * 10_000);
        else if (worker && what < 0.75) simulation.disconnect(worker, random() * 12_000);
        else if (what < 0.9) simulation.restartController(random() * 3_000);
        else if (worker) worker.speed = 5 + random() * 100;
        simulation.at(2_000, disturb);
      };
      simulation.at(2_000, disturb);
      simulation.at(60_000, () => (calm = true));
      await simulation.until(over(simulation), 400_000);
      calm = true;
      expect(job(simulation).course.phase).toBe('collecting');
      await expectWhole(simulation);
      const state = simulation.store.load(simulation.now).jobs.get(jobId);
      expect(state?.partitions.map(({ phase, attempt }) => [phase, attempt])).toEqual(
        job(simulation).partitions.map(({ phase, attempt }) => [phase, attempt]),
      );
    },
  );

  test.each(Array.from({ length: 6 }, (_, seed) => seed + 1))(
    'a gang ends with results of one start, and leaves nothing behind (seed %i)',
    { timeout: 60_000 },
    async (seed) => {
      const random = mulberry(seed * 104_729);
      const simulation = covey(seed, { duplicates: 0.2, jitterMs: 300 });
      const workers = ['a', 'b', 'c'].map((name) => simulation.worker(name, { cpus: 3, speed: 0.1 }));
      submit(simulation, {
        kind: 'gang',
        total: 4,
        unit: 'ranks',
        work: commandWork,
        division: { mode: 'counted', count: 4, ranged: false },
        gang: { perNode: null, restarts: 100 },
      });
      let calm = false;
      const disturb = (): void => {
        if (calm) return;
        const worker = workers[Math.floor(random() * workers.length)];
        const what = random();
        if (worker && what < 0.4) simulation.kill(worker, 500 + random() * 10_000);
        else if (worker && what < 0.8) simulation.disconnect(worker, random() * 12_000);
        else simulation.restartController(random() * 3_000);
        simulation.at(3_000, disturb);
      };
      simulation.at(3_000, disturb);
      simulation.at(60_000, () => (calm = true));
      await simulation.until(over(simulation), 400_000);
      calm = true;
      await simulation.until(() => simulation.tasksAtWorkers() === 0, 60_000);
      const { course, partitions, tally } = job(simulation);
      expect(course.phase).toBe('collecting');
      expect(partitions.map(({ phase }) => phase)).toEqual(['done', 'done', 'done', 'done']);
      for (const [, { active }] of tally.nodes) expect(active).toBe(0);
      const assignedAt = partitions.map(({ tasks }) => tasks.at(-1)?.assignedAt);
      expect(new Set(assignedAt).size).toBe(1);
    },
  );
});
