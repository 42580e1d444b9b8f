import { readdirSync, readFileSync } from 'node:fs';

export interface TreeProcess {
  readonly pid: number;
  readonly cpuMs: number;
  readonly rssBytes: number;
}

/** USER_HZ and the page size: see proc_pid_stat(5). Pages of 4 KiB are what Linux counts in on x64 and most arm64. */
const msPerTick = 10;
const pageBytes = 4096;

/**
 * Processes that descend from `pid`, without it, parents before children. Linux only, elsewhere none. A process that
 * left its parent is missed unless something collects orphans (as the first process of a sandbox does).
 */
export function descendantsOf(pid: number): TreeProcess[] {
  if (process.platform !== 'linux') return [];
  const children = new Map<number, TreeProcess[]>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      const parent = Number(fields[1]);
      const found = {
        pid: Number(name),
        cpuMs: (Number(fields[11]) + Number(fields[12])) * msPerTick,
        rssBytes: Number(fields[21]) * pageBytes,
      };
      const siblings = children.get(parent);
      if (siblings) siblings.push(found);
      else children.set(parent, [found]);
    } catch {
      // It has ended.
    }
  }
  const found: TreeProcess[] = [];
  const queue = [pid];
  for (let parent = queue.pop(); parent !== undefined; parent = queue.pop()) {
    for (const child of children.get(parent) ?? []) {
      found.push(child);
      queue.push(child.pid);
    }
  }
  return found;
}

export function trySignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended, or is somebody else's.
  }
}
