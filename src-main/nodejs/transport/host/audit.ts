import type { TransportAudit } from '#shared/host/transport.ts';

const burst = 10;
const perS = 0.2;

interface Budget {
  tokens: number;
  at: number;
  leftOut: number;
}

/**
 * Facts for the log, per kind at most `burst` at once and `perS` on average, so that a flood of one neither
 * fills the log nor hides another; what was left out is counted in the next line.
 * @param now monotonic ms
 */
export function createAudit(
  emit: (audit: TransportAudit) => void,
  now: () => number,
): (audit: TransportAudit) => void {
  const budgets = new Map<TransportAudit['kind'], Budget>();
  return (audit) => {
    const at = now();
    const budget = budgets.get(audit.kind) ?? { tokens: burst, at, leftOut: 0 };
    budgets.set(audit.kind, budget);
    budget.tokens = Math.min(burst, budget.tokens + ((at - budget.at) / 1000) * perS);
    budget.at = at;
    if (budget.tokens < 1) {
      budget.leftOut += 1;
      return;
    }
    budget.tokens -= 1;
    const { leftOut } = budget;
    budget.leftOut = 0;
    emit(leftOut > 0 ? { ...audit, detail: `${audit.detail} (${leftOut} more were not logged)` } : audit);
  };
}
