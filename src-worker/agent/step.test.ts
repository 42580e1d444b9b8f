import { describe, expect, it } from 'vitest';
import type { EngineId } from '#shared/lib/ids.ts';
import type { LlamaAssignment, RpcAssignment } from '#shared/domain/engine.ts';
import { engineObservationSchema } from '#shared/domain/engine.ts';
import { engineHostInit } from '#shared/host/engine-host.ts';
import type { AgentCommand, AgentEvent } from './events.ts';
import { observe } from './observe.ts';
import { step } from './step.ts';
import { initialAgentState, isQuiet } from './state.ts';
import { llama, rpc, testConfig } from './fixtures.ts';

/** Feeds events to the agent at a chosen time and keeps what it asked for. */
function agent() {
  let state = initialAgentState(testConfig);
  let secrets = 0;
  let now = 1_000_000;
  const all: AgentCommand[] = [];
  return {
    get state() {
      return state;
    },
    advance(ms: number) {
      now += ms;
    },
    /** Applies events in turn; returns the commands of all of them without `report`. */
    on(...events: AgentEvent[]): AgentCommand[] {
      const commands = events.flatMap((event) => {
        const result = step(state, event, {
          now,
          newSecret: () => (++secrets).toString(16).padStart(64, '0'),
        });
        state = result.state;
        return result.commands;
      });
      all.push(...commands);
      return commands.filter((command) => command.type !== 'report');
    },
    assign(generation: number, engines: (RpcAssignment | LlamaAssignment)[], keep: EngineId[] = []) {
      return this.on({ type: 'assignments', generation, engines, keep });
    },
    observed: () => observe(state),
    one: (engineId: EngineId) => observe(state).find((entry) => entry.engineId === engineId),
    all,
  };
}

const types = (commands: AgentCommand[]) => commands.map((command) => command.type);
const stage = rpc();
const id = stage.engineId;
const leader = llama({ stages: 2 });
const leaderId = leader.engineId;
const [firstStage, secondStage] = leader.stages as [
  LlamaAssignment['stages'][number],
  LlamaAssignment['stages'][number],
];

function readyStage() {
  const a = agent();
  a.on({ type: 'welcome', leaseMs: 900_000 });
  a.assign(1, [stage]);
  a.on(
    { type: 'host_listening', engineId: id, port: 4000, pid: 77 },
    { type: 'host_phase', engineId: id, phase: 'ready' },
  );
  return a;
}

function loadingLeader() {
  const a = agent();
  a.on({ type: 'welcome', leaseMs: 900_000 });
  a.assign(1, [leader]);
  a.on({ type: 'links_opened', engineId: leaderId, ports: [5001, 5002] });
  a.on({ type: 'host_phase', engineId: leaderId, phase: 'loading' });
  return a;
}

function readyLeader() {
  const a = loadingLeader();
  a.on(
    { type: 'host_listening', engineId: leaderId, port: 6000, pid: 88 },
    { type: 'host_phase', engineId: leaderId, phase: 'canary' },
    { type: 'host_canary', engineId: leaderId, firstToken: 5, firstMargin: 2, recorded: null },
    { type: 'host_phase', engineId: leaderId, phase: 'ready' },
  );
  return a;
}

