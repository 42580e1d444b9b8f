import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { NodeId } from '#shared/lib/ids.ts';
import type { LogLine } from '#shared/api/schema.ts';
import { createNodeLogs, logBatchMs } from './node-logs.ts';

const line = (message: string, nodeId = 'a'): LogLine => ({
  at: 1,
  nodeId: nodeId as NodeId,
  nodeName: nodeId,
  level: 'info',
  source: 'worker',
  message,
});
const words = (lines: readonly LogLine[]): string => lines.map(({ message }) => message).join(' ');

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('logs of the machines', () => {
  it('are the newest, of one machine where that is asked for', () => {
    const logs = createNodeLogs(5);
    for (let count = 0; count < 20; count++) logs.add(line(String(count), count % 2 === 0 ? 'a' : 'b'));
    expect(words(logs.read({ limit: 3 }))).toBe('17 18 19');
    expect(words(logs.read({ limit: 2, nodeId: 'a' as NodeId }))).toBe('16 18');
  });

  it('are told in the order of their times, whoever sent them first', () => {
    const logs = createNodeLogs();
    const told: string[] = [];
    for (const [at, message] of [
      [3, 'three'],
      [1, 'one'],
    ] as const) {
      logs.add({ ...line(message), at });
    }
    logs.subscribe((lines) => told.push(words(lines)));
    logs.add({ ...line('five', 'b'), at: 5 });
    logs.add({ ...line('four'), at: 4 });
    vi.advanceTimersByTime(logBatchMs);
    expect(told).toEqual(['one three', 'four five']);
    expect(words(logs.read({ limit: 4 }))).toBe('one three four five');
  });

  it('come to who follows: all that there is, then what is new, a few times a second', () => {
    const logs = createNodeLogs();
    logs.add(line('old'));
    const first: string[] = [];
    const second: string[] = [];
    const stop = logs.subscribe((lines) => first.push(words(lines)));
    logs.add(line('one'));
    logs.add(line('two'));
    // Nobody gets a line twice, and nobody misses one.
    logs.subscribe((lines) => second.push(words(lines)));
    logs.add(line('three'));
    expect([first, second]).toEqual([['old', 'one two'], ['old one two']]);
    vi.advanceTimersByTime(logBatchMs);
    stop();
    logs.add(line('four'));
    vi.advanceTimersByTime(logBatchMs);
    expect([first, second]).toEqual([
      ['old', 'one two', 'three'],
      ['old one two', 'three', 'four'],
    ]);
  });

  it('leave nothing behind when nobody follows any more', () => {
    const logs = createNodeLogs();
    const stop = logs.subscribe(() => undefined);
    logs.add(line('one'));
    stop();
    expect(vi.getTimerCount()).toBe(0);
  });
});
