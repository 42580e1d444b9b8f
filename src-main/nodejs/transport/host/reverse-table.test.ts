import type { TLSSocket } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { makeToken, refusalOf } from '../fixtures.ts';
import { createReverseTable, dialBackMs } from './reverse-table.ts';

const alice = 'a'.repeat(64) as NodeId;
const bob = 'b'.repeat(64) as NodeId;
const socket = {} as TLSSocket;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function codeOf(attempt: () => unknown): string {
  try {
    attempt();
    return 'none';
  } catch (error) {
    return (error as CoveyError).code;
  }
}

describe('createReverseTable', () => {
  it('gives the connection of the peer that was asked to the one that waits, once', async () => {
    const table = createReverseTable();
    const token = makeToken();
    const expected = table.expect(token, alice);
    expect(codeOf(() => table.take(token, bob))).toBe('dial_refused');
    expect(codeOf(() => table.take(makeToken(), alice))).toBe('dial_refused');
    table.take(token, alice)(socket);
    expect(await expected.connection).toBe(socket);
    expect(codeOf(() => table.take(token, alice))).toBe('dial_refused');
  });

  it('takes none that comes after its time', async () => {
    const table = createReverseTable();
    const token = makeToken();
    const late = refusalOf(table.expect(token, alice).connection);
    vi.advanceTimersByTime(dialBackMs);
    expect((await late).code).toBe('timeout');
    expect(codeOf(() => table.take(token, alice))).toBe('dial_refused');
  });

  it('tells one that is not needed any more from one that nobody asked for', async () => {
    const table = createReverseTable();
    const token = makeToken();
    const expected = table.expect(token, alice);
    const cancelled = refusalOf(expected.connection);
    expected.cancel(new CoveyError('cancelled', 'another way'));
    expect((await cancelled).message).toBe('another way');
    expect(codeOf(() => table.take(token, bob))).toBe('dial_refused');
    expect(codeOf(() => table.take(token, alice))).toBe('cancelled');
    expect(codeOf(() => table.take(token, alice))).toBe('dial_refused');
  });

  it('awaits only so many at once', async () => {
    const table = createReverseTable();
    const waiting = Array.from({ length: 1_024 }, () =>
      refusalOf(table.expect(makeToken(), alice).connection),
    );
    expect(codeOf(() => table.expect(makeToken(), alice))).toBe('too_many_requests');
    table.close();
    expect(new Set((await Promise.all(waiting)).map(({ code }) => code))).toEqual(new Set(['shutting_down']));
  });
});
