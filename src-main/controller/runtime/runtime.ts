import type { DeploymentId } from '#shared/lib/ids.ts';
import type { ApiEvent } from '#shared/api/schema.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { plan } from '../scheduler/plan.ts';
import type { Leap } from '../scheduler/jobs/elapsed.ts';
import type { Policy } from '../scheduler/policy.ts';
import { apply } from '../state/apply.ts';
import type { ControllerEvent } from '../state/events.ts';
import type { Reported } from '../state/sqlite/job-store.ts';
import type { ControllerStore, NewEvent } from '../state/sqlite/store.ts';
import type { ControllerState } from '../state/state.ts';
import { describeJobs, isJobEvent } from './describe-jobs.ts';
import { describe } from './describe.ts';

export interface RuntimeOptions {
  readonly store: ControllerStore;
  readonly clock: Clock;
  readonly policy: Policy;
  readonly logger: Logger;
  /** Requests under way by deployment; asked on every turn. */
  readonly running: () => ReadonlyMap<DeploymentId, number>;
}

/** One finished turn: what was recorded and what it led to. */
export interface Turn {
  readonly before: ControllerState;
  readonly after: ControllerState;
  readonly events: readonly ControllerEvent[];
  /** `after` is on disk. Otherwise that is tried again with the next turn. */
  readonly written: boolean;
}

/**
 * The one loop: facts come in, state moves, what follows is planned until nothing follows, the durable
 * difference is written in one transaction, and only then do listeners act on it.
 */
export interface Runtime {
  readonly state: ControllerState;
  /** Records facts that happened whether or not they can be written; a write that fails is retried next turn. */
  dispatch(...events: ControllerEvent[]): void;
  /** Records wishes of a client. Throws, with nothing changed, when they cannot be written. */
  commit(...events: ControllerEvent[]): void;
  /** Asks what follows now. Called whenever a request that a drain waits for ends. */
  tick(): void;
  /** To be called every `beatMs` by a timer; its own lateness tells how long this process did not listen. */
  beat(): void;
  onTurn(listener: (turn: Turn) => void): void;
  onEvent(listener: (event: ApiEvent) => void): () => void;
  /** Publishes an event that is not stored. */
  publish(event: ApiEvent): void;
  /** From now on nothing is recorded: the store is about to close. */
  stop(): void;
}

export const beatMs = 1_000;
/** Lateness of a beat that counts as a stall. */
const stallToleranceMs = 1_000;
const keptLeaps = 32;

/** Turns of planning within one dispatch; reaching it means two rules undo each other. */
const maxRounds = 50;

export function createRuntime(options: RuntimeOptions): Runtime {
  const { store, clock, policy, logger } = options;
  let state = store.load(clock.now());
  /** What SQLite has; behind `state` only after a failed write. */
  let written = state;
  let unwritten: NewEvent[] = [];
  /** What workers said that the file does not have yet; what tasks have made is nowhere else. */
  let reported: Reported[] = [];
  const turnListeners: Array<(turn: Turn) => void> = [];
  const eventListeners = new Set<(event: ApiEvent) => void>();
  const queue: Array<{ events: ControllerEvent[] }> = [];
  let turning = false;
  let stopped = false;
  let lastBeatAt = clock.now();
  let listenedUntil = lastBeatAt;
  let listensFrom = lastBeatAt;
  let review = false;
  let leaps: readonly Leap[] = [];

  const advance = (from: ControllerState, first: readonly ControllerEvent[]) => {
    let next = from;
    const applied: ControllerEvent[] = [];
    const described: NewEvent[] = [];
    const record = (event: ControllerEvent): void => {
      const after = apply(next, event);
      if (after === next && event.type !== 'noted') return;
      if (isJobEvent(event)) described.push(...describeJobs(event, next, after));
      else {
        const line = describe(event, next, after);
        if (line) described.push(line);
      }
      applied.push(event);
      next = after;
    };
    first.forEach(record);
    const onlyHeard = first.length > 0 && first.every(({ type }) => type === 'heartbeat-received');
    const jobs = review ? 'time' : onlyHeard ? 'nothing' : 'facts';
    for (let round = 0; ; round += 1) {
      const now = clock.now();
      const follows = plan(next, {
        ...{ now, policy, jobs, leaps, running: options.running() },
        // The clock may have been set back since the last beat: nobody was silent in between.
        listenedUntil: Math.min(listenedUntil, now),
      });
      if (follows.length === 0) break;
      if (round === maxRounds) {
        logger.error('the planner does not settle', { last: follows.map((event) => event.type).join(' ') });
        break;
      }
      follows.forEach(record);
    }
    return { next, applied, described };
  };

  const turn = (first: readonly ControllerEvent[], strict: boolean): void => {
    const before = state;
    const { next, applied, described } = advance(before, first);
    if (applied.length === 0 && unwritten.length === 0 && written === state) return;
    let published: ApiEvent[] = [];
    const said = applied.flatMap((event) => (event.type === 'tasks-reported' ? [event] : []));
    try {
      published = store.save(written, next, [...unwritten, ...described], [...reported, ...said]);
      written = next;
      unwritten = [];
      reported = [];
    } catch (error) {
      if (strict) {
        const reason = error instanceof Error ? error.message : String(error);
        throw new CoveyError('disk_full', `The change could not be written: ${reason}.`, {}, error);
      }
      unwritten = [...unwritten, ...described].slice(-1_000);
      reported = [...reported, ...said];
      logger.error('state could not be written, will try again', { reason: String(error) });
    }
    state = next;
    const finished: Turn = { before, after: next, events: applied, written: written === next };
    for (const listener of turnListeners) guard(() => listener(finished));
    for (const event of published) {
      for (const listener of eventListeners) guard(() => listener(event));
    }
  };

  const guard = (action: () => void): void => {
    try {
      action();
    } catch (error) {
      logger.error('a listener failed', {
        reason: error instanceof Error ? (error.stack ?? error.message) : String(error),
      });
    }
  };

  /** Listeners may dispatch: their facts run as turns of their own, after this one. */
  const run = (events: ControllerEvent[], strict: boolean): void => {
    if (stopped) return;
    if (turning) {
      queue.push({ events });
      return;
    }
    turning = true;
    try {
      turn(events, strict);
      for (let next = queue.shift(); next; next = queue.shift()) turn(next.events, false);
    } finally {
      turning = false;
    }
  };

  return {
    get state() {
      return state;
    },
    dispatch: (...events) => run(events, false),
    commit: (...events) => run(events, true),
    tick: () => run([], false),
    beat() {
      const now = clock.now();
      const lateMs = now - lastBeatAt - beatMs;
      lastBeatAt = now;
      if (Math.abs(lateMs) > stallToleranceMs) leaps = [...leaps, { at: now, ms: lateMs }].slice(-keptLeaps);
      // As long again as the stall, so that peers which gave up meanwhile can come back first.
      if (lateMs > stallToleranceMs) listensFrom = now + Math.min(lateMs, policy.lostMs);
      if (now >= listensFrom || lateMs < -stallToleranceMs) listenedUntil = now;
      review = true;
      run([], false);
      review = false;
    },
    onTurn(listener) {
      turnListeners.push(listener);
    },
    onEvent(listener) {
      eventListeners.add(listener);
      return () => eventListeners.delete(listener);
    },
    publish(event) {
      for (const listener of eventListeners) guard(() => listener(event));
    },
    stop() {
      stopped = true;
    },
  };
}
