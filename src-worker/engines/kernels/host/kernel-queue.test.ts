import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import { emptyPartial } from '#shared/domain/kernel-results.ts';
import type { KernelReport, KernelTask, KernelWork } from '#shared/host/kernel-host.ts';
import type { JobId, TaskId } from '#shared/lib/ids.ts';
import { createKernelQueue, type KernelRunner } from './kernel-queue.ts';

const jobId = 'j-00000001' as JobId;
const call = { kernel: 'sum', type: 'i32' } as const;
const work: KernelWork = { jobId, call, input: '/data', second: null };
const task = (index: number): KernelTask => ({
  taskId: `${jobId}.${index}.1` as TaskId,
  jobId,
  from: index,
  to: index + 1,
});
/** More than is run side by side. */
const long = (index: number): KernelTask => ({ ...task(index), to: index + 100_000 });

interface Played extends KernelRunner {
  opened: number;
  closed: number;
  ran: number[];
  run: (from: number, signal: AbortSignal, onProgress: (fraction: number) => void) => Promise<void>;
}
function played(): Played {
  const runner: Played = {
    opened: 0,
    closed: 0,
    ran: [],
    run: async () => undefined,
    open: () => {
      runner.opened += 1;
      return {
        async run(_call, from, _to, { signal, onProgress }) {
          await runner.run(from, signal, onProgress);
          runner.ran.push(from);
          return emptyPartial(call);
        },
        close: () => (runner.closed += 1),
      };
    },
  };
  return runner;
}

function bench(runner: KernelRunner) {
  const bundles: (readonly KernelReport[])[] = [];
  const queue = createKernelQueue(
    runner,
    (reports) => bundles.push(reports),
    () => performance.now(),
  );
  return {
    queue,
    bundles,
    told: () => bundles.flat().map(({ type, taskId }) => `${type} ${taskId.split('.')[1]}`),
  };
}

describe('the queue of kernels', () => {
  it('runs thousands in order and tells of them in few bundles, without saying that each began', async () => {
    const runner = played();
    const { queue, bundles, told } = bench(runner);
    const startedAt = performance.now();
    queue.add(
      2,
      [work],
      Array.from({ length: 5_000 }, (_value, index) => task(index)),
    );
    await vi.waitFor(() => expect(told()).toHaveLength(5_000), { timeout: 10_000, interval: 2 });
    expect(performance.now() - startedAt).toBeLessThan(2_000);
    expect(told()[4_999]).toBe('done 4999');
    expect(bundles.length).toBeLessThan(500);
    expect(runner.opened).toBe(1);
  });

  it('says that a long one began, how far it is, and ends it when told', async () => {
    const runner = played();
    runner.run = (_from, signal, onProgress) => {
      onProgress(0.5);
      return new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason as Error)),
      );
    };
    const { queue, bundles, told } = bench(runner);
    queue.add(1, [work], [long(0), long(1), long(2)]);
    await vi.waitFor(() => expect(told()).toContain('progress 0'), { timeout: 5_000 });
    queue.cancel([task(1).taskId]);
    expect(told()).toEqual(['started 0', 'progress 0', 'failed 1']);
    runner.run = async () => undefined;
    queue.cancel([task(0).taskId]);
    await vi.waitFor(() => expect(told()).toContain('done 2'));
    expect(bundles.flat().find(({ type }) => type === 'failed')).toMatchObject({
      error: { code: 'cancelled' },
    });
    expect(told()).toContain('failed 0');
  });

  it('runs small ones side by side, long ones and those that are to be apart by themselves', async () => {
    const runner = played();
    const sides: number[] = [];
    let side = 0;
    runner.run = async () => {
      side += 1;
      await turn();
      sides.push(side);
      await turn();
      side -= 1;
    };
    const { queue, bundles, told } = bench(runner);
    const apart = (index: number): KernelTask => ({ ...task(index), apart: true });
    queue.add(1, [work], [task(0), task(1), long(2), task(3), task(4), apart(5), apart(6)]);
    await vi.waitFor(() => expect(told()).toHaveLength(7));
    expect(sides).toEqual([2, 2, 1, 2, 2, 1, 1]);
    expect(bundles.slice(-2).map((bundle) => bundle.at(-1)?.taskId)).toEqual([
      task(5).taskId,
      task(6).taskId,
    ]);
  });

  it('goes on after one that fails, and closes files of jobs that are over', async () => {
    const runner = played();
    runner.run = async (from) => {
      if (from === 0) throw new CoveyError('dataset_invalid', 'it is shorter');
      await turn();
    };
    const { queue, told } = bench(runner);
    queue.add(1, [work], [task(0), task(1)]);
    await vi.waitFor(() => expect(told()).toEqual(['failed 0', 'done 1']));
    expect(runner.closed).toBe(0);
    queue.forget([jobId]);
    expect(runner.closed).toBe(1);
    queue.add(1, [], [task(2)]);
    await vi.waitFor(() => expect(told()).toContain('failed 2'));
  });

  it('closes files of a job that was over before its last task with that task, and nothing before', async () => {
    const runner = played();
    const { promise, resolve } = Promise.withResolvers<undefined>();
    runner.run = () => promise;
    const { queue, told } = bench(runner);
    queue.add(1, [work], [long(0), long(1), long(2)]);
    queue.forget([jobId]);
    queue.cancel([task(2).taskId]);
    await delay(0);
    expect(runner.closed).toBe(0);
    resolve(undefined);
    await vi.waitFor(() => expect(told()).toEqual(['failed 2', 'done 0', 'done 1']));
    expect(runner.closed).toBe(1);

    // One that goes on after all keeps them.
    queue.add(1, [work], [task(3)]);
    queue.forget([jobId]);
    queue.add(1, [work], [task(4)]);
    await vi.waitFor(() => expect(told()).toContain('done 4'));
    expect(runner.opened).toBe(2);
    expect(runner.closed).toBe(1);
  });
});
