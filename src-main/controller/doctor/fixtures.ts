import type { PathProbe } from '#shared/domain/network.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { WorkerMethod, WorkerParams } from '#shared/protocol/requests.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { RequestOptions } from '../sessions/request-tracker.ts';
import type { SessionRegistry } from '../sessions/session-registry.ts';
import { apply } from '../state/apply.ts';
import type { ControllerEvent } from '../state/events.ts';
import { emptyState, type ControllerState } from '../state/state.ts';

/** A runtime without loop and store, for tests of what reads state and notes events. */
export function stateOnly(...events: ControllerEvent[]): Pick<Runtime, 'state' | 'dispatch'> & {
  readonly noted: Extract<ControllerEvent, { type: 'noted' }>[];
} {
  const noted: Extract<ControllerEvent, { type: 'noted' }>[] = [];
  let state: ControllerState = emptyState(0);
  const dispatch = (...more: ControllerEvent[]): void => {
    for (const event of more) {
      if (event.type === 'noted') noted.push(event);
      state = apply(state, event);
    }
  };
  dispatch(...events);
  return {
    get state() {
      return state;
    },
    dispatch,
    noted,
  };
}

export type WorkerAnswer = (
  nodeId: NodeId,
  method: WorkerMethod,
  params: unknown,
  options: RequestOptions,
) => unknown;

/** Sessions whose workers answer by script. */
export function scriptedSessions(answer: WorkerAnswer): Pick<SessionRegistry, 'request'> {
  return {
    request: async <M extends WorkerMethod>(
      nodeId: NodeId,
      method: M,
      params: WorkerParams<M>,
      options: RequestOptions,
    ) => (await answer(nodeId, method, params, options)) as never,
  };
}

export const directProbe: PathProbe = { path: 'direct', rttMs: 0.4, bytesPerS: 1e8, attempts: [] };
