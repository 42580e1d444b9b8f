import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { EngineId } from '#shared/lib/ids.ts';
import { engineObservationSchema, type EngineAssignment, type EnginePhase } from '#shared/domain/engine.ts';
import { errorBody, llama, rpc, testConfig } from './fixtures.ts';
import type { AgentCommand, AgentEvent } from './events.ts';
import { observe } from './observe.ts';
import { step } from './step.ts';
import { initialAgentState, isQuiet, type AgentState } from './state.ts';

const pool: readonly EngineAssignment[] = ['d-00000001', 'd-00000002'].flatMap((deploymentId) =>
  [1, 2, 3].flatMap((epoch) => [
    llama({ deploymentId, epoch, stages: 2 }),
    rpc({ deploymentId, epoch, index: 7 }),
    rpc({ deploymentId, epoch, index: 8 }),
  ]),
);
const anyId = fc.constantFrom(...pool.map((assignment) => assignment.engineId));
const anyPhase = fc.constantFrom<EnginePhase>('loading', 'canary', 'ready', 'stopping', 'failed', 'stopped');
const anyError = fc.constantFrom(errorBody('engine_crashed'), errorBody('engine_out_of_memory'), null);
const anyStage = fc.constantFrom(1, 2);

const anyEvent: fc.Arbitrary<AgentEvent> = fc.oneof(
  { weight: 1, arbitrary: fc.constant<AgentEvent>({ type: 'welcome', leaseMs: 900_000 }) },
  { weight: 1, arbitrary: fc.constant<AgentEvent>({ type: 'session_lost' }) },
  { weight: 1, arbitrary: fc.constant<AgentEvent>({ type: 'ack' }) },
  { weight: 3, arbitrary: fc.constant<AgentEvent>({ type: 'tick' }) },
  {
    weight: 5,
    arbitrary: fc.record<Extract<AgentEvent, { type: 'assignments' }>>({
      type: fc.constant('assignments'),
      generation: fc.integer({ min: 1, max: 40 }),
      engines: fc.subarray([...pool]),
      keep: fc.array(anyId, { maxLength: 4 }),
    }),
  },
  {
    weight: 6,
    arbitrary: anyId.chain((engineId) =>
      anyPhase.map((phase) => ({ type: 'host_phase', engineId, phase }) as const),
    ),
  },
  {
    weight: 4,
    arbitrary: anyId.map((engineId) => ({ type: 'host_listening', engineId, port: 4000, pid: 7 }) as const),
  },
  {
    weight: 4,
    arbitrary: anyId.map((engineId) => ({ type: 'links_opened', engineId, ports: [1, 2] }) as const),
  },
  {
    weight: 1,
    arbitrary: anyId.map(
      (engineId) => ({ type: 'links_failed', engineId, error: errorBody('stage_unreachable') }) as const,
    ),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(anyId, anyStage).map(([engineId, stage]) => ({
      type: 'link_lost' as const,
      engineId,
      stageEngineId: engineId.replace(/\.0$/, `.${stage}`) as EngineId,
      error: errorBody('stage_lost'),
    })),
  },
  {
    weight: 4,
    arbitrary: fc
      .tuple(anyId, anyError)
      .map(([engineId, error]) => ({ type: 'host_exit', engineId, error }) as const),
  },
  {
    weight: 3,
    arbitrary: anyId.chain((engineId) =>
      fc.integer({ min: 0, max: 3_000 }).map((rssBytes) => ({
        type: 'host_beat' as const,
        engineId,
        pid: 7,
        rssBytes,
        cpuMs: 1,
        suspended: false,
        busySlots: null,
      })),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.record<Extract<AgentEvent, { type: 'lend' }>>({
      type: fc.constant('lend'),
      lending: fc.boolean(),
      why: fc.constant('Somebody uses it.'),
      cpuThreads: fc.constantFrom(null, 1, 64),
      ramBytes: fc.constantFrom(null, 0, 4_000),
      vramBytes: fc.constantFrom<Record<string, number>>({}, { CUDA0: 0 }, { CUDA0: 2_000 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.integer({ min: 0, max: 12 }), fc.integer({ min: 0, max: 4_000 }))
      .map(([pid, bytes]): AgentEvent => ({
        type: 'devices_measured',
        byPid: new Map([[pid, { CUDA0: bytes }]]),
      })),
  },
  { weight: 1, arbitrary: fc.constant<AgentEvent>({ type: 'shutdown' }) },
);

/** What the runtime would hold after executing the commands; complains about impossible ones. */
class World {
  readonly started = new Set<EngineId>();
  readonly running = new Set<EngineId>();
  readonly links = new Set<EngineId>();
  readonly grants = new Set<EngineId>();

  execute(commands: readonly AgentCommand[]): void {
    for (const command of commands) {
      switch (command.type) {
        case 'startEngine': {
          const { engineId } = command.assignment;
          expect(this.started.has(engineId), `${engineId} started twice`).toBe(false);
          this.started.add(engineId);
          this.running.add(engineId);
          break;
        }
        case 'stopEngine':
          expect(this.running.has(command.engineId), `${command.engineId} stopped without a host`).toBe(true);
          break;
        case 'openLinks':
          expect(this.links.has(command.engineId)).toBe(false);
          this.links.add(command.engineId);
          break;
        case 'closeLinks':
          expect(this.links.delete(command.engineId), 'links closed that were not open').toBe(true);
          break;
        case 'addGrant':
          expect(this.grants.has(command.engineId)).toBe(false);
          this.grants.add(command.engineId);
          break;
        case 'removeGrants':
          expect(this.grants.delete(command.engineId), 'a grant removed that was not given').toBe(true);
          break;
        case 'setPriority':
          expect(command.pid).toBe(7);
          break;
        case 'recordCanary':
        case 'report':
          break;
      }
    }
  }
}

const order: EnginePhase[] = [
  'starting',
  'connecting',
  'loading',
  'canary',
  'ready',
  'stopping',
  'stopped',
  'failed',
];

it('whatever comes: one start per id, phases only forward, only the named or dying observed, all ends', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(anyEvent, fc.constantFrom(0, 200, 1_500, 600_000)), { maxLength: 120 }),
      (events) => {
        const world = new World();
        let now = 1_000_000;
        let secrets = 0;
        let state: AgentState = initialAgentState(testConfig);
        const apply = (event: AgentEvent): void => {
          if (event.type === 'host_exit' && !world.running.has(event.engineId)) return;
          const before = new Map(observe(state).map((entry) => [entry.engineId, entry.phase]));
          const result = step(state, event, {
            now,
            newSecret: () => (++secrets).toString(16).padStart(64, '0'),
          });
          state = result.state;
          if (event.type === 'host_exit') world.running.delete(event.engineId);
          world.execute(result.commands);
          const observed = observe(state);
          expect(observed.length).toBeLessThanOrEqual(pool.length);
          for (const entry of observed) {
            engineObservationSchema.parse(entry);
            expect(entry.endpoint !== null).toBe(entry.phase === 'ready');
            expect(world.grants.has(entry.engineId)).toBe(entry.phase === 'ready');
            const previous = before.get(entry.engineId);
            if (previous) expect(order.indexOf(entry.phase)).toBeGreaterThanOrEqual(order.indexOf(previous));
            const named = state.named.has(entry.engineId);
            if (!named) expect(world.running.has(entry.engineId), `${entry.engineId} lingers`).toBe(true);
          }
        };
        for (const [event, waitMs] of events) {
          now += waitMs;
          apply(event);
        }
        apply({ type: 'welcome', leaseMs: 900_000 });
        apply({ type: 'assignments', generation: 1_000, engines: [], keep: [] });
        for (const engineId of [...world.running]) apply({ type: 'host_exit', engineId, error: null });
        expect(observe(state)).toEqual([]);
        expect(isQuiet(state)).toBe(true);
        expect([...world.links], 'links left').toEqual([]);
        expect([...world.grants], 'grants left').toEqual([]);
      },
    ),
    { numRuns: 400, seed: 20261130 },
  );
});

it('never observes more than a frame can carry, and shows the living first', () => {
  const engines = Array.from({ length: 256 }, (_, index) =>
    rpc({ deploymentId: `d-a${String(index).padStart(7, '0')}` }),
  );
  const more = Array.from({ length: 256 }, (_, index) =>
    rpc({ deploymentId: `d-b${String(index).padStart(7, '0')}` }),
  );
  let state = initialAgentState(testConfig);
  const apply = (event: AgentEvent): void => {
    state = step(state, event, { now: 1, newSecret: () => 'f'.repeat(64) }).state;
  };
  apply({ type: 'welcome', leaseMs: 1_000 });
  apply({ type: 'assignments', generation: 1, engines, keep: [] });
  for (const { engineId } of engines.slice(0, 10))
    apply({ type: 'host_exit', engineId, error: errorBody('engine_crashed') });
  apply({
    type: 'assignments',
    generation: 2,
    engines: more,
    keep: engines.slice(0, 10).map((entry) => entry.engineId),
  });
  expect(state.engines.size).toBeGreaterThan(256);
  const observed = observe(state);
  expect(observed).toHaveLength(256);
  expect(observed.every((entry) => entry.phase !== 'failed')).toBe(true);
});
