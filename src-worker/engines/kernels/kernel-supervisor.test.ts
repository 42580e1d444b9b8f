import { expect, it, vi } from 'vitest';
import type { KernelTask, KernelWork } from '#shared/host/kernel-host.ts';
import type { JobId, TaskId } from '#shared/lib/ids.ts';
import { collectingLogger } from '../../runtime/fixtures.ts';
import { playedProcessHost } from '../fixtures.ts';
import { createKernelSupervisor, type KernelNews } from './kernel-supervisor.ts';

const jobId = 'j-00000001' as JobId;
const work: KernelWork = { jobId, call: { kernel: 'sum', type: 'i32' }, input: '/data', second: null };
const id = (index: number): TaskId => `${jobId}.${index}.1` as TaskId;
const tasks = (...indexes: number[]): KernelTask[] =>
  indexes.map((index) => ({ taskId: id(index), jobId, from: 0, to: 1 }));
const hello = { type: 'hello', library: { isa: 'avx2', kernels: ['sum'] }, problem: null };

function bench() {
  const { processHost, hosts } = playedProcessHost();
  const news: KernelNews[] = [];
  const supervisor = createKernelSupervisor({
    processHost,
    engineDirectory: '/engine',
    logger: collectingLogger().logger,
    onNews: (more) => news.push(...more),
  });
  return { supervisor, hosts, news };
}

it('starts a host for its facts, and once', async () => {
  const { supervisor, hosts } = bench();
  const facts = supervisor.facts();
  hosts[0]?.say(hello);
  expect(await facts).toMatchObject({ library: { isa: 'avx2' } });
  expect(await supervisor.facts()).toMatchObject({ library: { isa: 'avx2' } });
  expect(hosts).toHaveLength(1);
  supervisor.close();
});

it('sends the work of a job with its first tasks only', () => {
  const { supervisor, hosts } = bench();
  supervisor.run(2, [work], tasks(0));
  supervisor.run(2, [work], tasks(1));
  expect(hosts[0]?.sent.slice(1)).toMatchObject([
    { type: 'run', works: [work], tasks: [{ taskId: id(0) }] },
    { type: 'run', works: [], tasks: [{ taskId: id(1) }] },
  ]);
  supervisor.forget([jobId]);
  supervisor.run(2, [work], tasks(2));
  expect(hosts[0]?.sent.at(-1)).toMatchObject({ works: [work] });
  supervisor.close();
});

it('ends the task that its host died of, and gives the others to the next host', async () => {
  const { supervisor, hosts, news } = bench();
  supervisor.run(2, [work], tasks(0, 1, 2));
  hosts[0]?.say(hello);
  const done = { type: 'done', taskId: id(0), value: {}, wallMs: 1 };
  const started = { type: 'started', taskId: id(1) };
  hosts[0]?.say({ type: 'reports', reports: [done, started] });
  hosts[0]?.exit('killed by SIGSEGV');
  expect(news).toMatchObject([done, started, { type: 'gone', taskId: id(1), outcome: 'crashed' }]);
  await vi.waitFor(() => expect(hosts).toHaveLength(2));
  expect(hosts[1]?.sent[1]).toMatchObject({ works: [work], tasks: [{ taskId: id(2) }] });
  hosts[0]?.say({ type: 'reports', reports: [{ ...done, taskId: id(1) }] });
  expect(news).toHaveLength(3);
  supervisor.close();
});

it('gives all to the next host, each apart, when it is not known of which one a host died', async () => {
  const { supervisor, hosts, news } = bench();
  supervisor.run(2, [work], tasks(0, 1, 2));
  hosts[0]?.say(hello);
  hosts[0]?.exit('killed by SIGSEGV');
  await vi.waitFor(() => expect(hosts).toHaveLength(2));
  expect(news).toEqual([]);
  const again = [0, 1, 2].map((index) => ({ taskId: id(index), apart: true }));
  expect(hosts[1]?.sent[1]).toMatchObject({ tasks: again });
  hosts[1]?.say(hello);
  const done = { type: 'done', taskId: id(0), value: {}, wallMs: 1 };
  hosts[1]?.say({ type: 'reports', reports: [done] });
  hosts[1]?.exit('killed by SIGSEGV');
  expect(news).toMatchObject([done, { type: 'gone', taskId: id(1), outcome: 'crashed' }]);
  await vi.waitFor(() => expect(hosts).toHaveLength(3));
  expect(hosts[2]?.sent[1]).toMatchObject({ tasks: [{ taskId: id(2), apart: true }] });
  supervisor.close();
});

it('ends a host that never begins, and loses its tasks', async () => {
  vi.useFakeTimers();
  try {
    const { supervisor, hosts, news } = bench();
    supervisor.run(2, [work], tasks(0));
    await vi.advanceTimersByTimeAsync(14_000);
    expect(news).toEqual([]);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(hosts[0]?.killed).toBe(true);
    expect(news).toMatchObject([{ type: 'gone', taskId: id(0), outcome: 'lost' }]);
    supervisor.run(2, [work], tasks(1));
    hosts[1]?.say(hello);
    await vi.advanceTimersByTimeAsync(16_000);
    expect(hosts[1]?.killed).toBe(false);
    supervisor.close();
  } finally {
    vi.useRealTimers();
  }
});

it('ends a host that does not answer any more, and goes on with the next one', async () => {
  vi.useFakeTimers();
  try {
    const { supervisor, hosts, news } = bench();
    supervisor.run(2, [work], tasks(0, 1));
    hosts[0]?.say(hello);
    const started = { type: 'started', taskId: id(0) };
    hosts[0]?.say({ type: 'reports', reports: [started] });
    for (let answers = 0; answers < 5; answers += 1) {
      await vi.advanceTimersByTimeAsync(25_000);
      expect(hosts[0]?.sent.at(-1)).toEqual({ type: 'ping' });
      hosts[0]?.say({ type: 'pong' });
    }
    expect(hosts[0]?.killed).toBe(false);
    await vi.advanceTimersByTimeAsync(36_000);
    expect(hosts[0]?.killed).toBe(true);
    const error = { code: 'task_crashed', message: 'the kernel host did not answer any more' };
    expect(news).toEqual([started, { type: 'gone', taskId: id(0), outcome: 'crashed', error }]);
    expect(hosts[1]?.sent[1]).toMatchObject({ tasks: [{ taskId: id(1) }] });
    supervisor.close();
  } finally {
    vi.useRealTimers();
  }
});

it('loses all tasks when no host begins', async () => {
  const { supervisor, hosts, news } = bench();
  const facts = supervisor.facts();
  supervisor.run(2, [work], tasks(0, 1));
  hosts[0]?.exit('exited with code 1');
  expect(await facts).toMatchObject({ library: null });
  expect(news.map((one) => one.type === 'gone' && one.outcome)).toEqual(['lost', 'lost']);
  supervisor.close();
});
