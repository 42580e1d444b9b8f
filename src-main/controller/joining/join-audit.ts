import type { Clock } from '#shared/lib/clock.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { ControllerEvent, NotedKind } from '../state/events.ts';

type Level = Extract<ControllerEvent, { type: 'noted' }>['level'];

export interface JoinAudit {
  note(kind: NotedKind, level: Level, message: string, nodeId?: NodeId): void;
  close(): void;
}

/** Per kind: events at once, and how fast further ones are allowed. */
const burst = 20;
const perS = 0.2;
const summaryMs = 60_000;

interface Budget {
  tokens: number;
  at: number;
  leftOut: number;
  summary: NodeJS.Timeout | null;
}

/**
 * Facts for the event list that a stranger can cause, so that a flood of one kind neither fills the list (each
 * event is a durable write) nor hides another: what was left out is counted in one event a minute.
 */
export function createJoinAudit(options: {
  readonly runtime: Pick<Runtime, 'dispatch'>;
  readonly clock: Clock;
  readonly logger: Logger;
}): JoinAudit {
  const { runtime, clock, logger } = options;
  const budgets = new Map<NotedKind, Budget>();

  const emit = (kind: NotedKind, level: Level, message: string, nodeId?: NodeId): void => {
    logger.log(level, message, nodeId === undefined ? { kind } : { kind, node: nodeId.slice(0, 12) });
    runtime.dispatch({
      type: 'noted',
      at: clock.now(),
      kind,
      level,
      message,
      ...(nodeId === undefined ? {} : { nodeId }),
    });
  };
  const summarise = (kind: NotedKind, level: Level, budget: Budget): void => {
    if (budget.summary) clearTimeout(budget.summary);
    budget.summary = null;
    const { leftOut } = budget;
    budget.leftOut = 0;
    if (leftOut > 0) emit(kind, level, `${leftOut} more of the kind were not listed one by one.`);
  };

  return {
    note(kind, level, message, nodeId) {
      const at = clock.now();
      const budget = budgets.get(kind) ?? { tokens: burst, at, leftOut: 0, summary: null };
      budgets.set(kind, budget);
      const refill = (Math.max(0, at - budget.at) / 1_000) * perS;
      budget.tokens = Math.min(burst, budget.tokens + refill);
      budget.at = at;
      if (budget.tokens < 1) {
        budget.leftOut += 1;
        budget.summary ??= setTimeout(() => summarise(kind, level, budget), summaryMs).unref();
        return;
      }
      budget.tokens -= 1;
      emit(kind, level, message, nodeId);
    },
    close() {
      for (const { summary } of budgets.values()) if (summary) clearTimeout(summary);
    },
  };
}
