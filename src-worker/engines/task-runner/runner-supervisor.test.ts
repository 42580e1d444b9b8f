import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { IndexTask } from '#shared/host/task-runner.ts';
import type { ArtifactId, TaskId } from '#shared/lib/ids.ts';
import { collectingLogger } from '../../runtime/fixtures.ts';
import { playedProcessHost } from '../fixtures.ts';
import { createRunnerSupervisor, type RunnerNews } from './runner-supervisor.ts';

const id = (index: number): TaskId => `j-00000001.${index}.1` as TaskId;
const task = (index: number): IndexTask => ({
  kind: 'index',
  taskId: id(index),
  dataset: {
    artifact: { id: 'a'.repeat(64) as ArtifactId, kind: 'file', bytes: 1 },
    format: 'text',
    recordBytes: null,
    header: false,
  },
  path: '/data',
});

function bench() {
  const { processHost, hosts } = playedProcessHost();
  const news: RunnerNews[] = [];
  const supervisor = createRunnerSupervisor({
    processHost,
    init: () => ({
      type: 'init',
      launcher: null,
      hidden: [],
      sandbox: { kind: 'none' },
      limits: { kind: 'rlimits' },
    }),
    directory: '/nowhere/of/this/test',
    logger: collectingLogger().logger,
    onNews: (one) => news.push(one),
  });
  return { supervisor, hosts, news };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('kills a runner that does not end a task, which loses what it runs, and starts another for the next', () => {
  const { supervisor, hosts, news } = bench();
  supervisor.run(task(0));
  supervisor.run(task(1));
  supervisor.stop(id(0), 5_000);
  vi.advanceTimersByTime(34_000);
  expect(hosts[0]?.killed).toBe(false);
  vi.advanceTimersByTime(1_001);
  expect(hosts[0]?.killed).toBe(true);
  expect(news).toMatchObject([
    { type: 'gone', taskId: id(0) },
    { type: 'gone', taskId: id(1) },
  ]);
  supervisor.run(task(2));
  expect(hosts).toHaveLength(2);
  supervisor.close();
});

it('leaves a runner alone that has ended it in time', () => {
  const { supervisor, hosts, news } = bench();
  supervisor.run(task(0));
  supervisor.run(task(1));
  supervisor.stop(id(0), 5_000);
  const usage = { wallMs: 1, cpuMs: null, peakBytes: null, stagingMs: 0 };
  const error = { code: 'cancelled', message: 'it was told to end' };
  hosts[0]?.say({ type: 'failed', taskId: id(0), outcome: 'lost', error, exitCode: null, usage, output: '' });
  vi.advanceTimersByTime(40_000);
  expect(hosts[0]?.killed).toBe(false);
  expect(news).toMatchObject([{ type: 'failed', taskId: id(0) }]);
  supervisor.close();
});
