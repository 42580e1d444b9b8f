import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { NodeId } from '#shared/lib/ids.ts';
import { controllerFrame, type ControllerFrame } from '#shared/protocol/session.ts';
import { silentLogger } from '../../nodejs/transport/fixtures.ts';
import { createRuntime, type Runtime } from '../runtime/runtime.ts';
import { defaultPolicy } from '../scheduler/policy.ts';
import {
  connected,
  deployment,
  deploymentId,
  joined,
  nodeId,
  observation,
  replica,
  telemetry,
} from '../state/fixtures.ts';
import { openDatabase } from '../state/sqlite/database.ts';
import { createStore } from '../state/sqlite/store.ts';
import { pushDesiredState, type DesiredState } from './desired.ts';

let directory: string;
let runtime: Runtime;
let desired: DesiredState;
let sent: Array<{ to: NodeId; frame: ControllerFrame }>;
let closeStore: () => void;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-desired-'));
  const store = createStore(openDatabase(join(directory, 'covey.db')));
  closeStore = () => store.close();
  runtime = createRuntime({
    store,
    clock: { now: () => 1_000 },
    policy: defaultPolicy,
    logger: silentLogger,
    running: () => new Map(),
  });
  sent = [];
  desired = pushDesiredState(
    runtime,
    (to, text) => void sent.push({ to, frame: controllerFrame.parse(JSON.parse(text)) }),
  );
});
afterEach(() => {
  desired.stop();
  closeStore();
  rmSync(directory, { recursive: true, force: true });
});

function typesTo(digit: string): string[] {
  return sent.filter(({ to }) => to === nodeId(digit)).map(({ frame }) => frame.type);
}

function memberNames(digit: string): string[] {
  const frame = sent.findLast(({ to, frame: { type } }) => to === nodeId(digit) && type === 'members')?.frame;
  return frame?.type === 'members' ? frame.members.map(({ name }) => name) : [];
}

describe('desired state of workers', () => {
  test('a new session gets the other members, then its assignments', () => {
    runtime.dispatch(joined('a', 'alpha'), joined('b', 'beta, {"nodeId":"'), joined('c', 'gamma'));
    for (const digit of ['a', 'b', 'c']) {
      runtime.dispatch(connected(digit));
      expect(typesTo(digit)).toEqual(['members', 'assignments']);
    }
    expect(memberNames('a')).toEqual(['beta, {"nodeId":"', 'gamma']);
    expect(memberNames('b')).toEqual(['alpha', 'gamma']);
    expect(memberNames('c')).toEqual(['alpha', 'beta, {"nodeId":"']);
  });

  test('heartbeats of one push nothing to anybody', () => {
    runtime.dispatch(joined('a', 'alpha'), joined('b', 'beta'), connected('a'), connected('b'));
    sent = [];
    runtime.dispatch({
      type: 'heartbeat-received',
      at: 2,
      nodeId: nodeId('a'),
      telemetry,
      problems: [],
      lend: null,
    });
    expect(sent).toEqual([]);
  });

  test('many joins become few lists, and the last one is complete', async () => {
    runtime.dispatch(joined('a', 'alpha'), connected('a'));
    await vi.waitFor(() => expect(typesTo('a')).toEqual(['members', 'assignments']));
    sent = [];
    for (let number = 0; number < 500; number += 1) {
      runtime.dispatch({
        type: 'node-joined',
        at: 2,
        nodeId: number.toString(16).padStart(64, '0') as NodeId,
        name: `n${number}`,
      });
    }
    await vi.waitFor(() => expect(memberNames('a')).toHaveLength(500), 3_000);
    expect(typesTo('a').length).toBeLessThan(4);
  });

  test('a renamed machine is told its own name, and the others its new one', async () => {
    runtime.dispatch(joined('a', 'alpha'), joined('b', 'beta'), connected('a'), connected('b'));
    sent = [];
    runtime.dispatch({ type: 'node-renamed', at: 2, nodeId: nodeId('b'), name: 'Küche "2"' });
    await vi.waitFor(() => expect(sent).toHaveLength(2), 3_000);
    const told = new Map(sent.map(({ to, frame }) => [to, frame]));
    expect(told.get(nodeId('b'))).toMatchObject({ name: 'Küche "2"', members: [{ name: 'alpha' }] });
    expect(told.get(nodeId('a'))).toMatchObject({ name: 'alpha', members: [{ name: 'Küche "2"' }] });
  });

  test('who is assigned something knows the members as they are now, not as of the next round', () => {
    runtime.dispatch(joined('a', 'alpha'), connected('a'));
    sent = [];
    runtime.dispatch(joined('b', 'beta'));
    runtime.dispatch(
      {
        type: 'deployment-created',
        at: 1,
        deployment: deployment({ nextAttemptAt: Number.MAX_SAFE_INTEGER }),
      },
      { type: 'replica-placed', at: 1, deploymentId, replica: { ...replica(), stages: [] } },
    );
    expect(typesTo('a')).toEqual(['members', 'assignments']);
    expect(memberNames('a')).toEqual(['beta']);
  });

  test('a replica that goes takes its assignment with it; a closed session gets nothing', () => {
    runtime.dispatch(joined('a', 'alpha'), connected('a'));
    runtime.dispatch(
      {
        type: 'deployment-created',
        at: 1,
        deployment: deployment({ nextAttemptAt: Number.MAX_SAFE_INTEGER }),
      },
      { type: 'replica-placed', at: 1, deploymentId, replica: { ...replica(), stages: [] } },
    );
    sent = [];
    runtime.dispatch({
      type: 'engines-observed',
      at: 3,
      nodeId: nodeId('a'),
      engines: [observation(1, 0)],
    });
    runtime.dispatch({ type: 'unload-requested', at: 4, deploymentId });
    const last = sent.at(-1)?.frame;
    expect(last).toMatchObject({ type: 'assignments', engines: [], keep: [] });
    desired.closed(nodeId('a'));
    sent = [];
    runtime.dispatch({ type: 'engines-observed', at: 5, nodeId: nodeId('a'), engines: [] });
    expect(sent).toEqual([]);
  });
});
