import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { EngineObservation } from '#shared/domain/engine.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { ProcessHost } from '../../src-main/nodejs/process-host/process-host.ts';
import type { Transport } from '../../src-main/nodejs/transport/transport.ts';
import type { AgentCommand, AgentEvent } from '../agent/events.ts';
import { observe } from '../agent/observe.ts';
import { initialAgentState, isAlive, isQuiet, type AgentConfig, type EngineRecord } from '../agent/state.ts';
import { step } from '../agent/step.ts';
import { setProgramPriority } from '../engines/priority.ts';
import { createEngineSupervisor, type SupervisedEvent } from '../engines/engine-supervisor.ts';
import { openCanaryRecords } from '../journal/canary-records.ts';
import { usedBy, type Used } from '../lend/limits.ts';
import type { WorkerEngine } from '../worker-engine.ts';
import { createLinkManager } from './link-manager.ts';

const tickMs = 500;

export interface AgentRuntime {
  dispatch(event: AgentEvent): void;
  observed(): EngineObservation[];
  /** What the engines that live take of this machine. */
  used(): Used;
  /** The last assignments generation that was acted on. */
  readonly generation: number;
  /** Stops every engine; resolves when they are gone, at the latest shortly after the grace. */
  close(): Promise<void>;
}

/**
 * The impure half of the agent: holds its state, feeds it facts one at a time, and executes its commands with the
 * supervisor, the links and the transport. `onReport` says that the observed set has changed.
 */
export function createAgentRuntime(options: {
  readonly config: AgentConfig;
  readonly journalDirectory: string;
  readonly engine: WorkerEngine;
  readonly processHost: ProcessHost;
  readonly transport: Pick<Transport, 'addGrant' | 'removeGrants' | 'renewGrants' | 'openLink'>;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly onReport: () => void;
}): AgentRuntime {
  const { logger, transport, journalDirectory } = options;
  const canaries = openCanaryRecords(journalDirectory);
  let state = initialAgentState(options.config);
  const quietListeners = new Set<() => void>();

  // A command can cause an event before it returns; facts are still applied one after the other.
  const queue: AgentEvent[] = [];
  let draining = false;
  const dispatch = (event: AgentEvent): void => {
    queue.push(event);
    if (draining) return;
    draining = true;
    try {
      for (let next = queue.shift(); next; next = queue.shift()) apply(next);
    } finally {
      draining = false;
    }
  };

  const apply = (event: AgentEvent): void => {
    const before = state.engines;
    const result = step(state, event, {
      now: options.clock.now(),
      newSecret: () => randomBytes(32).toString('hex'),
    });
    state = result.state;
    // Grants live as long as the engines that they are for may: by the controller's word.
    if (event.type === 'ack' || event.type === 'welcome') transport.renewGrants();
    for (const command of result.commands) execute(command);
    if (state.engines !== before) logChanges(logger, before, state.engines);
    if (quietListeners.size > 0 && isQuiet(state)) for (const listener of quietListeners) listener();
  };

  const supervisor = createEngineSupervisor({
    processHost: options.processHost,
    logger,
    journalDirectory,
    onEvent: (event) => dispatch(asAgentEvent(event)),
  });
  const links = createLinkManager(transport, dispatch);

  const asAgentEvent = (supervised: SupervisedEvent): AgentEvent => {
    const { engineId } = supervised;
    if (supervised.type === 'ended') return { type: 'host_exit', engineId, error: supervised.error };
    const { event } = supervised;
    switch (event.type) {
      case 'phase':
        return { type: 'host_phase', engineId, phase: event.phase };
      case 'progress':
        return { type: 'host_progress', engineId, progress: event.progress };
      case 'listening':
        return { type: 'host_listening', engineId, port: event.port, pid: event.pid };
      case 'beat':
        return { ...event, type: 'host_beat', engineId };
      case 'canary': {
        const assignment = state.engines.get(engineId)?.assignment;
        return {
          type: 'host_canary',
          engineId,
          firstToken: event.tokenIds[0] ?? null,
          firstMargin: event.firstMargin,
          recorded: assignment?.kind === 'llama' ? canaries.get(assignment.modelHash) : null,
        };
      }
    }
  };

  const execute = (command: AgentCommand): void => {
    switch (command.type) {
      case 'startEngine': {
        const { engineId, deploymentId } = command.assignment;
        const { engine } = options;
        if (engine.directory === null) {
          dispatch({
            type: 'host_exit',
            engineId,
            error: { code: 'engine_directory_missing', message: engine.reason },
          });
          return;
        }
        supervisor.start({
          type: 'init',
          engineId,
          deploymentId,
          engineDirectory: engine.directory,
          rpcProtocol: engine.rpcProtocol,
          journalDirectory,
          program: command.program,
        });
        return;
      }
      case 'stopEngine':
        supervisor.stop(command.engineId, command.graceMs);
        return;
      case 'setPriority':
        setProgramPriority(command.pid, command.low);
        return;
      case 'openLinks':
        links.open(command.engineId, command.stages);
        return;
      case 'closeLinks':
        links.close(command.engineId);
        return;
      case 'addGrant': {
        const { type: _type, ...grant } = command;
        transport.addGrant({ ...grant, ttlMs: state.leaseMs });
        return;
      }
      case 'removeGrants':
        transport.removeGrants(command.engineId);
        return;
      case 'recordCanary':
        try {
          canaries.set(command.modelHash, command.record);
        } catch (error) {
          logger.warn('the canary record could not be written', {
            reason: String(error),
            path: join(journalDirectory, 'canary.json'),
          });
        }
        return;
      case 'report':
        options.onReport();
        return;
    }
  };

  const ticker = setInterval(() => dispatch({ type: 'tick' }), tickMs);

  return {
    dispatch,
    observed: () => observe(state),
    used: () => usedBy([...state.engines.values()].filter(isAlive)),
    get generation() {
      return state.generation;
    },
    async close() {
      dispatch({ type: 'shutdown' });
      const quiet = new Promise<void>((resolve) => {
        quietListeners.add(resolve);
        if (isQuiet(state)) resolve();
      });
      await Promise.race([quiet, delay(options.config.stopGraceMs + 1_000, undefined, { ref: false })]);
      clearInterval(ticker);
      await supervisor.close(0);
      links.closeAll();
    },
  };
}

function logChanges(
  logger: Logger,
  before: ReadonlyMap<string, EngineRecord>,
  after: ReadonlyMap<string, EngineRecord>,
): void {
  for (const [engineId, record] of after) {
    if (before.get(engineId)?.phase === record.phase) continue;
    const failed = record.phase === 'failed';
    logger.log(failed ? 'error' : 'info', `engine ${record.phase}`, {
      engine: engineId,
      kind: record.assignment.kind,
      ...(record.error ? { code: record.error.code, reason: record.error.message } : {}),
    });
  }
}
