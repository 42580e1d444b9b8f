import { readFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';

/** Cores of this machine as far as this process may use them. */
export interface Cores {
  readonly model: string;
  /** Cores that compute without sharing their units with a twin. */
  readonly physical: number;
  readonly logical: number;
}

/**
 * Cheap and synchronous; on Linux from /proc/cpuinfo. Elsewhere the physical count is the logical one until the
 * full probe knows better: an estimate too high costs less than idle cores.
 */
export function readCores(): Cores {
  const list = cpus();
  const logical = Math.max(1, list.length);
  const usable = availableParallelism();
  const physical = process.platform === 'linux' ? countPhysical(readCpuInfo()) : null;
  return {
    model: list[0]?.model.trim() || 'unknown CPU',
    physical: Math.max(1, Math.min(physical ?? logical, usable)),
    logical,
  };
}

function readCpuInfo(): string {
  try {
    return readFileSync('/proc/cpuinfo', 'latin1');
  } catch {
    return '';
  }
}

/** Distinct (package, core) pairs; null where the system does not list them (ARM has no twins to tell apart). */
export function countPhysical(cpuInfo: string): number | null {
  const pairs = new Set<string>();
  for (const block of cpuInfo.split(/\n\n+/)) {
    const core = /^core id\s*:\s*(\d+)/m.exec(block)?.[1];
    if (core === undefined) continue;
    pairs.add(`${/^physical id\s*:\s*(\d+)/m.exec(block)?.[1] ?? '0'}/${core}`);
  }
  return pairs.size === 0 ? null : pairs.size;
}
