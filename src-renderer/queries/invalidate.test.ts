import { QueryClient } from '@tanstack/react-query';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ApiEvent, ApiRoute } from '#shared/api/schema.ts';
import type { DeploymentView } from '#shared/domain/deployment.ts';
import type { DeploymentId, EngineId } from '#shared/lib/ids.ts';
import { createInvalidator, routesOf, withProgress } from './invalidate.ts';

const event = (kind: string, changes: Partial<ApiEvent> = {}): ApiEvent => ({
  id: null,
  at: 0,
  kind,
  level: 'info',
  message: '',
  ...changes,
});

it.each<[string, readonly ApiRoute[]]>([
  ['live', []],
  ['load-progress', []],
  ['replica-ready', ['deployments', 'nodes', 'status']],
  ['audit-key-created', ['keys', 'settings']],
  ['audit-setting-changed', ['settings', 'self']],
  ['security-token-refused', []],
  ['job-done', ['jobs', 'job', 'jobPartitions', 'jobStats', 'tasks', 'artifacts']],
  ['something-new', ['deployments', 'nodes', 'status']],
])('%s makes %j out of date', (kind, routes) => expect(routesOf(event(kind))).toEqual(routes));

it('a machine that comes or goes changes all lists with machines in them', () => {
  for (const kind of ['node-lost', 'session-opened', 'drain-completed']) {
    expect(routesOf(event(kind))).toEqual(expect.arrayContaining(['nodes', 'status', 'deployments']));
  }
});

describe('asking again', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('costs one request for each list and second, however many events there are', async () => {
    const client = new QueryClient();
    const asked: string[] = [];
    vi.spyOn(client, 'invalidateQueries').mockImplementation((filters) => {
      asked.push(String(filters?.queryKey?.[0]));
      return Promise.resolve();
    });
    const invalidator = createInvalidator(client);
    for (let ms = 0; ms < 3_000; ms += 10) {
      invalidator.add(['nodes', 'status']);
      await vi.advanceTimersByTimeAsync(10);
    }
    expect(asked.length).toBeGreaterThanOrEqual(6);
    expect(asked.length).toBeLessThanOrEqual(8);
    await vi.advanceTimersByTimeAsync(2_000);
    const last = asked.length;
    await vi.advanceTimersByTimeAsync(5_000);
    expect(asked.length).toBe(last);
    invalidator.stop();
  });

  it('waits for the answers that are on their way', async () => {
    const client = new QueryClient();
    const answers: (() => void)[] = [];
    vi.spyOn(client, 'invalidateQueries').mockImplementation(
      () => new Promise<void>((resolve) => answers.push(resolve)),
    );
    const invalidator = createInvalidator(client);
    invalidator.add(['nodes']);
    await vi.advanceTimersByTimeAsync(100);
    invalidator.add(['nodes']);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(answers.length).toBe(1);
    answers[0]?.();
    await vi.advanceTimersByTimeAsync(0);
    expect(answers.length).toBe(2);
    invalidator.stop();
  });
});

it('progress goes to the stages that it is about', () => {
  const id = 'd-aaaaaaaa' as DeploymentId;
  const [leader, stage] = [`${id}.1.0` as EngineId, `${id}.1.1` as EngineId];
  const deployment = {
    id,
    progress: null,
    stages: [
      { engineId: leader, role: 'leader', phase: 'starting', progress: null },
      { engineId: stage, role: 'stage', phase: 'ready', progress: null },
    ],
  } as unknown as DeploymentView;
  const progress = { step: 'loading tensors', doneBytes: 5, totalBytes: 10, percent: 50 };
  const [after] = withProgress(
    [deployment],
    event('load-progress', {
      deploymentId: id,
      stages: [{ engineId: leader, nodeName: 'a', phase: 'loading', progress }],
    }),
  );
  expect(after?.progress).toEqual(progress);
  expect(after?.stages.map(({ phase }) => phase)).toEqual(['loading', 'ready']);
});
