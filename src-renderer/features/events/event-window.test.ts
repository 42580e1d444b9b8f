import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { eventHistoryQuerySchema } from '#shared/api/schema.ts';
import type { DeploymentId, JobId, NodeId } from '#shared/lib/ids.ts';
import {
  createEventWindow,
  historyQuery,
  isFiltered,
  matches,
  noFilter,
  type StoredEvent,
} from './event-window.ts';

const event = (id: number): StoredEvent => ({ id, at: id, kind: 'k', level: 'info', message: `Event ${id}` });
const ids = (window: ReturnType<typeof createEventWindow>): number[] =>
  Array.from({ length: window.length }, (_, index) => window.row(index)?.id ?? -1);

describe('the rows of the event list', () => {
  it('are newest first, without gaps in order or repetition, whatever comes when', () => {
    const step = fc.oneof(
      fc.record({ live: fc.integer({ min: 1, max: 400 }) }),
      fc.record({ before: fc.integer({ min: 1, max: 400 }), count: fc.nat(20) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.integer({ min: 1, max: 50 }), (steps, limit) => {
        const window = createEventWindow(limit);
        for (const one of steps) {
          if ('live' in one) window.add(event(one.live));
          else {
            const count = Math.min(one.count, one.before);
            window.addOlder(Array.from({ length: count }, (_, index) => event(one.before - index)));
          }
          const seen = ids(window);
          expect(seen.length).toBeLessThanOrEqual(limit);
          expect(seen).toEqual([...new Set(seen)].sort((a, b) => b - a));
          expect(window.newestId).toBe(seen[0] ?? null);
          expect(window.oldestId).toBe(seen.at(-1) ?? null);
          expect(window.row(seen.length)).toBeUndefined();
        }
      }),
    );
  });

  it('take what is new above and what is old below', () => {
    const window = createEventWindow();
    window.addOlder([event(9), event(8)]);
    expect(window.add(event(10))).toBe(true);
    expect(window.add(event(10))).toBe(false);
    window.addOlder([event(8), event(7)]);
    expect(ids(window)).toEqual([10, 9, 8, 7]);
  });

  it('stay quick with as many as are kept', () => {
    const window = createEventWindow(100_000);
    for (let id = 1; id <= 350_000; id++) window.add(event(id));
    expect(window.length).toBe(100_000);
    expect(window.row(0)?.id).toBe(350_000);
    expect(window.oldestId).toBe(250_001);
  });
});

describe('a filter', () => {
  const one: StoredEvent = {
    ...event(1),
    level: 'warn',
    nodeId: 'a'.repeat(64) as NodeId,
    deploymentId: 'd-1a2b3c4d' as DeploymentId,
    jobId: 'j-1a2b3c4d' as JobId,
  };

  it('lets through what fits all of it', () => {
    expect(matches(one, noFilter)).toBe(true);
    expect(matches(one, { ...noFilter, levels: ['warn', 'error'], text: 'EVENT' })).toBe(true);
    expect(matches(one, { ...noFilter, nodeId: 'a'.repeat(64), deploymentId: 'd-1a2b3c4d' })).toBe(true);
    expect(matches(one, { ...noFilter, levels: ['error'] })).toBe(false);
    expect(matches(one, { ...noFilter, nodeId: 'b'.repeat(64) })).toBe(false);
    expect(matches(one, { ...noFilter, deploymentId: 'd-00000000' })).toBe(false);
    expect(matches(one, { ...noFilter, jobId: 'j-1a2b3c4d' })).toBe(true);
    expect(matches(one, { ...noFilter, jobId: 'j-00000000' })).toBe(false);
    expect(matches(event(2), { ...noFilter, jobId: 'j-1a2b3c4d' })).toBe(false);
    expect(matches(one, { ...noFilter, text: 'nothing' })).toBe(false);
    expect(matches(one, { ...noFilter, kinds: ['j', 'k'] })).toBe(true);
    expect(matches(one, { ...noFilter, kinds: ['j'] })).toBe(false);
  });

  it('is a query that the contract takes', () => {
    const filter = {
      nodeId: 'a'.repeat(64),
      deploymentId: 'd-1a2b3c4d',
      jobId: 'j-1a2b3c4d',
      levels: ['warn', 'error'],
      kinds: ['j', 'k'],
      text: 'x',
    } as const;
    expect(eventHistoryQuerySchema.parse(historyQuery(filter, 17, 200))).toEqual({
      node: filter.nodeId,
      deployment: filter.deploymentId,
      job: filter.jobId,
      level: ['warn', 'error'],
      kind: ['j', 'k'],
      text: 'x',
      before: 17,
      limit: 200,
    });
    expect(historyQuery(noFilter, null, 50)).toEqual({ limit: '50' });
  });

  it('knows whether it is one', () => {
    expect(isFiltered(noFilter)).toBe(false);
    expect(isFiltered({ ...noFilter, text: 'x' })).toBe(true);
    expect(isFiltered({ ...noFilter, jobId: 'j-1a2b3c4d' })).toBe(true);
  });
});