describe('a stage', () => {
  it('is started once, with threads for this machine, and granted to its client when it answers', () => {
    const a = agent();
    a.on({ type: 'welcome', leaseMs: 900_000 });
    const started = a.assign(1, [stage]);
    expect(started).toEqual([
      {
        type: 'startEngine',
        assignment: stage,
        program: { kind: 'rpc', device: 'CPU', threads: 3, startMs: 60_000 },
      },
    ]);
    expect(a.one(id)).toMatchObject({ phase: 'starting', endpoint: null });
    const granted = a.on(
      { type: 'host_listening', engineId: id, port: 4000, pid: 77 },
      { type: 'host_phase', engineId: id, phase: 'ready' },
    );
    expect(granted).toMatchObject([
      { type: 'addGrant', engineId: id, port: 4000, peers: [stage.clientNodeId], alpn: 'tunnel' },
    ]);
    const observed = a.one(id);
    expect(observed).toMatchObject({ phase: 'ready', pid: 77 });
    expect(observed?.endpoint).toEqual({
      port: 4000,
      grant: (granted[0] as Extract<AgentCommand, { type: 'addGrant' }>).token,
      apiKey: null,
    });
    expect(engineObservationSchema.parse(observed)).toEqual(observed);
  });

  it('is not started again by a repeated, re-sent or outdated assignment', () => {
    const a = readyStage();
    expect(a.assign(1, [stage])).toEqual([]);
    expect(a.assign(2, [stage])).toEqual([]);
    a.on({ type: 'session_lost' }, { type: 'welcome', leaseMs: 900_000 });
    expect(a.assign(1, [stage])).toEqual([]);
  });

  it('that died is failed, loses its grant, stays visible while named and is never started again', () => {
    const a = readyStage();
    const error = { code: 'engine_crashed', message: 'killed by SIGKILL' } as const;
    expect(types(a.on({ type: 'host_exit', engineId: id, error }))).toEqual(['removeGrants']);
    expect(a.one(id)).toMatchObject({ phase: 'failed', error, endpoint: null });
    expect(a.assign(2, [stage])).toEqual([]);
    expect(a.one(id)).toMatchObject({ phase: 'failed' });
    expect(a.assign(3, [])).toEqual([]);
    expect(a.observed()).toEqual([]);
    expect(a.assign(4, [stage])).toEqual([]);
    expect(a.one(id)).toMatchObject({ phase: 'failed', error: { code: 'engine_start_failed' } });
  });

  it('that is no longer named is stopped with grace and gone once its host has ended', () => {
    const a = readyStage();
    expect(a.assign(2, [])).toEqual([
      { type: 'removeGrants', engineId: id },
      { type: 'stopEngine', engineId: id, graceMs: testConfig.stopGraceMs },
    ]);
    expect(a.one(id)).toMatchObject({ phase: 'stopping', endpoint: null });
    a.on({ type: 'host_phase', engineId: id, phase: 'ready' });
    expect(a.one(id)).toMatchObject({ phase: 'stopping' });
    a.on({ type: 'host_exit', engineId: id, error: null });
    expect(a.observed()).toEqual([]);
  });

  it('goes on when a restarted controller only keeps it, and is not started when it does not run', () => {
    const a = readyStage();
    a.on({ type: 'session_lost' }, { type: 'welcome', leaseMs: 900_000 });
    const other = rpc({ deploymentId: 'd-00000009' });
    expect(a.assign(1, [], [id, other.engineId])).toEqual([]);
    expect(a.observed().map((entry) => entry.engineId)).toEqual([id]);
    expect(a.one(id)).toMatchObject({ phase: 'ready' });
  });

  it('of a new epoch waits until the old one has let go of its memory', () => {
    const a = readyStage();
    const next = rpc({ epoch: 2 });
    expect(types(a.assign(2, [next]))).toEqual(['removeGrants', 'stopEngine']);
    expect(a.one(next.engineId)).toMatchObject({ phase: 'starting' });
    expect(types(a.on({ type: 'host_exit', engineId: id, error: null }))).toEqual(['startEngine']);
    expect(a.observed().map((entry) => entry.engineId)).toEqual([next.engineId]);
    expect(a.assign(3, [stage, next])).toEqual([]);
    expect(a.one(id)).toMatchObject({ phase: 'failed', error: { code: 'engine_start_failed' } });
  });
});

