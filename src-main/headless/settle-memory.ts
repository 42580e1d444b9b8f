import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** By then a role has started, joined and said what it is. */
const settleMs = 5_000;

type CollectGarbage = (options: { type: 'major'; flavor: 'last-resort'; execution: 'sync' }) => void;

/**
 * Gives back, once, what only the start needed: an idle process allocates so little that V8 would keep it for
 * hours. Takes some tens of milliseconds. `gc` is V8's own, made visible for this one call.
 */
export function settleMemory(): void {
  setTimeout(() => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as CollectGarbage;
    setFlagsFromString('--no-expose-gc');
    collect({ type: 'major', flavor: 'last-resort', execution: 'sync' });
  }, settleMs).unref();
}
