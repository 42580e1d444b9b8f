import { describe, expect, test } from 'vitest';
import type { DeploymentId } from '#shared/lib/ids.ts';
import type { EngineObservation } from '#shared/domain/engine.ts';
import { apply } from '../state/apply.ts';
import type { ControllerEvent } from '../state/events.ts';
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
import { deploymentStatus, nodeStatus } from '../state/selectors.ts';
import { emptyState, type ControllerState } from '../state/state.ts';
import { assignmentsFor } from './assignments.ts';
import { plan } from './plan.ts';
import { defaultPolicy } from './policy.ts';

/** Two connected nodes and a replica over both; what follows is applied until nothing does. */
class World {
  state: ControllerState = emptyState(0);
  now = 0;
  running = new Map<DeploymentId, number>();
  history: ControllerEvent[] = [];

  constructor(...events: ControllerEvent[]) {
    this.record(...events);
  }

  record(...events: ControllerEvent[]): this {
    for (const event of events) {
      this.now = Math.max(this.now, event.at);
      this.state = apply(this.state, event);
    }
    return this.settle();
  }

  settle(): this {
    for (let round = 0; round < 20; round += 1) {
      const follows = plan(this.state, {
        now: this.now,
        listenedUntil: this.now,
        policy: defaultPolicy,
        jobs: 'time',
        running: this.running,
      });
      if (follows.length === 0) return this;
      for (const event of follows) {
        this.history.push(event);
        this.state = apply(this.state, event);
      }
    }
    throw new Error(
      `does not settle: ${this.history
        .slice(-4)
        .map((event) => event.type)
        .join(' ')}`,
    );
  }

  /** Time passes while both nodes go on to send heartbeats. */
  wait(ms: number, ...beating: string[]): this {
    for (const end = this.now + ms; this.now < end;) {
      this.now = Math.min(end, this.now + 1_000);
      for (const digit of beating) {
        const event = {
          type: 'heartbeat-received',
          at: this.now,
          nodeId: nodeId(digit),
          telemetry,
          problems: [],
          lend: null,
        } as const;
        this.state = apply(this.state, event);
      }
      this.settle();
    }
    return this;
  }

  observe(digit: string, ...engines: EngineObservation[]): this {
    return this.record({ type: 'engines-observed', at: this.now, nodeId: nodeId(digit), engines });
  }

  get deployment() {
    return this.state.deployments.get(deploymentId);
  }

  get last() {
    return this.history.at(-1);
  }
}

function placed(): World {
  return new World(
    joined('a', 'alpha'),
    joined('b', 'beta'),
    connected('a'),
    connected('b', { session: 2 }),
    { type: 'deployment-created', at: 0, deployment: deployment({ nextAttemptAt: 1e9 }) },
    { type: 'replica-placed', at: 0, deploymentId, replica: replica() },
  );
}

function ready(): World {
  return placed().observe('b', observation(1, 1)).observe('a', observation(1, 0));
}

describe('a replica comes up', () => {
  test('stages are assigned first, the leader with their grants when all are ready', () => {
    const world = placed();
    expect(assignmentsFor(world.state, nodeId('b')).engines).toMatchObject([
      { kind: 'rpc', device: 'CPU', clientNodeId: nodeId('a') },
    ]);
    expect(assignmentsFor(world.state, nodeId('a'))).toEqual({ engines: [], keep: [] });
    world.observe('b', observation(1, 1, { phase: 'starting', endpoint: null }));
    expect(assignmentsFor(world.state, nodeId('a')).engines).toEqual([]);
    world.observe('b', observation(1, 1));
    expect(world.last?.type).toBe('leader-assigned');
    expect(assignmentsFor(world.state, nodeId('a')).engines).toMatchObject([
      { kind: 'llama', modelPath: '/m/tiny.gguf', stages: [{ grant: 'f'.repeat(64), layers: 3 }] },
    ]);
  });

  test('ready when the leader is', () => {
    const world = ready();
    expect(world.deployment?.phase).toBe('ready');
    expect(deploymentStatus(world.state, world.deployment!)).toBe('ready');
    expect(nodeStatus(world.state, world.state.nodes.get(nodeId('b'))!)).toBe('busy');
  });

  test('a stage that does not start in time fails the load by name, without another try', () => {
    const world = placed().wait(61_000, 'a', 'b');
    expect(world.deployment).toMatchObject({
      phase: 'failed',
      reason: { code: 'engine_timeout', message: expect.stringContaining('beta') },
    });
  });

  test("a load that the engine itself gives up is failed with the engine's reason", () => {
    const world = placed().observe('b', observation(1, 1));
    world.observe(
      'a',
      observation(1, 0, { phase: 'failed', error: { code: 'engine_out_of_memory', message: 'no room' } }),
    );
    expect(world.deployment).toMatchObject({
      phase: 'failed',
      replica: null,
      reason: { code: 'engine_out_of_memory' },
    });
    expect(assignmentsFor(world.state, nodeId('b'))).toEqual({ engines: [], keep: [] });
  });
});

