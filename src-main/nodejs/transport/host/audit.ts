import type { TransportAudit } from '#shared/host/transport.ts';

/** Facts for the log, at most `burst` at once and `perS` on average; what was left out is counted in the next. */
export function createAudit(
  emit: (audit: TransportAudit) => void,
  now: () => number,
): (audit: TransportAudit) => void {
  const burst = 20;
  const perS = 0.5;
  let tokens = burst;
  let at = now();
  let leftOut = 0;
  return (audit) => {
    const time = now();
    tokens = Math.min(burst, tokens + ((time - at) / 1000) * perS);
    at = time;
    if (tokens < 1) {
      leftOut += 1;
      return;
    }
    tokens -= 1;
    emit(leftOut > 0 ? { ...audit, detail: `${audit.detail} (${leftOut} more were not logged)` } : audit);
    leftOut = 0;
  };
}
