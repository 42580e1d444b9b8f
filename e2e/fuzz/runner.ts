import { Worker } from 'node:worker_threads';
import type { FuzzPlan } from './target.ts';
import type { ThreadOrder, ThreadReport } from './thread.ts';

export interface FuzzReport {
  readonly target: string;
  readonly inputs: number;
  readonly perS: number;
  readonly growthBytes: number;
  readonly slowestMs: number;
}

/** What was wrong with which input, and how to run that one alone. */
export class FuzzFailure extends Error {
  constructor(
    kind: 'crash' | 'hang' | 'memory growth',
    plan: FuzzPlan,
    seed: number,
    index: number,
    detail: string,
  ) {
    const replay =
      plan.replay?.(seed, index) ??
      `node e2e/fuzz/run.ts --target ${plan.name} --seed ${seed} --from ${index} --inputs 1`;
    super(`${kind} in ${plan.name}, seed ${seed}, input ${index}: ${detail}\nreplay: ${replay}`);
    this.name = 'FuzzFailure';
  }
}

const watchEveryMs = 250;
/** Loading the target's code, and coming to rest for the measuring of memory. */
const startMs = 60_000;

/**
 * Gives a target `inputs` inputs, those of `seed` from number `from` on. Rejects with FuzzFailure when one of them
 * makes it throw, keeps it busy for longer than its deadline, or when it keeps memory.
 * @param context what the target needs to find the program under test
 */
export async function fuzz(
  plan: FuzzPlan,
  options: {
    readonly inputs: number;
    readonly seed: number;
    readonly from?: number;
    readonly context?: unknown;
  },
): Promise<FuzzReport> {
  const { inputs, seed, from = 0 } = options;
  const progress = new SharedArrayBuffer(4);
  const current = new Int32Array(progress);
  current[0] = from;
  const order: ThreadOrder = {
    target: plan.name,
    seed,
    from,
    runs: inputs,
    atOnce: plan.atOnce ?? 1,
    context: options.context ?? null,
    progress,
  };
  const thread = new Worker(new URL('./thread.ts', import.meta.url), {
    workerData: order,
    resourceLimits: { maxOldGenerationSizeMb: 768 },
  });
  try {
    const report = await new Promise<ThreadReport>((resolve, reject) => {
      const fail = (kind: 'crash' | 'hang', detail: string): void => {
        reject(new FuzzFailure(kind, plan, seed, Atomics.load(current, 0), detail));
      };
      let last = -1;
      let since = performance.now();
      const watch = setInterval(() => {
        const at = performance.now();
        const now = Atomics.load(current, 0);
        if (now !== last) [last, since] = [now, at];
        // The first one pays for the start, what follows the last for coming to rest.
        const allowedMs = now === from || now === from + inputs ? startMs : plan.deadlineMs;
        if (at - since > allowedMs) fail('hang', `not done after ${Math.round(at - since)} ms`);
      }, watchEveryMs);
      const over = (): void => clearInterval(watch);
      thread.once('message', (message) => {
        over();
        resolve(message as ThreadReport);
      });
      thread.once('error', (error: unknown) => {
        over();
        fail('crash', error instanceof Error ? (error.stack ?? error.message) : String(error));
      });
      thread.once('exit', (code) => {
        over();
        fail('crash', `the thread ended with ${code}`);
      });
    });
    if (inputs >= memoryMatters && report.growthBytes > plan.growthBytes) {
      const detail = `${(report.growthBytes / 1e6).toFixed(1)} MB more after ${inputs} inputs`;
      throw new FuzzFailure('memory growth', plan, seed, from + inputs - 1, detail);
    }
    return {
      target: plan.name,
      inputs,
      perS: inputs / (report.elapsedMs / 1_000),
      growthBytes: report.growthBytes,
      slowestMs: report.slowestMs,
    };
  } finally {
    await thread.terminate();
  }
}

/** Fewer inputs tell nothing about memory. */
const memoryMatters = 1_000;

export function formatReports(reports: readonly FuzzReport[]): string {
  const rows = [
    ['target', 'inputs', 'per s', 'slowest ms', 'growth MB', 'crashes', 'hangs'],
    ...reports.map((report) => [
      report.target,
      String(report.inputs),
      report.perS.toFixed(0),
      report.slowestMs.toFixed(1),
      (report.growthBytes / 1e6).toFixed(2),
      '0',
      '0',
    ]),
  ];
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  return rows
    .map((row) =>
      row
        .map((cell, column) =>
          column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0),
        )
        .join('  '),
    )
    .join('\n');
}
