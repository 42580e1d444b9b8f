import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { Queue } from 'bullmq';
import { processInfo } from '../support/processes.ts';
import { startProcess } from '../support/managed-process.ts';
import { freePort } from '../support/ports.ts';
import { waitFor, withDeadline } from '../support/wait.ts';
import type { JobsSide } from './jobs-side.ts';

const perBulk = 500;
const startMs = 20_000;

/** null: it is not installed (Debian package redis-server). */
export function redisProgram(): string | null {
  return ['/usr/bin/redis-server', '/usr/local/bin/redis-server'].find((file) => existsSync(file)) ?? null;
}

/** BullMQ on a Redis of its own: append-only file, flushed every second; so many worker processes, 50 jobs at once each. */
export async function startBullmq(program: string, directory: string, workers: number): Promise<JobsSide> {
  await mkdir(directory, { recursive: true });
  const port = await freePort();
  const redis = startProcess({
    label: 'redis',
    argv: [
      program,
      ...['--port', String(port), '--bind', '127.0.0.1', '--dir', directory, '--daemonize', 'no'],
      ...['--appendonly', 'yes', '--appendfsync', 'everysec', '--save', ''],
      ...['--maxmemory-policy', 'noeviction'],
    ],
  });
  const connection = { host: '127.0.0.1', port, maxRetriesPerRequest: null };
  const children: ChildProcess[] = [];
  const closers: (() => Promise<unknown>)[] = [() => redis.stop()];
  const close = async (): Promise<void> => {
    for (const child of children) child.kill('SIGKILL');
    for (const closer of closers.toReversed()) await closer();
  };
  try {
    await waitFor('redis', () => redis.output().includes('Ready to accept connections'), startMs);
    const name = 'bench';
    for (let index = 0; index < workers; index += 1) {
      const file = path.join(import.meta.dirname, 'jobs-bullmq-worker.ts');
      const child = fork(file, [String(port), name], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
      children.push(child);
      await withDeadline('a worker of BullMQ', once(child, 'message'), startMs);
    }
    const queue = new Queue(name, { connection });
    closers.push(() => queue.close());
    await queue.waitUntilReady();
    let completed = 0;
    /** When the last of so many more than before was completed, as its worker noted. */
    const finished = async (count: number, intervalMs: number): Promise<number> => {
      completed += count;
      await waitFor(
        'all jobs of BullMQ',
        async () => (await queue.getCompletedCount()) >= completed,
        120_000,
        intervalMs,
      );
      const [last] = await queue.getCompleted(0, 0);
      return last?.finishedOn ?? NaN;
    };
    return {
      async many(count) {
        const startedAt = Date.now();
        for (let from = 0; from < count; from += perBulk) {
          const size = Math.min(perBulk, count - from);
          await queue.addBulk(
            Array.from({ length: size }, (_, index) => ({ name: 'none', data: { index: from + index } })),
          );
        }
        return (await finished(count, 100)) - startedAt;
      },
      async one() {
        const startedAt = Date.now();
        await queue.add('none', { index: 0 });
        return (await finished(1, 10)) - startedAt;
      },
      cpuMs: () => processInfo(redis.pid)?.cpuMs ?? NaN,
      workersCpuMs: () =>
        children.reduce((sum, child) => sum + (processInfo(child.pid ?? -1)?.cpuMs ?? NaN), 0),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
