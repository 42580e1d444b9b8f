import { beforeEach, describe, expect, test } from 'vitest';
import type { EngineAssignment } from '#shared/domain/engine.ts';
import type { EngineId } from '#shared/lib/ids.ts';
import type { AgentCommand, AgentEvent } from './events.ts';
import { llama, rpc, testConfig } from './fixtures.ts';
import { observe } from './observe.ts';
import { initialAgentState, type AgentState } from './state.ts';
import { step } from './step.ts';

const gb = 1024 ** 3;
let state: AgentState;
let now: number;
let commands: AgentCommand[];

beforeEach(() => {
  state = initialAgentState(testConfig);
  now = 1_000_000;
  commands = [];
  apply({ type: 'welcome', leaseMs: 900_000 });
});

function apply(event: AgentEvent, waitMs = 0): readonly AgentCommand[] {
  now += waitMs;
  const result = step(state, event, { now, newSecret: () => 'a'.repeat(64) });
  state = result.state;
  commands.push(...result.commands);
  return result.commands;
}
function lend(change: Partial<Extract<AgentEvent, { type: 'lend' }>>, waitMs = 0): readonly AgentCommand[] {
  return apply(
    { type: 'lend', lending: true, why: '', cpuThreads: null, ramBytes: null, vramBytes: {}, ...change },
    waitMs,
  );
}
const away = { lending: false, why: 'Somebody uses it.' } as const;
function beat(engineId: EngineId, pid: number, rssBytes: number): readonly AgentCommand[] {
  return apply({
    type: 'host_beat',
    engineId,
    pid,
    rssBytes,
    cpuMs: 1,
    suspended: false,
    busySlots: 0,
  });
}
let generation = 0;
function assign(...engines: EngineAssignment[]): readonly AgentCommand[] {
  return apply({ type: 'assignments', generation: ++generation, engines, keep: [] });
}
function makeReady(engineId: EngineId, pid: number): void {
  apply({ type: 'host_listening', engineId, port: 4_000, pid });
  apply({ type: 'host_phase', engineId, phase: 'ready' });
}
const priorities = (list: readonly AgentCommand[]): unknown[] =>
  list.flatMap((command) => (command.type === 'setPriority' ? [[command.pid, command.low]] : []));
const phaseOf = (engineId: EngineId): string | undefined =>
  observe(state).find((engine) => engine.engineId === engineId)?.phase;
const errorOf = (engineId: EngineId): unknown =>
  observe(state).find((engine) => engine.engineId === engineId)?.error;

describe('a machine that is not lent any more', () => {
  const stage = rpc();
  beforeEach(() => {
    assign(stage);
    makeReady(stage.engineId, 7);
  });

  test('computes for its people first, at once and as long as it lasts', () => {
    expect(priorities(lend(away))).toEqual([[7, true]]);
    expect(priorities(beat(stage.engineId, 7, 1))).toEqual([[7, true]]);
    expect(priorities(lend({}, 5_000))).toEqual([[7, false]]);
    expect(priorities(beat(stage.engineId, 7, 1))).toEqual([]);
    expect(phaseOf(stage.engineId)).toBe('ready');
  });

  test('lets what runs finish, and ends it when the time is over', () => {
    lend(away);
    apply({ type: 'tick' }, 29_999);
    expect(phaseOf(stage.engineId)).toBe('ready');
    // Other reasons do not begin it anew.
    lend({ ...away, why: 'It runs on battery.' });
    apply({ type: 'tick' }, 1);
    expect(phaseOf(stage.engineId)).toBe('stopping');
    apply({ type: 'host_exit', engineId: stage.engineId, error: null });
    expect(phaseOf(stage.engineId)).toBe('stopped');
    expect(errorOf(stage.engineId)).toEqual({
      code: 'node_gave_way',
      message: 'this machine is not lent now: It runs on battery.',
    });
  });

  test('ends it without a controller too', () => {
    apply({ type: 'session_lost' });
    lend(away);
    apply({ type: 'tick' }, 30_000);
    expect(phaseOf(stage.engineId)).toBe('stopping');
  });

  test('lent again in time, nothing ends', () => {
    lend(away);
    lend({}, 29_000);
    apply({ type: 'tick' }, 60_000);
    expect(phaseOf(stage.engineId)).toBe('ready');
  });

  test('takes nothing on', () => {
    lend(away);
    const late = llama({ deploymentId: 'd-00000002', stages: 0 });
    const started = assign(stage, late).some((command) => command.type === 'startEngine');
    expect(started).toBe(false);
    expect(phaseOf(late.engineId)).toBe('failed');
    expect(errorOf(late.engineId)).toMatchObject({ code: 'node_gave_way' });
  });
});

