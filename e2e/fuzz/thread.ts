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
  const warmUp = Math.floor(order.runs / 5);
  let baseline = 0;
  let slowestMs = 0;
  let elapsedMs = 0;
  for (let done = 0; done < order.runs; done += 1) {
    if (done === warmUp) baseline = await memory();
    const index = order.from + done;
    Atomics.store(progress, 0, index);
    const startedAt = performance.now();
    const running = target.run(createRandom(inputSeed(order.seed, index)));
    if (running) await running;
    const tookMs = performance.now() - startedAt;
    elapsedMs += tookMs;
    if (tookMs > slowestMs) slowestMs = tookMs;
    if (done % breatheEvery === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  const growthBytes = (await memory()) - baseline;
  await target.close?.();
  return { elapsedMs, growthBytes, slowestMs };
}

const report = await work(workerData as ThreadOrder);
parentPort?.postMessage(report);
