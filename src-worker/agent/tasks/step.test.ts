import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { TaskReport, Work } from '#shared/domain/task.ts';
import type { TaskId } from '#shared/lib/ids.ts';
import type { HostReport, TasksCommand, TasksEvent } from './events.ts';
import { assignment, commandWork, config, freely, id, jobId, kernelWork } from './fixtures.ts';
import { initialTasksState, type EndReport, type TaskRules } from './state.ts';
import { observeTasks, step } from './step.ts';

/** A worker's tasks, driven by a test. */
class Bench {
  state;
  now = 1_000;
  reports: TaskReport[] = [];
  started: TaskId[] = [];
  stopped: TaskId[] = [];
  commands: TasksCommand[] = [];
  constructor(rules: TaskRules = freely, kept: EndReport[] = []) {
    this.state = initialTasksState(config, rules, kept, this.now);
  }
  apply(event: TasksEvent): void {
    const result = step(this.state, event, this.now);
    this.state = result.state;
    for (const command of result.commands) {
      this.commands.push(command);
      if (command.type === 'report') this.reports.push(...command.reports);
      if (command.type === 'start')
        this.started.push(...command.tasks.map(({ assignment: { taskId } }) => taskId));
      if (command.type === 'stop') this.stopped.push(...command.taskIds);
    }
  }
  frame(change: Partial<Extract<TasksEvent, { type: 'tasks' }>>): void {
    this.apply({ type: 'tasks', works: [], start: [], go: [], cancel: [], settled: [], ...change });
  }
  assign(work: Work, ...indexes: number[]): void {
    this.frame({ works: [{ jobId, work }], start: indexes.map((index) => assignment(index)) });
  }
  hear(...reports: HostReport[]): void {
    this.apply({ type: 'heard', reports });
  }
  later(ms: number, event: TasksEvent = { type: 'tick' }): void {
    this.now += ms;
    this.apply(event);
  }
  /** `type outcome code` of what was told of a task. */
  told(index: number): string[] {
    return this.reports
      .filter((report) => report.taskId === id(index))
      .map((report) => (report.type === 'failed' ? `${report.outcome} ${report.error.code}` : report.type));
  }
}

const usage = { wallMs: 1, cpuMs: null, peakBytes: null, stagingMs: 0 };
const done = (index: number): HostReport => ({
  type: 'done',
  taskId: id(index),
  result: { value: index, artifacts: [] },
  usage,
  output: '',
});
const failed = (index: number): HostReport => ({
  type: 'failed',
  taskId: id(index),
  outcome: 'crashed',
  error: { code: 'task_crashed', message: 'killed by SIGTERM' },
  exitCode: null,
  usage,
  output: 'the end',
});

describe('turns', () => {
  it('gives programs the processors that they ask for, in order', () => {
    const bench = new Bench();
    bench.assign(commandWork({ cpus: 3 }), 0, 1);
    expect(bench.started).toEqual([id(0)]);
    expect(bench.told(1)).toEqual(['staging']);
    bench.hear({ type: 'started', taskId: id(0) }, done(0));
    expect(bench.started).toEqual([id(0), id(1)]);
    expect(bench.told(0)).toEqual(['started', 'done']);
  });

  it('gives one that asks for more than there is all there is', () => {
    const bench = new Bench();
    bench.assign(commandWork({ cpus: 64 }), 0, 1);
    expect(bench.started).toEqual([id(0)]);
  });

  it('hands several kernels over, and nothing beside them', () => {
    const bench = new Bench();
    bench.assign(kernelWork, 0, 1, 2, 3, 4, 5);
    const other = assignment(0, { jobId: 'j-00000002' as typeof jobId });
    bench.frame({ works: [{ jobId: other.jobId, work: commandWork() }], start: [other] });
    expect(bench.started).toEqual([0, 1, 2, 3].map(id));
    bench.hear(done(0), done(1));
    expect(bench.started).toEqual([0, 1, 2, 3, 4, 5].map(id));
    bench.hear(done(2), done(3), done(4));
    expect(bench.started).toHaveLength(6);
    bench.hear(done(5));
    expect(bench.started.at(-1)).toBe(other.taskId);
  });
});