describe('limits', () => {
  test('threads are no more than the owner lends', () => {
    lend({ cpuThreads: 2 });
    const [start] = assign(rpc()).filter((command) => command.type === 'startEngine');
    expect(start).toMatchObject({ program: { threads: 2 } });
  });

  test('a load that takes more memory than is lent fails, and what was there before stays', () => {
    lend({ ramBytes: 4 * gb });
    const [first, second] = [rpc(), rpc({ deploymentId: 'd-00000002' })];
    assign(first);
    makeReady(first.engineId, 7);
    beat(first.engineId, 7, 3 * gb);
    now += 1;
    assign(first, second);
    beat(second.engineId, 8, 2 * gb);
    expect(phaseOf(second.engineId)).toBe('starting');
    makeReady(second.engineId, 8);
    beat(second.engineId, 8, 2 * gb);
    expect(phaseOf(first.engineId)).toBe('ready');
    expect(phaseOf(second.engineId)).toBe('failed');
    expect(errorOf(second.engineId)).toEqual({
      code: 'engine_out_of_memory',
      message: 'the engines here take 5.0 GiB of memory, but this machine lends 4.0 GiB',
    });
  });

  const measured = (...entries: [pid: number, Record<string, number>][]): readonly AgentCommand[] =>
    apply({ type: 'devices_measured', byPid: new Map(entries) });

  test('a load that takes more of a card than is lent fails, as soon as its driver tells', () => {
    lend({ vramBytes: { CUDA0: 4 * gb } });
    const [onCard, onCpu] = [
      rpc({ device: 'CUDA0', weightBytes: 3 * gb }),
      rpc({ deploymentId: 'd-00000002' }),
    ];
    assign(onCard);
    now += 1;
    assign(onCard, onCpu);
    makeReady(onCard.engineId, 7);
    makeReady(onCpu.engineId, 8);
    beat(onCard.engineId, 7, gb);
    expect(phaseOf(onCard.engineId)).toBe('ready');
    measured([7, { CUDA0: 3.5 * gb, CUDA1: 9 * gb }], [99, { CUDA0: 5 * gb }]);
    expect(phaseOf(onCard.engineId)).toBe('ready');
    measured([7, { CUDA0: 4.5 * gb }]);
    expect(phaseOf(onCpu.engineId)).toBe('ready');
    expect(phaseOf(onCard.engineId)).toBe('failed');
    expect(errorOf(onCard.engineId)).toEqual({
      code: 'engine_out_of_memory',
      message: 'the engines here take 4.5 GiB of memory on CUDA0, but this machine lends 4.0 GiB',
    });
  });

  test('a card of which less is lent than was sent there is given back, also where no driver tells', () => {
    const onCard = rpc({ device: 'CUDA0', weightBytes: 3 * gb });
    assign(onCard);
    makeReady(onCard.engineId, 7);
    lend({ vramBytes: { CUDA0: 3 * gb, CUDA1: 0 } });
    expect(phaseOf(onCard.engineId)).toBe('ready');
    lend({ vramBytes: { CUDA0: 0 } });
    expect(phaseOf(onCard.engineId)).toBe('stopping');
    apply({ type: 'host_exit', engineId: onCard.engineId, error: null });
    expect(errorOf(onCard.engineId)).toEqual({
      code: 'node_gave_way',
      message: 'this machine lends 0 MiB of memory on CUDA0 now, and more was in use',
    });
  });

  test('an owner who lends less than is in use gets it back, the newest first', () => {
    const [first, second] = [rpc(), rpc({ deploymentId: 'd-00000002' })];
    assign(first);
    now += 1;
    assign(first, second);
    makeReady(first.engineId, 7);
    makeReady(second.engineId, 8);
    beat(first.engineId, 7, 3 * gb);
    beat(second.engineId, 8, 2 * gb);
    lend({ ramBytes: 4 * gb });
    expect(phaseOf(first.engineId)).toBe('ready');
    expect(phaseOf(second.engineId)).toBe('stopping');
    lend({ ramBytes: gb });
    expect(phaseOf(first.engineId)).toBe('stopping');
  });
});
