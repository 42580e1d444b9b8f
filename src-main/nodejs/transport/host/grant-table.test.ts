import { describe, expect, it } from 'vitest';
import type { Grant } from '#shared/host/transport.ts';
import type { EngineId, NodeId } from '#shared/lib/ids.ts';
import type { CoveyError } from '#shared/errors.ts';
import { leaderId, makeToken, refusalOf, stageId } from '../fixtures.ts';
import { createGrantTable } from './grant-table.ts';

const alice = 'a'.repeat(64) as NodeId;
let now = 0;
const bob = 'b'.repeat(64) as NodeId;

function grant(overrides: Partial<Grant> = {}): Grant {
  return {
    token: makeToken(),
    engineId: stageId,
    port: 1234,
    peers: [alice],
    maxStreams: 1,
    alpn: 'tunnel',
    ttlMs: 60_000,
    ...overrides,
  };
}

function codeOf(attempt: () => unknown): string {
  try {
    attempt();
  } catch (error) {
    return (error as CoveyError).code;
  }
  return 'none';
}

describe('createGrantTable', () => {
  it('gives a grant to its peer on its protocol, and one answer to everyone else', () => {
    const own = grant();
    const table = createGrantTable([own], () => now);
    expect(table.check(own.token, alice, 'tunnel')).toEqual(own);
    expect(codeOf(() => table.check(own.token, bob, 'tunnel'))).toBe('grant_invalid');
    expect(codeOf(() => table.check(own.token, alice, 'http'))).toBe('grant_invalid');
    expect(codeOf(() => table.check(makeToken(), alice, 'tunnel'))).toBe('grant_invalid');
  });

  it('ends every use of an engine that is gone, and says expired afterwards', async () => {
    const own = grant({ maxStreams: 2 });
    const other = grant({ engineId: leaderId });
    const table = createGrantTable([own, other], () => now);
    const ended: string[] = [];
    await table.use(own, () => ended.push('first'), 10);
    await table.use(own, () => ended.push('second'), 10);
    table.watch(own, () => ended.push('pulse'));
    await table.use(other, () => ended.push('other'), 10);
    table.remove(stageId);
    expect(ended.sort()).toEqual(['first', 'pulse', 'second']);
    expect(codeOf(() => table.check(own.token, alice, 'tunnel'))).toBe('grant_expired');
    expect(codeOf(() => table.check(other.token, alice, 'tunnel'))).toBe('none');
  });

  it('lets the next stream wait until one is free', async () => {
    const own = grant();
    const table = createGrantTable([own], () => now);
    const first = await table.use(own, () => undefined, 10);
    const second = table.use(own, () => undefined, 1_000);
    const third = refusalOf(table.use(own, () => undefined, 30));
    expect((await third).code).toBe('too_many_requests');
    first.release();
    first.release();
    const held = await second;
    expect((await refusalOf(table.use(own, () => undefined, 10))).code).toBe('too_many_requests');
    held.release();
    await table.use(own, () => undefined, 10);
  });

  it('never lets more in than may be, however releases and arrivals meet', async () => {
    const own = grant({ maxStreams: 2 });
    const table = createGrantTable([own], () => now);
    let inside = 0;
    let most = 0;
    await Promise.all(
      Array.from({ length: 40 }, async () => {
        const use = await table.use(own, () => undefined, 5_000);
        inside += 1;
        most = Math.max(most, inside);
        await new Promise((resolve) => setImmediate(resolve));
        inside -= 1;
        use.release();
      }),
    );
    expect(most).toBe(2);
  });

  it('tells those who wait that the engine is gone', async () => {
    const own = grant();
    const table = createGrantTable([own], () => now);
    await table.use(own, () => undefined, 10);
    const waiting = refusalOf(table.use(own, () => undefined, 5_000));
    table.remove(stageId);
    expect((await waiting).code).toBe('grant_expired');
  });

  it('keeps one pulse per grant: the newest', () => {
    const own = grant();
    const table = createGrantTable([own], () => now);
    const ended: string[] = [];
    const first = table.watch(own, () => {
      ended.push('first');
      first.release();
    });
    table.watch(own, () => ended.push('second'));
    expect(ended).toEqual(['first']);
  });

  it('takes no new stream after the time of a grant, until it is renewed', async () => {
    const own = grant({ maxStreams: 2, ttlMs: 1_000 });
    const table = createGrantTable([own], () => now);
    let ended = 0;
    await table.use(own, () => (ended += 1), 10);
    now += 999;
    expect(codeOf(() => table.check(own.token, alice, 'tunnel'))).toBe('none');
    now += 1;
    expect(codeOf(() => table.check(own.token, alice, 'tunnel'))).toBe('grant_expired');
    // Whose grant it is not does not learn that there is one.
    expect(codeOf(() => table.check(own.token, bob, 'tunnel'))).toBe('grant_invalid');
    expect(ended).toBe(0);
    table.renew();
    expect(codeOf(() => table.check(own.token, alice, 'tunnel'))).toBe('none');
  });

  it('takes any protocol where the connection names none', () => {
    const own = grant({ alpn: 'http' });
    const table = createGrantTable([own], () => now);
    expect(table.check(own.token, alice, null)).toEqual(own);
    expect(codeOf(() => table.check(own.token, bob, null))).toBe('grant_invalid');
  });

  it('remembers only so many removed grants', () => {
    const table = createGrantTable([], () => now);
    const tokens: string[] = [];
    for (let index = 0; index < 600; index += 1) {
      const own = grant({ engineId: `d-00000000.1.${index}` as EngineId });
      tokens.push(own.token);
      table.add(own);
      table.remove(own.engineId);
    }
    expect(codeOf(() => table.check(tokens[0] ?? '', alice, 'tunnel'))).toBe('grant_invalid');
    expect(codeOf(() => table.check(tokens[599] ?? '', alice, 'tunnel'))).toBe('grant_expired');
  });
});
