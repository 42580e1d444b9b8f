import type { EngineId } from '#shared/lib/ids.ts';
import type { ErrorBody } from '#shared/errors.ts';
import { sizeText } from '#shared/lib/size-text.ts';
import { patch, type Draft } from './draft.ts';
import type { AgentEvent } from './events.ts';
import { deviceBytesOf } from './held-memory.ts';
import { fail, stop } from './lifecycle.ts';
import { isAlive, isFinal, type EngineRecord } from './state.ts';

/**
 * The owner's rules, applied to what runs:
 * 1. The machine is not lent any more: engines let its people compute first, at once, and may finish what they do
 *    until `giveWayMs` are over (`gaveWay`); the controller usually takes them away before.
 * 2. It is lent again before that: they compute as before.
 * 3. Less memory, or less of a card's, is lent than is in use: the newest engines go until it is enough.
 */
export function lendChanged(draft: Draft, event: Extract<AgentEvent, { type: 'lend' }>): void {
  const before = draft.state.lend;
  const { lending, why, cpuThreads, ramBytes, vramBytes } = event;
  const awaySince = lending ? null : (before.awaySince ?? draft.context.now);
  draft.state = { ...draft.state, lend: { awaySince, why, cpuThreads, ramBytes, vramBytes } };
  // 1., 2.
  if (lending !== (before.awaySince === null)) {
    for (const record of draft.state.engines.values()) setPriority(draft, record, !lending);
  }
  // 3.
  for (let excess = excessOf(draft); excess; excess = excessOf(draft)) {
    stop(draft, excess.newest.assignment.engineId, {
      code: 'node_gave_way',
      message: `this machine lends ${sizeText(excess.lentBytes)} of ${excess.what} now, and more was in use`,
    });
  }
}

/** What drivers tell of accelerators: kept, and held against the limits as the memory of a beat is. */
export function devicesMeasured(
  draft: Draft,
  byPid: ReadonlyMap<number, Readonly<Record<string, number>>>,
): void {
  for (const [engineId, record] of draft.state.engines) {
    const deviceBytes = record.pid !== null && isAlive(record) ? byPid.get(record.pid) : undefined;
    if (deviceBytes) patch(draft, engineId, { deviceBytes });
  }
  for (const engineId of draft.state.engines.keys()) beyondLimit(draft, engineId);
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
  if (draft.state.engines.get(engineId)?.phase !== 'ready') return;
  const excess = excessOf(draft);
  if (!excess) return;
  fail(draft, excess.newest.assignment.engineId, {
    code: 'engine_out_of_memory',
    message: `the engines here take ${sizeText(excess.usedBytes)} of ${excess.what}, but this machine lends ${sizeText(excess.lentBytes)}`,
  });
}

interface Excess {
  /** `memory`, or `memory on CUDA0`. */
  readonly what: string;
  readonly usedBytes: number;
  readonly lentBytes: number;
  /** The one that came last of those that hold any of it. */
  readonly newest: EngineRecord;
}

/** The first limit that all engines together exceed; those on their way out do not count. */
function excessOf({ state }: Draft): Excess | null {
  const { ramBytes, vramBytes } = state.lend;
  const limits = Object.entries(vramBytes);
  if (ramBytes === null && limits.length === 0) return null;
  const records = [...state.engines.values()].filter(
    (record) => isAlive(record) && !isFinal(record) && record.phase !== 'stopping',
  );
  const exceeds = (
    what: string,
    lentBytes: number,
    bytesOf: (record: EngineRecord) => number | undefined,
  ): Excess | null => {
    let usedBytes = 0;
    let newest: EngineRecord | null = null;
    for (const record of records) {
      const bytes = bytesOf(record);
      if (bytes === undefined) continue;
      usedBytes += bytes;
      if (newest === null || record.startedAt >= newest.startedAt) newest = record;
    }
    return newest && usedBytes > lentBytes ? { what, usedBytes, lentBytes, newest } : null;
  };
  const inMemory = ramBytes === null ? null : exceeds('memory', ramBytes, (record) => record.rssBytes ?? 0);
  if (inMemory) return inMemory;
  for (const [device, lentBytes] of limits) {
    const onCard = exceeds(`memory on ${device}`, lentBytes, (record) => deviceBytesOf(record).get(device));
    if (onCard) return onCard;
  }
  return null;
}

function setPriority(draft: Draft, record: EngineRecord, low: boolean): void {
  if (record.pid !== null && isAlive(record))
    draft.commands.push({ type: 'setPriority', pid: record.pid, low });
}
