import type { EngineId } from '#shared/lib/ids.ts';
import type { AgentCommand, StepContext } from './events.ts';
import type { AgentState, EngineRecord } from './state.ts';

/** One step in the making: a copy of the state that its functions change, and the commands they issue. */
export interface Draft {
  state: AgentState;
  readonly commands: AgentCommand[];
  readonly context: StepContext;
}

/** Replaces parts of one engine's record. Unknown engines are ignored: events may arrive after their end. */
export function patch(draft: Draft, engineId: EngineId, change: Partial<EngineRecord>): void {
  const record = draft.state.engines.get(engineId);
  if (!record) return;
  put(draft, engineId, { ...record, ...change });
}

export function put(draft: Draft, engineId: EngineId, record: EngineRecord): void {
  const engines = new Map(draft.state.engines);
  engines.set(engineId, record);
  draft.state = { ...draft.state, engines };
}

export function drop(draft: Draft, engineId: EngineId): void {
  const engines = new Map(draft.state.engines);
  engines.delete(engineId);
  draft.state = { ...draft.state, engines };
}