describe('loss', () => {
  test('a lost stage interrupts, and the cause at the stage is named before its consequence at the leader', () => {
    const world = ready();
    world.state = apply(world.state, {
      type: 'engines-observed',
      at: world.now,
      nodeId: nodeId('a'),
      engines: [
        observation(1, 0, { phase: 'failed', error: { code: 'stage_lost', message: 'beta went silent' } }),
      ],
    });
    world.observe(
      'b',
      observation(1, 1, { phase: 'failed', error: { code: 'engine_crashed', message: 'killed by SIGKILL' } }),
    );
    expect(world.deployment?.reason).toMatchObject({ code: 'engine_crashed', message: 'killed by SIGKILL' });
    expect(world.deployment?.phase).toBe('waiting');
    expect(world.deployment?.nextAttemptAt).toBe(world.now + 500);
  });

  test('silence makes a node lost and its replica fail; another boot of the worker does too', () => {
    const silent = ready().wait(15_000, 'a');
    expect(silent.state.nodes.get(nodeId('b'))?.live.lost).toBe(true);
    expect(silent.deployment?.failures[0]?.error.code).toBe('node_lost');

    const restarted = ready().record(connected('b', { at: 1, session: 3, boot: 'c' }));
    expect(restarted.deployment?.failures[0]?.error).toMatchObject({
      code: 'worker_restarted',
      message: expect.stringContaining('beta'),
    });
  });

  test('a session that drops and comes back with its engines changes nothing', () => {
    const world = ready();
    world.record({ type: 'session-closed', at: 1, nodeId: nodeId('a'), sessionId: 1, goodbye: false });
    expect(deploymentStatus(world.state, world.deployment!)).toBe('recovering');
    world.record(connected('a', { at: 2, session: 4, engines: [observation(1, 0)] }));
    expect(deploymentStatus(world.state, world.deployment!)).toBe('ready');
    expect(world.deployment?.epoch).toBe(1);
  });

  test('a restarted controller finds the leader serving and keeps it without repeating its assignment', () => {
    const before = ready();
    const nodes = new Map(
      [...before.state.nodes].map(([id, node]) => [
        id,
        { durable: node.durable, live: { ...node.live, session: null, engines: new Map(), heardAt: 10 } },
      ]),
    );
    const world = new World();
    world.now = 10;
    world.state = { ...before.state, startedAt: 10, nodes };
    world.settle();
    expect(deploymentStatus(world.state, world.deployment!)).toBe('recovering');
    world.record(connected('a', { at: 11, session: 9, engines: [observation(1, 0)] }));
    expect(assignmentsFor(world.state, nodeId('a'))).toMatchObject({ engines: [], keep: ['d-00000001.1.0'] });
    expect(deploymentStatus(world.state, world.deployment!)).toBe('ready');
  });

  test('a machine that said goodbye interrupts the model, which counts as no failure', () => {
    const world = ready();
    world.record({ type: 'session-closed', at: 1, nodeId: nodeId('b'), sessionId: 2, goodbye: true });
    expect(world.history.find((event) => event.type === 'replica-failed')).toMatchObject({
      error: { code: 'node_lost', message: 'beta stopped lending.' },
      left: true,
      nextAttemptAt: expect.any(Number),
    });
    expect(world.deployment?.failures).toEqual([]);
  });

  test('the leader gone without a trace is a loss', () => {
    const world = ready().observe('a');
    expect(world.deployment?.failures[0]?.error.code).toBe('engine_crashed');
  });

  test('three losses in ten minutes need a person or other nodes', () => {
    const world = placed();
    for (const epoch of [1, 2, 3]) {
      if (epoch > 1) {
        world.observe('a').observe('b');
        world.record({
          type: 'replica-placed',
          at: world.now,
          deploymentId,
          replica: replica(epoch, world.now),
        });
      }
      world.observe('b', observation(epoch, 1)).observe('a', observation(epoch, 0));
      world.observe(
        'b',
        observation(epoch, 1, { phase: 'failed', error: { code: 'engine_crashed', message: 'again' } }),
      );
    }
    expect(world.deployment?.phase).toBe('failed');
    world.observe('a').observe('b').wait(20_000, 'a', 'b');
    expect(world.deployment?.phase).toBe('failed');
    world.record(joined('c', 'gamma', world.now), connected('c', { at: world.now, session: 7 }));
    expect(
      world.history.some((event) => event.type === 'retry-requested' && event.cause === 'nodes-changed'),
    ).toBe(true);
    expect(world.deployment?.phase).not.toBe('failed');
  });

  test('reports of an earlier epoch change nothing', () => {
    const world = ready();
    const late = apply(world.state, {
      type: 'replica-failed',
      at: 5,
      deploymentId,
      epoch: 0,
      error: { code: 'engine_crashed', message: 'late' },
      nextAttemptAt: null,
      failedWith: [],
    });
    expect(late).toBe(world.state);
  });
});

