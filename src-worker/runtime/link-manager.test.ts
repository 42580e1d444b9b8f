import { describe, expect, it, vi } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import type { Link, LinkRequest } from '../../src-main/nodejs/transport/transport.ts';
import type { AgentEvent } from '../agent/events.ts';
import { llama } from '../agent/fixtures.ts';
import { createLinkManager } from './link-manager.ts';

/** A transport whose links open when told to. */
function transport() {
  const pending: { request: LinkRequest; settle: (outcome: Link | CoveyError) => void }[] = [];
  const closed: number[] = [];
  const lost = new Map<number, (reason: CoveyError) => void>();
  return {
    pending,
    closed,
    lost,
    openLink: (request: LinkRequest) =>
      new Promise<Link>((resolve, reject) => {
        pending.push({
          request,
          settle: (outcome) => (outcome instanceof CoveyError ? reject(outcome) : resolve(outcome)),
        });
      }),
    link(port: number, index: number): Link {
      const { request } = pending[index] as (typeof pending)[number];
      return {
        stageEngineId: request.stageEngineId,
        port,
        observe: () => ({
          stageEngineId: request.stageEngineId,
          path: 'direct',
          connected: true,
          sentBytes: port,
          receivedBytes: 0,
          idleMs: null,
          lastSender: null,
          rttMs: 1,
          bytesPerS: null,
        }),
        onLost: (listener) => lost.set(port, listener),
        close: () => closed.push(port),
      };
    },
  };
}

const leader = llama({ stages: 2 });
const { engineId } = leader;

describe('link manager', () => {
  it('opens all links at once and reports their ports in stage order, their counters and their loss', async () => {
    const fake = transport();
    const events: AgentEvent[] = [];
    const manager = createLinkManager(fake, (event) => events.push(event));
    manager.open(engineId, leader.stages);
    expect(fake.pending.map(({ request }) => request.stageEngineId)).toEqual(
      leader.stages.map((stage) => stage.engineId),
    );
    fake.pending[1]?.settle(fake.link(5002, 1));
    fake.pending[0]?.settle(fake.link(5001, 0));
    await vi.waitFor(() => expect(events).toEqual([{ type: 'links_opened', engineId, ports: [5001, 5002] }]));
    await vi.waitFor(() => expect(events.at(-1)).toMatchObject({ type: 'links_observed', engineId }), {
      timeout: 3_000,
    });
    fake.lost.get(5002)?.(new CoveyError('stage_lost', 'silent'));
    expect(events.at(-1)).toMatchObject({ type: 'link_lost', stageEngineId: leader.stages[1]?.engineId });
    const heard = events.length;
    manager.close(engineId);
    expect(fake.closed).toEqual([5001, 5002]);
    fake.lost.get(5001)?.(new CoveyError('stage_lost', 'closed by us'));
    expect(events).toHaveLength(heard);
  });

  it('reports the first failure and closes the links that did open', async () => {
    const fake = transport();
    const events: AgentEvent[] = [];
    createLinkManager(fake, (event) => events.push(event)).open(engineId, leader.stages);
    fake.pending[1]?.settle(new CoveyError('stage_unreachable', 'machine-2 does not answer'));
    fake.pending[0]?.settle(fake.link(5001, 0));
    await vi.waitFor(() => expect(events).toHaveLength(1));
    expect(events[0]).toMatchObject({ type: 'links_failed', error: { code: 'stage_unreachable' } });
    expect(fake.closed).toEqual([5001]);
  });

  it('closed while opening says nothing and keeps nothing', async () => {
    const fake = transport();
    const events: AgentEvent[] = [];
    const manager = createLinkManager(fake, (event) => events.push(event));
    manager.open(engineId, leader.stages);
    manager.close(engineId);
    fake.pending[0]?.settle(fake.link(5001, 0));
    fake.pending[1]?.settle(new CoveyError('stage_unreachable', 'late'));
    await vi.waitFor(() => expect(fake.closed).toEqual([5001]));
    expect(events).toEqual([]);
  });
});