describe('a leader', () => {
  it('opens its links, then starts its host against them in stage order', () => {
    const a = agent();
    a.on({ type: 'welcome', leaseMs: 900_000 });
    expect(a.assign(1, [leader])).toEqual([{ type: 'openLinks', engineId: leaderId, stages: leader.stages }]);
    expect(a.one(leaderId)).toMatchObject({ phase: 'connecting' });
    const [start, ...rest] = a.on({ type: 'links_opened', engineId: leaderId, ports: [5001, 5002] });
    expect(rest).toEqual([]);
    expect(start).toMatchObject({
      type: 'startEngine',
      program: { kind: 'llama', rpcEndpoints: ['127.0.0.1:5001', '127.0.0.1:5002'], threads: 1, poll: 0 },
    });
    const { program } = start as Extract<AgentCommand, { type: 'startEngine' }>;
    expect(() => engineHostInit.shape.program.parse(program)).not.toThrow();
  });

  it('without stages starts at once', () => {
    const a = agent();
    a.on({ type: 'welcome', leaseMs: 900_000 });
    const [start] = a.assign(1, [llama({ stages: 0, cpuLayers: 17, modelBytes: 10 * 1024 ** 3 })]);
    expect(start).toMatchObject({ type: 'startEngine', program: { rpcEndpoints: [], threads: 4, poll: 50 } });
  });

  it('is granted to the controller, with its API key, once the canary has passed', () => {
    const a = readyLeader();
    expect(a.all.filter((command) => command.type === 'addGrant')).toMatchObject([
      { engineId: leaderId, port: 6000, peers: [testConfig.controllerId], alpn: 'http' },
    ]);
    expect(a.all.filter((command) => command.type === 'recordCanary')).toEqual([
      { type: 'recordCanary', modelHash: leader.modelHash, record: { token: 5, margin: 2 } },
    ]);
    const endpoint = a.one(leaderId)?.endpoint;
    const start = a.all.find((command) => command.type === 'startEngine');
    expect(endpoint?.apiKey).toBe(start?.program.kind === 'llama' ? start.program.apiKey : '');
    expect(endpoint?.grant).not.toBe(endpoint?.apiKey);
    expect(engineObservationSchema.parse(a.one(leaderId))).toEqual(a.one(leaderId));
  });

  it.each([
    ['another token although both were certain', { token: 9, margin: 2 }, 2, 'failed'],
    ['the same token', { token: 5, margin: 2 }, 2, 'ready'],
    ['another token after a narrow answer before', { token: 9, margin: 0.1 }, 2, 'ready'],
    ['another token by a narrow answer now', { token: 9, margin: 2 }, 0.1, 'ready'],
  ])('compares the canary: %s', (_case, recorded, firstMargin, phase) => {
    const a = loadingLeader();
    a.on(
      { type: 'host_listening', engineId: leaderId, port: 6000, pid: 88 },
      { type: 'host_phase', engineId: leaderId, phase: 'canary' },
      { type: 'host_canary', engineId: leaderId, firstToken: 5, firstMargin, recorded },
      { type: 'host_phase', engineId: leaderId, phase: 'ready' },
    );
    expect(a.one(leaderId)).toMatchObject({ phase });
    if (phase === 'failed') {
      expect(a.one(leaderId)).toMatchObject({ error: { code: 'canary_failed' }, endpoint: null });
      expect(types(a.all)).toContain('closeLinks');
      expect(types(a.all)).not.toContain('addGrant');
    }
  });

  it('whose link cannot be opened fails with that reason and starts nothing', () => {
    const a = agent();
    a.on({ type: 'welcome', leaseMs: 900_000 });
    a.assign(1, [leader]);
    const error = { code: 'stage_unreachable', message: 'beta does not answer' } as const;
    expect(a.on({ type: 'links_failed', engineId: leaderId, error })).toEqual([
      { type: 'closeLinks', engineId: leaderId },
    ]);
    expect(a.one(leaderId)).toMatchObject({ phase: 'failed', error });
    expect(a.on({ type: 'links_opened', engineId: leaderId, ports: [1, 2] })).toEqual([]);
  });

  it('is killed at once when a link is lost, and says whose', () => {
    const a = readyLeader();
    const commands = a.on({
      type: 'link_lost',
      engineId: leaderId,
      stageEngineId: secondStage.engineId,
      error: { code: 'stage_lost', message: 'silent for 5 s' },
    });
    expect(commands).toEqual([
      { type: 'removeGrants', engineId: leaderId },
      { type: 'stopEngine', engineId: leaderId, graceMs: 0 },
      { type: 'closeLinks', engineId: leaderId },
    ]);
    expect(a.one(leaderId)).toMatchObject({
      phase: 'failed',
      endpoint: null,
      error: { code: 'stage_lost', reasons: [{ nodeId: secondStage.nodeId }] },
    });
    expect(a.one(leaderId)?.error?.message).toContain(secondStage.nodeName);
    expect(isQuiet(a.state)).toBe(false);
    a.on({ type: 'host_exit', engineId: leaderId, error: { code: 'engine_crashed', message: 'aborted' } });
    expect(a.one(leaderId)).toMatchObject({ phase: 'failed', error: { code: 'stage_lost' } });
    expect(isQuiet(a.state)).toBe(true);
  });

  it('that aborts leaves ready at once and prefers the link that speaks within the second', () => {
    const a = readyLeader();
    const error = { code: 'engine_crashed', message: 'killed by SIGABRT' } as const;
    expect(types(a.on({ type: 'host_exit', engineId: leaderId, error }))).toEqual(['removeGrants']);
    expect(a.one(leaderId)).toMatchObject({ phase: 'stopping', endpoint: null, error: null });
    a.advance(500);
    a.on({ type: 'tick' });
    expect(a.one(leaderId)).toMatchObject({ phase: 'stopping' });
    a.on({
      type: 'link_lost',
      engineId: leaderId,
      stageEngineId: firstStage.engineId,
      error: { code: 'stage_lost', message: 'the stage closed the tunnel' },
    });
    expect(a.one(leaderId)).toMatchObject({ phase: 'failed', error: { code: 'stage_lost' } });
    expect(a.one(leaderId)?.error?.message).toContain(firstStage.nodeName);
  });

  it('that aborts with every link alive has crashed by itself', () => {
    const a = readyLeader();
    a.on({ type: 'host_exit', engineId: leaderId, error: { code: 'engine_crashed', message: 'SIGSEGV' } });
    a.advance(testConfig.evidenceMs);
    expect(types(a.on({ type: 'tick' }))).toEqual(['closeLinks']);
    expect(a.one(leaderId)).toMatchObject({
      phase: 'failed',
      error: { code: 'engine_crashed', message: 'SIGSEGV' },
    });
  });

  it('names its only stage when its engine says that a stage broke off but no link does', () => {
    const a = agent();
    const single = llama({ stages: 1 });
    a.on({ type: 'welcome', leaseMs: 900_000 });
    a.assign(1, [single]);
    a.on(
      { type: 'links_opened', engineId: single.engineId, ports: [5001] },
      {
        type: 'host_exit',
        engineId: single.engineId,
        error: { code: 'stage_lost', message: 'the stage broke off' },
      },
    );
    a.advance(testConfig.evidenceMs);
    a.on({ type: 'tick' });
    expect(a.one(single.engineId)?.error).toMatchObject({ code: 'stage_lost' });
    expect(a.one(single.engineId)?.error?.message).toContain(single.stages[0]?.nodeName ?? 'missing');
  });

  it('reports a load failure as the engine gave it, in the names of machines, without waiting', () => {
    const a = loadingLeader();
    const error = {
      code: 'engine_out_of_memory',
      message: 'failed to allocate RPC1[127.0.0.1:4001] buffer',
    } as const;
    expect(types(a.on({ type: 'host_exit', engineId: leaderId, error }))).toEqual(['closeLinks']);
    expect(a.one(leaderId)).toMatchObject({
      phase: 'failed',
      error: { code: 'engine_out_of_memory', message: 'failed to allocate machine-2 buffer' },
    });
  });

  it('unloaded while it connects ends without a host; links that open later start nothing', () => {
    const a = agent();
    a.on({ type: 'welcome', leaseMs: 900_000 });
    a.assign(1, [leader]);
    expect(a.assign(2, [])).toEqual([{ type: 'closeLinks', engineId: leaderId }]);
    expect(a.observed()).toEqual([]);
    expect(a.on({ type: 'links_opened', engineId: leaderId, ports: [1, 2] })).toEqual([]);
  });

  it('unloaded while it loads keeps its links until the engine has let go of its stages', () => {
    const a = loadingLeader();
    expect(types(a.assign(2, []))).toEqual(['stopEngine']);
    a.on({
      type: 'link_lost',
      engineId: leaderId,
      stageEngineId: firstStage.engineId,
      error: { code: 'stage_lost', message: 'its stage was unloaded too' },
    });
    expect(a.one(leaderId)).toMatchObject({ phase: 'stopping', error: null });
    expect(types(a.on({ type: 'host_exit', engineId: leaderId, error: null }))).toEqual(['closeLinks']);
    expect(a.observed()).toEqual([]);
  });

  it('shares the cores with what already runs here and does not spin beside it', () => {
    const a = readyStage();
    const [start] = a.assign(2, [
      stage,
      llama({ deploymentId: 'd-00000002', stages: 0, cpuLayers: 17, modelBytes: 10 * 1024 ** 3 }),
    ]);
    expect(start).toMatchObject({ type: 'startEngine', program: { threads: 2, poll: 0 } });
  });
});

