import type { EngineId } from '#shared/lib/ids.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { Draft } from './draft.ts';
import type { AgentEvent } from './events.ts';
import { fail, stop } from './lifecycle.ts';
import { isAlive, isFinal, type EngineRecord } from './state.ts';

/**
 * The owner's rules, applied to what runs:
 * 1. The machine is not lent any more: engines let its people compute first, at once, and may finish what they do
 *    until `giveWayMs` are over (`gaveWay`); the controller usually takes them away before.
 * 2. It is lent again before that: they compute as before.
 * 3. Less memory is lent than is in use: the newest engines go until it is enough.
 */
export function lendChanged(draft: Draft, event: Extract<AgentEvent, { type: 'lend' }>): void {
  const before = draft.state.lend;
  const { lending, why, cpuThreads, ramBytes } = event;
  const awaySince = lending ? null : (before.awaySince ?? draft.context.now);
  draft.state = { ...draft.state, lend: { awaySince, why, cpuThreads, ramBytes } };
  // 1., 2.
  if (lending !== (before.awaySince === null)) {
    for (const record of draft.state.engines.values()) setPriority(draft, record, !lending);
  }
  // 3.
  if (ramBytes === null) return;
  for (let excess = excessOf(draft, ramBytes); excess; excess = excessOf(draft, ramBytes)) {
    stop(draft, excess.newest.assignment.engineId, {
      code: 'node_gave_way',
      message: `this machine lends ${inGb(ramBytes)} of memory now, and more was in use`,
    });
  }
}

/** While the machine is not lent a program steps back as soon as it is known, and so do threads it starts. */
export function stepBack(draft: Draft, engineId: EngineId): void {
  const record = draft.state.engines.get(engineId);
  if (record && draft.state.lend.awaySince !== null) setPriority(draft, record, true);
}

/** The time to finish is over: what runs still, ends. */
export function gaveWay(draft: Draft): void {
  const { awaySince } = draft.state.lend;
  if (awaySince === null || draft.context.now - awaySince < draft.state.config.giveWayMs) return;
  for (const engineId of draft.state.engines.keys()) stop(draft, engineId, gaveWayError(draft));
}

export function gaveWayError(draft: Draft): ErrorBody {
  const { why } = draft.state.lend;
  return { code: 'node_gave_way', message: `this machine is not lent now${why === '' ? '' : `: ${why}`}` };
}

/** After a load: what engines take together may be more than the plan thought, and more than is lent. */
export function beyondLimit(draft: Draft, engineId: EngineId): void {
  const { ramBytes } = draft.state.lend;
  if (ramBytes === null || draft.state.engines.get(engineId)?.phase !== 'ready') return;
  const excess = excessOf(draft, ramBytes);
  if (!excess) return;
  fail(draft, excess.newest.assignment.engineId, {
    code: 'engine_out_of_memory',
    message: `the engines here take ${inGb(excess.usedBytes)} of memory, but this machine lends ${inGb(ramBytes)}`,
  });
}

/** The engine that came last, when all together hold more than is lent; those on their way out do not count. */
function excessOf(
  draft: Draft,
  ramBytes: number,
): { readonly usedBytes: number; readonly newest: EngineRecord } | null {
  let usedBytes = 0;
  let newest: EngineRecord | null = null;
  for (const record of draft.state.engines.values()) {
    if (!isAlive(record) || isFinal(record) || record.phase === 'stopping') continue;
    usedBytes += record.rssBytes ?? 0;
    if (newest === null || record.startedAt >= newest.startedAt) newest = record;
  }
  return newest && usedBytes > ramBytes ? { usedBytes, newest } : null;
}

function setPriority(draft: Draft, record: EngineRecord, low: boolean): void {
  if (record.pid !== null && isAlive(record))
    draft.commands.push({ type: 'setPriority', pid: record.pid, low });
}

function inGb(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}
