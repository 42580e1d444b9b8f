import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { setTimeout as delay } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { createRandom, inputSeed } from './random.ts';
import type { CreateTarget } from './target.ts';

/** One run of one target; see runner.ts, which starts this and watches it. */
export interface ThreadOrder {
  readonly target: string;
  readonly seed: number;
  readonly from: number;
  readonly runs: number;
  readonly atOnce: number;
  readonly context: unknown;
  /** [0]: the index of the input that is being run. */
  readonly progress: SharedArrayBuffer;
}

export interface ThreadReport {
  readonly elapsedMs: number;
  readonly growthBytes: number;
  readonly slowestMs: number;
}

/** Between inputs the loop gets its turn this often: timers fire, sockets close. */
const breatheEvery = 256;
const restMs = 200;

async function work(order: ThreadOrder): Promise<ThreadReport> {
  const progress = new Int32Array(order.progress);
  const { createTarget } = (await import(`./targets/${order.target}.ts`)) as { createTarget: CreateTarget };
  const target = await createTarget(order.context);
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const memory = async (): Promise<number> => {
    await delay(restMs);
    collect();
    await delay(1);
    collect();
    if (target.memoryBytes) return target.memoryBytes();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  let slowestMs = 0;
  let elapsedMs = 0;
  const runOne = async (index: number): Promise<void> => {
    const startedAt = performance.now();
    try {
      const running = target.run(createRandom(inputSeed(order.seed, index)));
      if (running) await running;
    } catch (error) {
      Atomics.store(progress, 0, index);
      throw error;
    }
    slowestMs = Math.max(slowestMs, performance.now() - startedAt);
  };
  /** The inputs from `first` to before `end`, `atOnce` of them at a time. */
  const runAll = async (first: number, end: number): Promise<void> => {
    const startedAt = performance.now();
    let next = first;
    const runner = async (): Promise<void> => {
      for (let index = next++; index < end; index = next++) {
        Atomics.store(progress, 0, index);
        await runOne(index);
        if (index % breatheEvery === 0) await new Promise((resolve) => setImmediate(resolve));
      }
    };
    await Promise.all(Array.from({ length: order.atOnce }, runner));
    elapsedMs += performance.now() - startedAt;
  };
  const { from, runs } = order;
  const warmUp = Math.floor(runs / 5);
  await runAll(from, from + warmUp);
  const baseline = await memory();
  await runAll(from + warmUp, from + runs);
  // From here on it comes to rest.
  Atomics.store(progress, 0, from + runs);
  const growthBytes = (await memory()) - baseline;
  await target.close?.();
  return { elapsedMs, growthBytes, slowestMs };
}

// A target that waits for nothing at all is still one that waits.
const alive = setInterval(() => undefined, 1_000);
const report = await work(workerData as ThreadOrder);
clearInterval(alive);
parentPort?.postMessage(report);