describe('ends', () => {
  it('are told until they are settled, and written down when that takes long', () => {
    const bench = new Bench();
    bench.apply({ type: 'welcome' });
    bench.assign(kernelWork, 0, 1);
    bench.hear(done(0), done(1));
    bench.frame({ settled: [id(1)] });
    bench.later(config.journalAfterMs);
    expect(bench.commands.filter(({ type }) => type === 'journal')).toMatchObject([
      { ends: [{ taskId: id(0) }], settled: [] },
    ]);
    bench.apply({ type: 'session_lost' });
    expect(observeTasks(bench.state)).toEqual([{ taskId: id(0), epoch: 1, phase: 'ended' }]);
    bench.apply({ type: 'welcome' });
    bench.later(config.repeatMs);
    expect(bench.told(0)).toEqual(['done', 'done', 'done']);
    bench.frame({ settled: [id(0)] });
    expect(bench.commands.at(-1)).toMatchObject({ type: 'journal', settled: [id(0)] });
    expect(observeTasks(bench.state)).toEqual([]);
  });

  it('of an earlier run are told in the first session', () => {
    const kept: EndReport = { ...(done(7) as Extract<HostReport, { type: 'done' }>), epoch: 3 };
    const bench = new Bench(freely, [kept]);
    bench.apply({ type: 'welcome' });
    expect(bench.reports).toEqual([kept]);
  });

  it('are told again when the task comes again, and it is not started again', () => {
    const bench = new Bench();
    bench.assign(kernelWork, 0);
    bench.assign(kernelWork, 0);
    bench.hear(done(0));
    bench.assign(kernelWork, 0);
    expect(bench.started).toEqual([id(0)]);
    expect(bench.told(0)).toEqual(['done', 'done']);
  });

  it('are not taken from hosts twice', () => {
    const bench = new Bench();
    bench.assign(kernelWork, 0);
    bench.hear(done(0), failed(0));
    expect(bench.told(0)).toEqual(['done']);
  });
});

describe('being told to end', () => {
  it('ends what waits at once, and what runs through its host', () => {
    const bench = new Bench();
    bench.assign(commandWork({ cpus: 4 }), 0, 1);
    bench.frame({ cancel: [id(0), id(1), id(9)] });
    expect(bench.told(1)).toEqual(['staging', 'cancelled cancelled']);
    expect(bench.stopped).toEqual([id(0)]);
    bench.hear(failed(0));
    expect(bench.reports.at(-1)).toMatchObject({ outcome: 'cancelled', output: 'the end' });
  });

  it('lets a result that was there first stand', () => {
    const bench = new Bench();
    bench.assign(commandWork(), 0);
    bench.frame({ cancel: [id(0)] });
    bench.hear(done(0));
    expect(bench.told(0)).toEqual(['done']);
  });

  it('comes by the time limit, counted from its start', () => {
    const bench = new Bench();
    bench.assign(kernelWork, 0);
    bench.later(100_000);
    expect(bench.stopped).toEqual([]);
    bench.hear({ type: 'started', taskId: id(0) });
    bench.later(60_000);
    expect(bench.stopped).toEqual([id(0)]);
    bench.hear(failed(0));
    expect(bench.told(0)).toEqual(['started', 'failed task_timeout']);
  });

  it('comes by the time limit of a rank, counted from when its gang was there', () => {
    const bench = new Bench();
    const command = commandWork();
    if (command.kind !== 'command') throw new Error('not a command');
    const gang = { rank: 0, worldSize: 1, start: 1 };
    bench.frame({
      works: [{ jobId, work: { kind: 'gang', program: command.program, outputs: [], ports: 0 } }],
      start: [assignment(0, { gang })],
    });
    bench.hear({ type: 'started', taskId: id(0), host: '127.0.0.1', ports: [] });
    bench.later(100_000);
    bench.frame({ go: [{ taskId: id(0), ranks: [] }] });
    bench.later(59_000);
    bench.frame({ go: [{ taskId: id(0), ranks: [] }] });
    expect(bench.stopped).toEqual([]);
    bench.later(1_000);
    expect(bench.stopped).toEqual([id(0)]);
  });

  it('comes by the end of the lease, but only without a session', () => {
    const bench = new Bench();
    bench.apply({ type: 'welcome' });
    bench.frame({
      works: [{ jobId, work: kernelWork }],
      start: [assignment(0, { timeoutMs: 86_400_000 })],
    });
    bench.hear({ type: 'started', taskId: id(0) });
    bench.later(500_000);
    expect(bench.stopped).toEqual([]);
    bench.apply({ type: 'ack' });
    bench.apply({ type: 'session_lost' });
    bench.later(119_000);
    expect(bench.stopped).toEqual([]);
    bench.later(1_000);
    bench.hear(failed(0));
    expect(bench.told(0)).toEqual(['started', 'lost lease_expired']);
  });
});

