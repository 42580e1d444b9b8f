import type { EngineId } from '#shared/lib/ids.ts';
import type { EngineAssignment } from '#shared/domain/engine.ts';
import type { AgentCommand, AgentEvent, CanaryRecord, StepContext } from './events.ts';
import { patch, put, type Draft } from './draft.ts';
import { isFenced, withFence } from './fence.ts';
import type { ErrorBody } from '#shared/errors.ts';
import { beyondLimit, devicesMeasured, gaveWay, gaveWayError, lendChanged, stepBack } from './lend.ts';
import {
  dropUnnamed,
  fail,
  hostEnded,
  hostPhase,
  launchWaiting,
  linksOpened,
  stageLost,
  stop,
  suspicionsOver,
} from './lifecycle.ts';
import { isAlive, isFinal, type AgentState, type EngineRecord } from './state.ts';

/** A first token that led the second by less than this may change with the split or the backend (nats). */
const certainMargin = 0.25;

/**
 * The worker's decisions, pure: one fact in, the next state and what to do out.
 *
 * 1. `assignments` are the whole desired state: what is named and new is taken on, what is not named is ended.
 *    An engine id is started once in a boot, whatever comes.
 * 2. A leader opens its links first, then its host; a stage starts its host at once. Neither starts while an
 *    older engine of its deployment still holds memory.
 * 3. `ready` gives out the grant; failing, stopping and losing the host take it back.
 * 4. A leader that dies waits a moment for a link to say which stage was lost.
 * 5. Without a session nothing changes until the lease, counted from the last ack, is over: then all ends.
 * 6. Ended engines stay in the observed set as long as the controller names them.
 * 7. While the machine is not lent nothing is taken on; what runs steps back at once and ends in time (`lend`).
 */
export function step(
  state: AgentState,
  event: AgentEvent,
  context: StepContext,
): { state: AgentState; commands: readonly AgentCommand[] } {
  const draft: Draft = { state, commands: [], context };
  apply(draft, event);
  if (!draft.state.closing) launchWaiting(draft);
  dropUnnamed(draft);
  if (draft.state.engines !== state.engines || draft.state.generation !== state.generation) {
    draft.commands.push({ type: 'report' });
  }
  return { state: draft.state, commands: draft.commands };
}

function apply(draft: Draft, event: AgentEvent): void {
  const { now } = draft.context;
  switch (event.type) {
    case 'welcome':
      draft.state = {
        ...draft.state,
        connected: true,
        leaseMs: event.leaseMs,
        lastAckAt: now,
        generation: 0,
      };
      return;
    case 'session_lost':
      draft.state = { ...draft.state, connected: false };
      return;
    case 'ack':
      draft.state = { ...draft.state, lastAckAt: now };
      return;
    case 'assignments':
      reconcile(draft, event.generation, event.engines, event.keep);
      return;
    case 'host_phase':
      hostPhase(draft, event.engineId, event.phase);
      return;
    case 'host_progress':
      whileRunning(draft, event.engineId, () => ({ progress: event.progress }));
      return;
    case 'host_listening':
      whileRunning(draft, event.engineId, () => ({ port: event.port, pid: event.pid }));
      stepBack(draft, event.engineId);
      return;
    case 'host_beat':
      whileRunning(draft, event.engineId, () => ({
        pid: event.pid,
        rssBytes: event.rssBytes,
        cpuMs: event.cpuMs,
        suspended: event.suspended,
        busySlots: event.busySlots,
      }));
      stepBack(draft, event.engineId);
      beyondLimit(draft, event.engineId);
      return;
    case 'host_canary':
      canaryAnswered(draft, event.engineId, event.firstToken, event.firstMargin, event.recorded);
      return;
    case 'host_exit':
      hostEnded(draft, event.engineId, event.error);
      return;
    case 'links_opened':
      linksOpened(draft, event.engineId, event.ports);
      return;
    case 'links_failed':
      fail(draft, event.engineId, event.error);
      return;
    case 'link_lost':
      stageLost(draft, event.engineId, event.stageEngineId, event.error);
      return;
    case 'links_observed':
      if (draft.state.engines.get(event.engineId)?.linksHeld)
        patch(draft, event.engineId, { links: event.links });
      return;
    case 'lend':
      lendChanged(draft, event);
      return;
    case 'devices_measured':
      devicesMeasured(draft, event.byPid);
      return;
    case 'tick':
      suspicionsOver(draft);
      gaveWay(draft);
      expireLease(draft);
      return;
    case 'shutdown':
      draft.state = { ...draft.state, closing: true };
      for (const engineId of draft.state.engines.keys()) stop(draft, engineId, null);
      return;
  }
}