describe('stall', () => {
  const link = {
    stageEngineId: observation(1, 1).engineId,
    path: 'direct',
    connected: true,
    sentBytes: 1,
    receivedBytes: 1,
    idleMs: 11_000,
    lastSender: 'leader',
    rttMs: 1,
    bytesPerS: null,
  } as const;
  const busyLeader = observation(1, 0, { busySlots: 1, links: [link] });

  test('a stopped stage that owes the answer is a loss', () => {
    const world = ready().observe('b', observation(1, 1, { suspended: true }));
    world.observe('a', busyLeader);
    expect(world.deployment?.failures[0]?.error).toMatchObject({
      code: 'engine_stalled',
      message: expect.stringContaining('beta'),
    });
  });

  test('an engine that does not answer the slot query counts as busy when a client waits', () => {
    const world = ready().observe('b', observation(1, 1, { suspended: true }));
    world.observe('a', { ...busyLeader, busySlots: null });
    expect(world.deployment?.phase).toBe('ready');
    world.running.set(deploymentId, 1);
    world.settle();
    expect(world.deployment?.failures[0]?.error.code).toBe('engine_stalled');
  });

  test('a long prefill that uses CPU is not', () => {
    const world = ready();
    for (let second = 1; second <= 20; second += 1) {
      world.now += 1_000;
      world.observe('b', observation(1, 1, { cpuMs: second * 900 })).observe('a', busyLeader);
    }
    expect(world.deployment?.phase).toBe('ready');
    // It stops computing: ten seconds later it is stuck.
    for (let second = 1; second <= 11; second += 1) {
      world.now += 1_000;
      world.observe('b', observation(1, 1, { cpuMs: 18_000 })).observe('a', busyLeader);
    }
    expect(world.deployment?.failures[0]?.error.code).toBe('engine_stalled');
  });

  test('an idle model is not stuck, however long nothing moves', () => {
    const world = ready()
      .observe('a', { ...busyLeader, busySlots: 0 })
      .wait(60_000, 'a', 'b');
    expect(world.deployment?.phase).toBe('ready');
  });
});

