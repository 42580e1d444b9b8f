import type { LendRules } from '#shared/domain/lend.ts';
import type { EngineObservation } from '#shared/domain/engine.ts';
import type { DeviceUse } from '../probe/machine-probe.ts';

const lookEveryMs = 5_000;

/**
 * While the owner limits a graphics card and engines run, tells what each of them holds on cards. What no rule asks
 * for is not looked at. Returns what ends it.
 */
export function watchCardLimits(options: {
  readonly limits: () => LendRules['limits'];
  readonly engines: () => readonly Pick<EngineObservation, 'pid'>[];
  readonly measure: (pids: readonly number[]) => Promise<DeviceUse>;
  readonly onMeasured: (use: DeviceUse) => void;
}): () => void {
  let looking = false;
  let ended = false;
  const look = async (): Promise<void> => {
    if (looking || Object.keys(options.limits().vramBytes).length === 0) return;
    const pids = options.engines().flatMap(({ pid }) => (pid === null ? [] : [pid]));
    if (pids.length === 0) return;
    looking = true;
    const use = await options.measure(pids).finally(() => (looking = false));
    if (!ended && use.size > 0) options.onMeasured(use);
  };
  const timer = setInterval(() => void look(), lookEveryMs);
  return () => {
    ended = true;
    clearInterval(timer);
  };
}
