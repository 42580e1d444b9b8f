import { beforeEach, describe, expect, it } from 'vitest';
import type { DialBack, RelayPass } from '#shared/host/transport.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { ControllerFrame } from '#shared/protocol/session.ts';
import { apply } from '../state/apply.ts';
import type { ControllerEvent } from '../state/events.ts';
import { connected, deployment, deploymentId, joined, nodeId, replica } from '../state/fixtures.ts';
import { emptyState, type ControllerState } from '../state/state.ts';
import { createDialBacks, type DialBacks } from './dial-backs.ts';

const self = nodeId('c');
const [leader, stage, other] = [nodeId('a'), nodeId('b'), nodeId('d')];
const controllerAddress = { host: '192.0.2.99', port: 7879 };

let now: number;
let state: ControllerState;
let sent: Array<{ to: NodeId; frame: ControllerFrame }>;
let passes: RelayPass[];
let noted: string[];
let backs: DialBacks;

function dispatch(...events: ControllerEvent[]): void {
  for (const event of events) {
    if (event.type === 'noted') noted.push(event.message);
    state = apply(state, event);
  }
}

function ask(peer: NodeId, route: DialBack['route'] = 'reverse', token = '7'.repeat(64)): DialBack {
  return { peer, route, token };
}

beforeEach(() => {
  now = 1_000_000;
  state = emptyState(0);
  sent = [];
  passes = [];
  noted = [];
  dispatch(joined('a', 'desk'), joined('b', 'laptop'), joined('d', 'attic'));
  dispatch(connected('a'), connected('b'), connected('d'));
  backs = createDialBacks({
    runtime: {
      get state() {
        return state;
      },
      dispatch,
    },
    sessions: { send: (to, frame) => (sent.push({ to, frame }), true) },
    transport: { allowRelay: (pass) => void passes.push(pass) },
    selfId: self,
    selfName: 'server',
    addresses: () => [controllerAddress],
    clock: { now: () => now },
  });
});

function place(): void {
  dispatch(
    { type: 'deployment-created', at: 0, deployment: deployment() },
    { type: 'replica-placed', at: 0, deploymentId, replica: replica() },
  );
}

describe('a leader', () => {
  beforeEach(place);

  it('is called back by the machine of its stage, at its own addresses', () => {
    backs.onDialRequest(leader, ask(stage));
    expect(sent).toEqual([
      {
        to: stage,
        frame: {
          type: 'dial-order',
          from: leader,
          fromName: 'desk',
          token: '7'.repeat(64),
          route: 'reverse',
          addresses: [
            { host: '192.0.2.97', port: 7879 },
            { host: '192.0.2.1', port: 7879 },
          ],
        },
      },
    ]);
    expect(passes).toEqual([]);
    expect(noted).toEqual([]);
  });

  it('meets it at the relay of the controller, with a pass for these two', () => {
    backs.onDialRequest(leader, ask(stage, 'relay'));
    expect(passes).toEqual([{ token: '7'.repeat(64), between: [leader, stage], ttlMs: 10_000 }]);
    expect(sent.map(({ to, frame }) => [to, frame.type === 'dial-order' && frame.addresses])).toEqual([
      [stage, [controllerAddress]],
    ]);
  });

  it('has business with its stages only, and only they with it through it', () => {
    for (const [from, to] of [
      [leader, other],
      [stage, leader],
      [other, stage],
      [leader, leader],
      [leader, nodeId('e')],
      [nodeId('e'), stage],
    ] as const) {
      backs.onDialRequest(from, ask(to));
      backs.onDialRequest(from, ask(to, 'relay'));
    }
    expect(sent).toEqual([]);
    expect(passes).toEqual([]);
    expect(noted[0]).toBe(
      'desk asked for a connection to attic and was refused: it leads no replica with a stage there.',
    );
  });

  it('loses the right with the replica', () => {
    dispatch({ type: 'deployment-removed', at: 0, deploymentId });
    backs.onDialRequest(leader, ask(stage));
    expect(sent).toEqual([]);
    expect(noted).toHaveLength(1);
  });

  it('may ask often, not without end, and its refusals do not fill the list', () => {
    for (let index = 0; index < 500; index += 1) backs.onDialRequest(leader, ask(stage));
    expect(sent.length).toBe(128);
    expect(noted).toHaveLength(5);
    expect(noted[0]).toContain('too often');
    now += 1_000;
    for (let index = 0; index < 500; index += 1) backs.onDialRequest(leader, ask(stage));
    expect(sent.length).toBe(128 + 16);
    expect(noted).toHaveLength(5);
  });
});

describe('a measurement', () => {
  it('that the controller ordered is a reason, one way and for its time', () => {
    backs.expectProbe(leader, other, 5_000);
    backs.onDialRequest(leader, ask(other));
    backs.onDialRequest(leader, ask(other, 'relay'));
    expect(sent.map(({ to }) => to)).toEqual([other, other]);
    backs.onDialRequest(other, ask(leader));
    now += 5_000;
    backs.onDialRequest(leader, ask(other));
    expect(sent).toHaveLength(2);
  });
});

describe('the controller itself', () => {
  it('is called back by any member, and never relayed', () => {
    backs.requestFromController(ask(stage));
    backs.requestFromController(ask(stage, 'relay'));
    backs.requestFromController(ask(nodeId('e')));
    expect(sent).toEqual([
      {
        to: stage,
        frame: {
          type: 'dial-order',
          from: self,
          fromName: 'server',
          token: '7'.repeat(64),
          route: 'reverse',
          addresses: [controllerAddress],
        },
      },
    ]);
  });
});