describe('giving way to the owner', () => {
  const heldBack = (digit: string, at: number, lending = false): ControllerEvent => ({
    type: 'heartbeat-received',
    at,
    nodeId: nodeId(digit),
    telemetry,
    problems: [],
    lend: { lending, since: at, heldBackBy: [], unavailable: [] },
  });

  test('an idle model is taken off at once and loads elsewhere', () => {
    const world = ready().record(heldBack('b', 1));
    expect(world.deployment).toMatchObject({
      phase: 'waiting',
      replica: null,
      reason: { code: 'node_gave_way', message: 'beta gives way to its owner.' },
      failures: [],
    });
    world.observe('a').observe('b');
    expect(world.deployment).toMatchObject({ phase: 'loading', replica: { stages: [] } });
  });

  test('running requests have 30 s, counted from the first beat that said so', () => {
    const world = ready();
    world.running.set(deploymentId, 1);
    world.record(heldBack('b', 1_000));
    expect(world.deployment).toMatchObject({ phase: 'draining', reason: { code: 'node_gave_way' } });
    for (const at of [11_000, 21_000]) world.wait(10_000, 'a').record(heldBack('b', at));
    world.wait(9_000, 'a');
    expect(world.deployment?.phase).toBe('draining');
    world.wait(1_000, 'a');
    expect(world.deployment).toMatchObject({ replica: null, failures: [] });
  });

  test('a machine that is lent for other work only has its models taken off', () => {
    const beat = heldBack('b', 1, true);
    if (beat.type !== 'heartbeat-received' || !beat.lend) throw new Error('no beat');
    const world = ready().record({ ...beat, lend: { ...beat.lend, noModels: true } });
    expect(world.deployment).toMatchObject({ replica: null, reason: { code: 'node_gave_way' } });
    world.observe('a').observe('b');
    expect(world.deployment).toMatchObject({ phase: 'loading', replica: { stages: [] } });
    expect(world.state.nodes.get(nodeId('b'))?.live).toMatchObject({ heldBackSince: null, clearedAt: null });
  });

  test('is over when nothing is left there', () => {
    const world = ready().record(heldBack('b', 1_000));
    const clearedAt = (): number | null | undefined => world.state.nodes.get(nodeId('b'))?.live.clearedAt;
    expect(clearedAt()).toBeNull();
    world.wait(3_000, 'a').observe('b');
    expect(clearedAt()).toBe(world.now);
    world.record(heldBack('b', world.now + 1), heldBack('b', world.now + 2, true));
    expect(clearedAt()).toBeNull();
  });

  test('is taken back when the machine is lent again in time', () => {
    const world = ready();
    world.running.set(deploymentId, 1);
    world.record(heldBack('a', 1), heldBack('a', 2, true));
    expect(world.deployment).toMatchObject({ phase: 'ready', reason: null });
  });

  test('an engine that gave way before the controller said so is no failure', () => {
    const world = ready();
    world.running.set(deploymentId, 1);
    world.observe(
      'b',
      observation(1, 1, { phase: 'failed', error: { code: 'node_gave_way', message: 'Somebody came.' } }),
    );
    expect(world.deployment).toMatchObject({
      replica: null,
      reason: { code: 'node_gave_way' },
      failures: [],
    });
  });

  test('a pause keeps what runs', () => {
    const world = ready().record({ type: 'node-paused', at: 1, nodeId: nodeId('b') });
    expect(world.deployment?.phase).toBe('ready');
    expect(nodeStatus(world.state, world.state.nodes.get(nodeId('b')) as never)).toBe('paused');
  });
});

describe('unload and drain', () => {
  test('an unloaded deployment is gone once its engines are', () => {
    const world = ready().record({ type: 'unload-requested', at: 1, deploymentId });
    expect(assignmentsFor(world.state, nodeId('a'))).toEqual({ engines: [], keep: [] });
    expect(world.deployment?.phase).toBe('unloading');
    world.observe('a');
    expect(world.deployment).toBeDefined();
    world.observe('b');
    expect(world.deployment).toBeUndefined();
  });

  const drain = (deadlineAt: number): ControllerEvent => ({
    type: 'drain-started',
    at: 1,
    nodeId: nodeId('b'),
    drain: { startedAt: 1, deadlineAt, completedAt: null },
  });

  test('what runs is finished, then the node is emptied and stays out of new plans', () => {
    const world = ready();
    world.running.set(deploymentId, 2);
    world.record(drain(60_000));
    expect(world.deployment?.phase).toBe('draining');
    world.running.delete(deploymentId);
    world.settle();
    expect(world.deployment).toMatchObject({ phase: 'waiting', replica: null, failures: [] });
    world.observe('a').observe('b');
    expect(world.state.nodes.get(nodeId('b'))?.durable.drain?.completedAt).toBe(world.now);
  });

  test('the deadline ends what still runs', () => {
    const world = ready();
    world.running.set(deploymentId, 2);
    world.record(drain(30_000)).wait(29_000, 'a', 'b');
    expect(world.deployment?.phase).toBe('draining');
    world.wait(2_000, 'a', 'b');
    expect(world.deployment?.replica).toBeNull();
  });

  test('resume in time takes the drain back', () => {
    const world = ready();
    world.running.set(deploymentId, 1);
    world.record(drain(60_000), { type: 'node-resumed', at: 2, nodeId: nodeId('b') });
    expect(world.deployment?.phase).toBe('ready');
  });

  test('an idle node is drained at once', () => {
    const world = new World(joined('b', 'beta'), connected('b'), drain(60_000));
    expect(world.state.nodes.get(nodeId('b'))?.durable.drain?.completedAt).toBe(1);
  });
});
