import { describe, expect, it } from 'vitest';
import type { NodeId } from '#shared/lib/ids.ts';
import { createPathMemory, type Way } from './path-memory.ts';

const peer = 'a'.repeat(64) as NodeId;
const all: readonly Way[] = ['direct', 'reverse', 'relay'];

function memory() {
  const clock = { now: 0 };
  const paths = createPathMemory(() => clock.now);
  const plan = (possible: readonly Way[] = all): string =>
    paths
      .plan(peer, possible)
      .map(({ way, afterMs }) => `${way}@${afterMs}`)
      .join(' ');
  return { clock, paths, plan };
}

describe('createPathMemory', () => {
  it('gives direct a head start, then reverse, and the relay is the last resort', () => {
    const { plan } = memory();
    expect(plan()).toBe('direct@0 reverse@1000 relay@2500');
    expect(plan(['direct'])).toBe('direct@0');
    expect(plan(['direct', 'relay'])).toBe('direct@0 relay@1000');
  });

  it('starts with what worked, for a minute from the last time', () => {
    const { clock, paths, plan } = memory();
    paths.works(peer, 'reverse');
    clock.now = 20_000;
    expect(plan()).toBe('reverse@0 direct@1000 relay@2500');
    paths.works(peer, 'reverse');
    clock.now = 79_999;
    expect(plan()).toMatch(/^reverse@0 /);
    clock.now = 80_000;
    expect(plan()).toBe('direct@0 reverse@1000 relay@2500');
  });

  it('tries better ways alongside every half minute', () => {
    const { clock, paths, plan } = memory();
    paths.works(peer, 'relay');
    clock.now = 29_999;
    expect(plan()).toBe('relay@0 direct@1000 reverse@2500');
    clock.now = 30_000;
    expect(plan()).toBe('relay@0 direct@0 reverse@0');
    paths.works(peer, 'relay');
    clock.now = 59_999;
    expect(plan()).toBe('relay@0 direct@1000 reverse@2500');
    clock.now = 60_000;
    expect(plan()).toBe('relay@0 direct@0 reverse@0');
    paths.works(peer, 'direct');
    expect(plan()).toBe('direct@0 reverse@1000 relay@2500');
  });

  it('forgets a way that is not possible any more, and one peer for another', () => {
    const { paths, plan } = memory();
    paths.works(peer, 'relay');
    expect(plan(['direct', 'reverse'])).toBe('direct@0 reverse@1000');
    expect(paths.plan('b'.repeat(64) as NodeId, all)[0]).toEqual({ way: 'direct', afterMs: 0 });
  });
});