describe('the lease', () => {
  it('ends everything when no ack came for its length, counted from the last one', () => {
    const a = readyStage();
    a.advance(60_000);
    a.on({ type: 'ack' }, { type: 'session_lost' });
    a.advance(899_999);
    expect(a.on({ type: 'tick' })).toEqual([]);
    a.advance(1);
    expect(types(a.on({ type: 'tick' }))).toEqual(['removeGrants', 'stopEngine']);
    expect(a.on({ type: 'tick' })).toEqual([]);
    a.on({ type: 'host_exit', engineId: id, error: null });
    expect(a.one(id)).toMatchObject({ phase: 'stopped', error: { code: 'lease_expired' } });
    a.on({ type: 'welcome', leaseMs: 900_000 });
    expect(a.assign(1, [stage])).toEqual([]);
    expect(a.one(id)).toMatchObject({ phase: 'stopped' });
  });

  it('does not end anything while a session lives', () => {
    const a = readyStage();
    a.advance(10_000_000);
    expect(a.on({ type: 'tick' })).toEqual([]);
  });
});

describe('shutdown', () => {
  it('stops what runs, starts nothing more, and is quiet once the hosts have ended', () => {
    const a = readyLeader();
    const waiting = rpc({ deploymentId: 'd-00000002' });
    a.assign(2, [leader, waiting]);
    expect(types(a.on({ type: 'shutdown' }))).toEqual(['removeGrants', 'stopEngine', 'stopEngine']);
    expect(a.assign(3, [leader, rpc({ deploymentId: 'd-00000003' })])).toEqual([]);
    expect(isQuiet(a.state)).toBe(false);
    a.on({ type: 'host_exit', engineId: leaderId, error: null });
    a.on({ type: 'host_exit', engineId: waiting.engineId, error: null });
    expect(isQuiet(a.state)).toBe(true);
  });
});

it('beats and link counters show in the observation', () => {
  const a = readyLeader();
  const link = {
    stageEngineId: firstStage.engineId,
    path: 'direct',
    connected: true,
    sentBytes: 10,
    receivedBytes: 20,
    idleMs: 5,
    lastSender: 'leader',
    rttMs: 1,
    bytesPerS: null,
  } as const;
  a.on(
    {
      type: 'host_beat',
      engineId: leaderId,
      pid: 88,
      rssBytes: 123,
      cpuMs: 456,
      suspended: true,
      busySlots: 2,
    },
    { type: 'links_observed', engineId: leaderId, links: [link] },
  );
  expect(a.one(leaderId)).toMatchObject({
    rssBytes: 123,
    cpuMs: 456,
    suspended: true,
    busySlots: 2,
    links: [link],
  });
});
