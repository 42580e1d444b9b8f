import { rmSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { JobId, NodeId, TaskId } from '#shared/lib/ids.ts';
import { timings } from '#shared/config.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { ComputeFacts, TaskAssignment, TaskObservation, TaskReport } from '#shared/domain/task.ts';
import { controllerFrame } from '#shared/protocol/session.ts';
import { beatMs, createRuntime, type Runtime, type Turn } from '../runtime/runtime.ts';
import { defaultPolicy } from '../scheduler/policy.ts';
import { GiB, joined, connected, nodeId } from '../state/fixtures.ts';
import { openDatabase } from '../state/sqlite/database.ts';
import { createStore, type ControllerStore } from '../state/sqlite/store.ts';
import { createTaskFrames, type TaskFrames } from './task-frames.ts';

/**
 * For tests: a controller's real runtime, database and task frames with workers that exist in simulated time only.
 * Everything is decided by the seed; what happens at one moment happens in the order in which it was asked for.
 */
export interface SimulatedWorker {
  readonly id: NodeId;
  readonly name: string;
  /** Units per second of one task. */
  speed: number;
  readonly compute: ComputeFacts;
}

export interface Simulation {
  readonly now: number;
  readonly runtime: Runtime;
  readonly store: ControllerStore;
  /** Partitions by how often a result of theirs was taken. */
  readonly accepted: ReadonlyMap<string, number>;
  worker(name: string, options?: { speed?: number; cpus?: number; latencyMs?: number }): SimulatedWorker;
  /** Its session ends; it computes on and comes back after so long. */
  disconnect(worker: SimulatedWorker, forMs: number): void;
  /** It and what it runs is gone; it comes back, with the ends that it had journalled, after so long; null: never. */
  kill(worker: SimulatedWorker, forMs: number | null): void;
  restartController(forMs: number): void;
  /** The controller dies at that write, counted from now, once it has been made or in place of it; it starts again. */
  crashAtWrite(number: number, when: 'before' | 'after'): void;
  /** Writes so far. */
  readonly writes: number;
  /** Whether attempts of this job on that worker end otherwise than done. */
  onEnd: (assignment: TaskAssignment, worker: SimulatedWorker) => TaskReport | null;
  at(inMs: number, action: () => void): void;
  /** The controller's clock is set by so much; time goes on as before. */
  setClock(byMs: number): void;
  /** Lets time pass until this holds. Throws when it does not within so many simulated milliseconds. */
  until(holds: () => boolean, withinMs: number): Promise<void>;
  tasksAtWorkers(): number;
  close(): void;
}

interface Attempt {
  readonly assignment: TaskAssignment;
  readonly whole: boolean;
  phase: 'waiting' | 'running' | 'ended';
  report: TaskReport | null;
}

interface Body extends SimulatedWorker {
  readonly latencyMs: number;
  boot: number;
  up: boolean;
  session: number | null;
  /** Rises with every start, so that what was under way before is nothing any more. */
  life: number;
  readonly tasks: Map<TaskId, Attempt>;
}

const silent: Logger = {
  log: () => undefined,
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: (message, fields) => {
    throw new Error(`${message} ${JSON.stringify(fields)}`);
  },
  child: () => silent,
};
const repeatMs = 2_000;

export function simulate(random: () => number, faults: { duplicates: number; jitterMs: number }): Simulation {
  const directory = mkdtempSync(join(tmpdir(), 'covey-simulated-'));
  let now = 1_000_000_000;
  let clockAhead = 0;
  let sessions = 0;
  let agenda: { at: number; action: () => void }[] = [];
  const bodies = new Map<NodeId, Body>();
  const accepted = new Map<string, number>();
  const clock = { now: () => now + clockAhead };
  const at = (inMs: number, action: () => void): void => {
    const entry = { at: now + Math.max(0, Math.round(inMs)), action };
    // Behind all that are due no later.
    let low = 0;
    let high = agenda.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((agenda[middle]?.at ?? Infinity) <= entry.at) low = middle + 1;
      else high = middle;
    }
    agenda.splice(low, 0, entry);
  };

  let store: ControllerStore;
  let runtime: Runtime;
  let frames: TaskFrames;
  let controllerUp = true;
  let generation = 0;
  let writes = 0;
  let crash: { readonly at: number; readonly when: 'before' | 'after' } | null = null;
  /** It has died at a write: what it does until it is started again is seen by nobody. */
  let dead: 'before' | 'after' | null = null;
  /** Something was said that is not on disk. */
  let liar = false;

  const die = (when: 'before' | 'after'): void => {
    dead = when;
    crash = null;
    at(0, () => simulation.restartController(500));
  };
  const mortal = (saving: ControllerStore): ControllerStore => ({
    ...saving,
    save(...args) {
      if (dead) throw new Error('it is dead');
      writes += 1;
      const now = crash?.at === writes ? crash.when : null;
      if (now === 'before') {
        die(now);
        throw new Error('it is dead');
      }
      const saved = saving.save(...args);
      if (now === 'after') die(now);
      return saved;
    },
  });
  const logger: Logger = {
    ...silent,
    error(message, fields) {
      if (!dead) silent.error(message, fields);
    },
  };

  const start = (): void => {
    const connection = openDatabase(join(directory, 'covey.db'));
    // Power is not cut here, and a thousand runs should not wait for the disk.
    connection.pragma('synchronous = OFF');
    store = mortal(createStore(connection));
    dead = null;
    runtime = createRuntime({
      store,
      clock,
      policy: defaultPolicy,
      logger,
      running: () => new Map(),
    });
    frames = createTaskFrames({ runtime, clock, leaseMs: timings.taskLeaseMs, send: deliver });
    runtime.onTurn(count);
    controllerUp = true;
    const mine = (generation += 1);
    const beat = (): void => {
      if (mine !== generation) return;
      for (const body of bodies.values()) if (body.session !== null) hearFrom(body);
      runtime.beat();
      at(beatMs, beat);
    };
    at(beatMs, beat);
  };

  const count = ({ before, after }: Turn): void => {
    if (dead === 'before') return;
    for (const [jobId, job] of after.jobs) {
      const was = before.jobs.get(jobId);
      if (was === job) continue;
      for (const partition of job.partitions) {
        const earlier = was?.partitions[partition.index];
        if (earlier === partition) continue;
        const has = partition.phase === 'done' || partition.phase === 'fetching';
        const had = earlier?.phase === 'done' || earlier?.phase === 'fetching';
        const key = `${jobId}.${partition.index}`;
        if (has && !had) accepted.set(key, (accepted.get(key) ?? 0) + 1);
        if (had && !has && !job.definition.gang) throw new Error(`${key} had a result and has none`);
      }
    }
  };

  const hearFrom = ({ id }: Body): void => {
    const live = runtime.state.nodes.get(id)?.live;
    if (!live?.telemetry) return;
    const { telemetry, problems } = live;
    const at = clock.now();
    runtime.dispatch({ type: 'heartbeat-received', at, nodeId: id, telemetry, problems, lend: null });
  };

  const deliver = (id: NodeId, text: string): void => {
    const body = bodies.get(id);
    const session = body?.session ?? null;
    if (dead === 'before') liar = true;
    if (!body || session === null || dead) return;
    const { life } = body;
    at(body.latencyMs, () => {
      if (body.life !== life || body.session !== session) return;
      const frame = controllerFrame.parse(JSON.parse(text));
      if (frame.type !== 'tasks') return;
      for (const taskId of frame.settled) if (body.tasks.get(taskId)?.report) body.tasks.delete(taskId);
      for (const taskId of frame.cancel) {
        const attempt = body.tasks.get(taskId);
        if (attempt && !attempt.report) end(body, attempt, failedReport(attempt.assignment, 'cancelled'));
      }
      for (const assignment of frame.start) {
        if (body.tasks.has(assignment.taskId)) continue;
        const work = frame.works.find(({ jobId }) => jobId === assignment.jobId)?.work;
        if (!work) throw new Error(`no work for ${assignment.taskId}`);
        const whole = work.kind === 'kernel';
        body.tasks.set(assignment.taskId, {
          assignment,
          whole,
          phase: 'waiting',
          report: null,
        });
      }
      for (const { taskId } of frame.go) {
        const attempt = body.tasks.get(taskId);
        if (attempt?.phase === 'running') finishLater(body, attempt);
      }
      work(body);
    });
  };

  /** Starts what has room, in the order in which it came. */
  const work = (body: Body): void => {
    if (!body.up) return;
    let free = body.compute.cpus;
    for (const { phase, whole } of body.tasks.values()) {
      if (phase === 'running') free -= whole ? body.compute.cpus : 1;
    }
    for (const attempt of body.tasks.values()) {
      if (attempt.phase !== 'waiting') continue;
      const needs = attempt.whole ? body.compute.cpus : 1;
      if (needs > free) break;
      free -= needs;
      attempt.phase = 'running';
      tell(body, startedReport(attempt.assignment));
      if (!attempt.assignment.gang) finishLater(body, attempt);
    }
  };

  const finishLater = (body: Body, attempt: Attempt): void => {
    const { life } = body;
    const { range } = attempt.assignment;
    const units = range ? range.to - range.from : 1;
    const wallMs = (units * 1000) / body.speed;
    at(wallMs, () => {
      if (body.life !== life || attempt.phase !== 'running') return;
      const usage = { wallMs, cpuMs: null, peakBytes: null, stagingMs: 0 };
      const { taskId, epoch } = attempt.assignment;
      const value = range ? { from: range.from, to: range.to } : null;
      const done: TaskReport = {
        type: 'done',
        taskId,
        epoch,
        result: { value, artifacts: [] },
        usage,
        output: '',
      };
      end(body, attempt, simulation.onEnd(attempt.assignment, body) ?? done);
      work(body);
    });
  };

  const end = (body: Body, attempt: Attempt, report: TaskReport): void => {
    attempt.phase = 'ended';
    attempt.report = report;
    tell(body, report);
    const again = (): void => {
      if (body.tasks.get(report.taskId) !== attempt) return;
      if (body.session !== null) tell(body, report);
      at(repeatMs, again);
    };
    at(repeatMs, again);
  };

  const tell = (body: Body, report: TaskReport): void => {
    const session = body.session;
    if (session === null) return;
    const copies = random() < faults.duplicates ? 2 : 1;
    for (let copy = 0; copy < copies; copy += 1) {
      // A copy may also come when another session is there: it is known by its epoch only.
      at(body.latencyMs + random() * faults.jitterMs, () => {
        if (controllerUp && !dead && (body.session === session || copy > 0))
          frames.reported(body.id, [report]);
      });
    }
  };

  const connect = (body: Body): void => {
    if (!body.up || body.session !== null) return;
    if (!controllerUp) return at(500, () => connect(body));
    const session = (sessions += 1);
    const observed: TaskObservation[] = [...body.tasks.values()].map(({ assignment, phase }) => ({
      taskId: assignment.taskId,
      epoch: assignment.epoch,
      phase,
    }));
    body.session = session;
    const opened = connected(body.name, {
      at: clock.now(),
      session,
      boot: String(body.boot % 10),
      compute: body.compute,
    });
    runtime.dispatch(opened, ...frames.reconcile(body.id, observed));
    frames.opened(body.id, observed);
    for (const { report, phase, assignment } of body.tasks.values()) {
      if (report) tell(body, report);
      else if (phase === 'running') tell(body, startedReport(assignment));
    }
    work(body);
  };

  const drop = (body: Body): void => {
    const { session } = body;
    body.session = null;
    if (session === null || !controllerUp) return;
    frames.closed(body.id);
    runtime.dispatch({
      type: 'session-closed',
      at: clock.now(),
      nodeId: body.id,
      sessionId: session,
      goodbye: false,
    });
  };

  const simulation: Simulation = {
    get now() {
      return now;
    },
    get runtime() {
      return runtime;
    },
    get store() {
      return store;
    },
    accepted,
    worker(name, { speed = 100, cpus = 1, latencyMs = 5 } = {}) {
      const compute: ComputeFacts = {
        kernels: { isa: 'scalar', kernels: ['sum'] },
        commands: { allowed: true, sandbox: 'bubblewrap', limits: 'rlimits', network: true },
        cpus,
        memoryBytes: 8 * GiB,
        problems: [],
      };
      const body: Body = {
        id: nodeId(name),
        name,
        speed,
        compute,
        latencyMs,
        boot: 1,
        up: true,
        session: null,
        life: 0,
        tasks: new Map(),
      };
      bodies.set(body.id, body);
      runtime.dispatch(joined(name, name, clock.now()));
      connect(body);
      return body;
    },
    disconnect(worker, forMs) {
      const body = bodies.get(worker.id);
      if (!body) return;
      drop(body);
      at(forMs, () => connect(body));
    },
    kill(worker, forMs) {
      const body = bodies.get(worker.id);
      if (!body?.up) return;
      drop(body);
      body.up = false;
      body.life += 1;
      for (const [id, { phase }] of body.tasks) if (phase !== 'ended') body.tasks.delete(id);
      if (forMs === null) return;
      at(forMs, () => {
        body.up = true;
        body.boot += 1;
        connect(body);
      });
    },
    crashAtWrite(number, when) {
      crash = { at: writes + number, when };
    },
    get writes() {
      return writes;
    },
    restartController(forMs) {
      if (!controllerUp) return;
      controllerUp = false;
      generation += 1;
      frames.stop();
      runtime.stop();
      store.close();
      for (const body of bodies.values()) body.session = null;
      at(forMs, () => {
        start();
        for (const body of bodies.values()) at(random() * 3_000, () => connect(body));
      });
    },
    onEnd: () => null,
    at,
    setClock(byMs) {
      clockAhead += byMs;
    },
    async until(holds, withinMs) {
      const last = now + withinMs;
      while (!controllerUp || !holds()) {
        const next = agenda.shift();
        if (!next || next.at > last) throw new Error(`not within ${withinMs} simulated ms`);
        now = Math.max(now, next.at);
        next.action();
        // Task frames gather what comes within one turn of the loop.
        await new Promise((resolve) => setImmediate(resolve));
        if (liar) throw new Error('what is not on disk was told to a worker');
      }
    },
    tasksAtWorkers: () => [...bodies.values()].reduce((sum, { tasks, up }) => sum + (up ? tasks.size : 0), 0),
    close() {
      frames.stop();
      runtime.stop();
      store.close();
      agenda = [];
      rmSync(directory, { recursive: true, force: true });
    },
  };
  start();
  return simulation;
}

function startedReport({ taskId, epoch, gang }: TaskAssignment): TaskReport {
  return { type: 'started', taskId, epoch, ...(gang ? { host: '192.0.2.1', ports: [1] } : {}) };
}

export function failedReport(
  { taskId, epoch }: TaskAssignment,
  outcome: Extract<TaskReport, { type: 'failed' }>['outcome'],
  exitCode: number | null = null,
): TaskReport {
  const error = { code: 'task_failed', message: `It ${outcome}.` } as const;
  return { type: 'failed', taskId, epoch, outcome, error, exitCode, usage: null, output: 'what it said' };
}

export const simulatedJobId = 'j-00000001' as JobId;