describe("the owner's rules", () => {
  it('send back what waits, and end what runs in time', () => {
    const bench = new Bench();
    bench.assign(commandWork({ cpus: 4 }), 0, 1);
    bench.apply({ type: 'rules', rules: { ...freely, awaySince: bench.now, why: 'On battery.' } });
    expect(bench.told(1)).toEqual(['staging', 'lost node_gave_way']);
    expect(bench.commands).toContainEqual({ type: 'setPriority', low: true });
    bench.assign(commandWork(), 2);
    expect(bench.told(2)).toEqual(['lost node_gave_way']);
    bench.later(29_000);
    expect(bench.stopped).toEqual([]);
    bench.later(1_000);
    expect(bench.stopped).toEqual([id(0)]);
    bench.apply({ type: 'rules', rules: freely });
    expect(bench.commands.at(-1)).toEqual({ type: 'setPriority', low: false });
  });

  it('refuse what is forbidden, also while it runs', () => {
    const forbidden = { code: 'commands_forbidden', message: 'no' } as const;
    const bench = new Bench();
    bench.assign(commandWork(), 0);
    bench.apply({ type: 'rules', rules: { ...freely, noCommands: forbidden } });
    expect(bench.stopped).toEqual([id(0)]);
    bench.assign(commandWork(), 1);
    expect(bench.told(1)).toEqual(['refused commands_forbidden']);
    bench.assign(kernelWork, 2);
    expect(bench.told(2)).toEqual([]);
    const noNetwork = { code: 'network_forbidden', message: 'no' } as const;
    const other = new Bench({ ...freely, noNetwork });
    other.assign(commandWork({ network: 'lan' }), 0);
    expect(other.told(0)).toEqual(['refused network_forbidden']);
  });
});

it('ends everything when the worker is stopped, and writes down what is not settled', () => {
  const bench = new Bench();
  bench.assign(commandWork({ cpus: 2 }), 0, 1, 2);
  bench.hear(done(0));
  bench.apply({ type: 'shutdown' });
  expect(bench.stopped).toEqual([id(1), id(2)]);
  expect(bench.commands.at(-1)).toMatchObject({ type: 'journal', ends: [{ taskId: id(0) }] });
  bench.hear(failed(1), failed(2));
  expect(observeTasks(bench.state).every(({ phase }) => phase === 'ended')).toBe(true);
});

it('never runs a task twice nor beyond the processors, tells each end, and keeps nothing', () => {
  const action = fc.oneof(
    fc.record({
      do: fc.constant('assign' as const),
      index: fc.nat(20),
      cpus: fc.integer({ min: 1, max: 5 }),
    }),
    fc.record({ do: fc.constantFrom('cancel', 'done', 'fail', 'begin', 'settle'), index: fc.nat(20) }),
    fc.record({ do: fc.constantFrom('tick', 'lost', 'welcome', 'away', 'back'), ms: fc.nat(40_000) }),
  );
  fc.assert(
    fc.property(fc.array(action, { maxLength: 80 }), (actions) => {
      const bench = new Bench();
      const assigned = new Set<number>();
      for (const act of actions) {
        if ('cpus' in act) {
          // Ids are never used again.
          if (!assigned.has(act.index)) bench.assign(commandWork({ cpus: act.cpus }), act.index);
          assigned.add(act.index);
        } else if ('index' in act) {
          const running = bench.started.includes(id(act.index));
          if (act.do === 'cancel') bench.frame({ cancel: [id(act.index)] });
          if (act.do === 'settle') bench.frame({ settled: [id(act.index)] });
          if (act.do === 'done' && running) bench.hear(done(act.index));
          if (act.do === 'fail' && running) bench.hear(failed(act.index));
          if (act.do === 'begin' && running) bench.hear({ type: 'started', taskId: id(act.index) });
        } else {
          if (act.do === 'tick') bench.later(act.ms);
          if (act.do === 'lost') bench.apply({ type: 'session_lost' });
          if (act.do === 'welcome') bench.apply({ type: 'welcome' });
          if (act.do === 'away') bench.apply({ type: 'rules', rules: { ...freely, awaySince: bench.now } });
          if (act.do === 'back') bench.apply({ type: 'rules', rules: freely });
        }
        let used = 0;
        for (const { phase, work } of bench.state.live.values()) {
          if (phase !== 'waiting' && 'program' in work) used += Math.min(4, work.program.cpus);
        }
        expect(used).toBeLessThanOrEqual(4);
      }
      expect(new Set(bench.started).size).toBe(bench.started.length);
      bench.apply({ type: 'rules', rules: freely });
      for (let round = 0; round < 40; round += 1) {
        for (const taskId of [...bench.state.live.keys()]) {
          const index = Number(taskId.split('.')[1]);
          if (bench.started.includes(taskId)) bench.hear(done(index));
        }
      }
      expect(bench.state.live.size).toBe(0);
      for (const index of assigned) {
        const told = bench.reports.filter(
          ({ taskId, type }) => taskId === id(index) && /done|failed/.test(type),
        );
        expect(told.length).toBeGreaterThan(0);
        expect(new Set(told.map(({ type }) => type)).size).toBe(1);
      }
      bench.frame({ settled: [...assigned].map(id) });
      expect([bench.state.ended.size, bench.state.works.size]).toEqual([0, 0]);
    }),
    { numRuns: 200 },
  );
});
