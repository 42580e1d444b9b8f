import type { NodeId } from '#shared/lib/ids.ts';
import type { ControllerState } from '../state/state.ts';

const maxLength = 64;

/** A machine's own name for itself as one word without characters that could deceive; never empty. */
export function cleanName(wanted: string, nodeId: NodeId): string {
  const word = wanted.trim().replace(/[\s\p{C}]+/gu, '-');
  // By characters, so that none is cut in two.
  return [...word].slice(0, maxLength).join('') || nodeId.slice(0, 8);
}

/** Two machines called "debian" become "debian" and "debian-2": names stand in commands. */
export function uniqueName(state: ControllerState, wanted: string, nodeId: NodeId): string {
  const base = cleanName(wanted, nodeId);
  const taken = new Set(
    [...state.nodes.values()].filter((n) => n.durable.id !== nodeId).map((n) => n.durable.name),
  );
  if (!taken.has(base)) return base;
  let number = 2;
  while (taken.has(`${base}-${number}`)) number += 1;
  return `${base}-${number}`;
}