function whileRunning(draft: Draft, engineId: EngineId, change: () => Partial<EngineRecord>): void {
  const record = draft.state.engines.get(engineId);
  if (record && isAlive(record) && !isFinal(record)) patch(draft, engineId, change());
}

function reconcile(
  draft: Draft,
  generation: number,
  engines: readonly EngineAssignment[],
  keep: readonly EngineId[],
): void {
  if (generation <= draft.state.generation) return;
  draft.state = {
    ...draft.state,
    generation,
    named: new Set([...engines.map((assignment) => assignment.engineId), ...keep]),
  };
  for (const engineId of draft.state.engines.keys()) {
    if (!draft.state.named.has(engineId)) stop(draft, engineId, null);
  }
  if (draft.state.closing) return;
  for (const assignment of engines) {
    if (!draft.state.engines.has(assignment.engineId)) takeOn(draft, assignment);
  }
}

function takeOn(draft: Draft, assignment: EngineAssignment): void {
  const refusal = refusalOf(draft, assignment);
  const fenced = refusal !== null && refusal.code !== 'node_gave_way';
  if (!fenced) draft.state = { ...draft.state, fences: withFence(draft.state.fences, assignment) };
  put(draft, assignment.engineId, {
    assignment,
    phase: refusal ? 'failed' : 'starting',
    error: refusal,
    progress: null,
    startedAt: draft.context.now,
    port: null,
    pid: null,
    apiKey: null,
    grant: null,
    rssBytes: null,
    deviceBytes: null,
    cpuMs: null,
    suspended: false,
    busySlots: null,
    links: [],
    host: refusal ? 'ended' : 'waiting',
    linksHeld: false,
    stopError: null,
    suspicion: null,
  });
}

/** Why an engine is not started here; null: it is. */
function refusalOf(draft: Draft, assignment: EngineAssignment): ErrorBody | null {
  if (isFenced(draft.state.fences, assignment)) {
    return {
      code: 'engine_start_failed',
      message: `engine ${assignment.engineId} has run here before and is over`,
    };
  }
  return draft.state.lend.awaySince === null ? null : gaveWayError(draft);
}

/**
 * The canary's first token must be the one this model gave here before, unless either time the second was so
 * close that rounding decides. The first answer ever is recorded.
 */
function canaryAnswered(
  draft: Draft,
  engineId: EngineId,
  firstToken: number | null,
  firstMargin: number | null,
  recorded: CanaryRecord | null,
): void {
  const record = draft.state.engines.get(engineId);
  if (!record || !isAlive(record) || isFinal(record) || record.assignment.kind !== 'llama') return;
  if (firstToken === null || firstMargin === null) return;
  if (!recorded) {
    draft.commands.push({
      type: 'recordCanary',
      modelHash: record.assignment.modelHash,
      record: { token: firstToken, margin: firstMargin },
    });
    return;
  }
  const certain = firstMargin >= certainMargin && recorded.margin >= certainMargin;
  if (certain && recorded.token !== firstToken) {
    fail(draft, engineId, {
      code: 'canary_failed',
      message: `the test prompt began with token ${firstToken}, but this model began it with ${recorded.token} here before: a stage computes wrongly`,
    });
  }
}

function expireLease(draft: Draft): void {
  const { connected, lastAckAt, leaseMs } = draft.state;
  if (connected || lastAckAt === null || draft.context.now - lastAckAt < leaseMs) return;
  const minutes = Math.round(leaseMs / 60_000);
  for (const engineId of draft.state.engines.keys()) {
    stop(draft, engineId, {
      code: 'lease_expired',
      message: `the controller was out of reach for ${minutes} minutes, so this engine was stopped`,
    });
  }
}
