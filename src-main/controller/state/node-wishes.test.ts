import { describe, expect, test } from 'vitest';
import type { LendState } from '#shared/domain/lend.ts';
import { apply } from './apply.ts';
import type { ControllerEvent } from './events.ts';
import { connected, joined, nodeId, telemetry } from './fixtures.ts';
import { idleReasons, ineligibleReasons, nodeStatus } from './selectors.ts';
import { emptyState, type ControllerState, type NodeRecord } from './state.ts';

const a = nodeId('a');
const lent: LendState = { lending: true, since: 5, heldBackBy: [], unavailable: [] };
const heldBack: LendState = {
  ...lent,
  lending: false,
  heldBackBy: [
    { rule: 'battery', message: 'It runs on battery.' },
    { rule: 'idle', message: 'Somebody uses it.' },
  ],
};

function after(...events: ControllerEvent[]): ControllerState {
  return events.reduce(apply, emptyState(0));
}
function node(state: ControllerState): NodeRecord {
  return state.nodes.get(a) as NodeRecord;
}
function beat(at: number, lend: LendState | null): ControllerEvent {
  return { type: 'heartbeat-received', at, nodeId: a, telemetry, problems: [], lend };
}

describe('a machine', () => {
  test('keeps its identity under another name', () => {
    const state = after(joined('a', 'alpha'), connected('a'), {
      type: 'node-renamed',
      at: 1,
      nodeId: a,
      name: 'attic',
    });
    expect(node(state).durable).toMatchObject({ id: a, name: 'attic', joinedAt: 0 });
    expect(node(state).live.session).not.toBeNull();
    expect(apply(state, { type: 'node-renamed', at: 1, nodeId: nodeId('x'), name: 'y' })).toBe(state);
  });

  test('that is paused takes nothing new until it is resumed, which ends a drain as well', () => {
    const paused = after(joined('a', 'alpha'), connected('a'), { type: 'node-paused', at: 7, nodeId: a });
    expect(node(paused).durable.pausedAt).toBe(7);
    expect([nodeStatus(paused, node(paused)), ineligibleReasons(node(paused))]).toEqual([
      'paused',
      ['is paused'],
    ]);
    const both = apply(paused, {
      type: 'drain-started',
      at: 8,
      nodeId: a,
      drain: { startedAt: 8, deadlineAt: 9, completedAt: null },
    });
    expect([nodeStatus(both, node(both)), ineligibleReasons(node(both))]).toEqual([
      'draining',
      ['is draining', 'is paused'],
    ]);
    const resumed = apply(both, { type: 'node-resumed', at: 9, nodeId: a });
    expect(node(resumed).durable).toMatchObject({ pausedAt: null, drain: null });
    expect(ineligibleReasons(node(resumed))).toEqual([]);
  });

  test('that its owner holds back says why, from the first word on', () => {
    const state = after(joined('a', 'alpha'), connected('a', { at: 3, lend: heldBack }));
    expect(nodeStatus(state, node(state))).toBe('paused');
    expect(ineligibleReasons(node(state))).toEqual([
      'is not lent now (It runs on battery; Somebody uses it)',
    ]);
    expect(node(state).live.heldBackSince).toBe(3);
  });

  test('is held back since the first beat that says so, also over a new session', () => {
    let state = after(joined('a', 'alpha'), connected('a', { lend: lent }), beat(2, lent), beat(4, heldBack));
    expect(node(state).live.heldBackSince).toBe(4);
    state = apply(state, beat(6, { ...heldBack, since: 99 }));
    expect(node(state).live.heldBackSince).toBe(4);
    state = apply(state, connected('a', { at: 8, session: 2, lend: heldBack }));
    expect(node(state).live.heldBackSince).toBe(4);
    state = apply(state, beat(9, lent));
    expect(node(state).live.heldBackSince).toBeNull();
    expect(nodeStatus(state, node(state))).toBe('ready');
  });

  test('whose owner lets no models run on it takes other work', () => {
    const noModels: LendState = { ...lent, noModels: true };
    let state = after(joined('a', 'alpha'), connected('a', { lend: lent }), beat(4, noModels));
    state = apply(state, beat(6, noModels));
    expect(nodeStatus(state, node(state))).toBe('ready');
    expect([ineligibleReasons(node(state)), idleReasons(node(state))]).toEqual([
      ['lets no models run on it'],
      [],
    ]);
    expect(node(state).live).toMatchObject({ heldBackSince: null, modelsHeldBackSince: 4 });
    state = apply(state, beat(8, heldBack));
    expect(node(state).live).toMatchObject({ heldBackSince: 8, modelsHeldBackSince: 4 });
    state = apply(state, beat(9, lent));
    expect(node(state).live).toMatchObject({ heldBackSince: null, modelsHeldBackSince: null });
    expect(ineligibleReasons(node(state))).toEqual([]);
  });

  test('of a version without rules is lent', () => {
    const state = after(joined('a', 'alpha'), connected('a'), beat(2, null));
    expect(ineligibleReasons(node(state))).toEqual([]);
  });
});
