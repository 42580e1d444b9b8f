import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';

export interface TreeProcess {
  readonly pid: number;
  readonly cpuMs: number;
  readonly rssBytes: number;
}

/** USER_HZ and the page size: see proc_pid_stat(5). Pages of 4 KiB are what Linux counts in on x64 and most arm64. */
const msPerTick = 10;
const pageBytes = 4096;

/**
 * Processes that descend from `pid`, and `pid` itself, parents before children. Linux only, elsewhere none. A process that
 * left its parent is missed unless something collects orphans (as the first process of a sandbox does).
 */
export function treeOf(pid: number): TreeProcess[] {
  if (process.platform !== 'linux') return [];
  const children = new Map<number, TreeProcess[]>();
  const found: TreeProcess[] = [];
  for (const name of namesIn('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      const parent = Number(fields[1]);
      const one = {
        pid: Number(name),
        cpuMs: (Number(fields[11]) + Number(fields[12])) * msPerTick,
        rssBytes: Number(fields[21]) * pageBytes,
      };
      if (one.pid === pid) found.push(one);
      const siblings = children.get(parent);
      if (siblings) siblings.push(one);
      else children.set(parent, [one]);
    } catch {
      // It has ended.
    }
  }
  const queue = [pid];
  for (let parent = queue.pop(); parent !== undefined; parent = queue.pop()) {
    for (const child of children.get(parent) ?? []) {
      found.push(child);
      queue.push(child.pid);
    }
  }
  return found;
}

/**
 * Bytes of files that some processes hold open after they were removed, on the file system of `directory`: they take as
 * much of the disk as others. A file that several hold counts once. Linux only, elsewhere 0.
 */
export function deletedBytes(tree: readonly TreeProcess[], directory: string): number {
  const counted = new Map<number, number>();
  const disk = statSync(directory, { throwIfNoEntry: false })?.dev;
  for (const { pid } of tree) {
    for (const name of namesIn(`/proc/${pid}/fd`)) {
      const path = `/proc/${pid}/fd/${name}`;
      try {
        if (!readlinkSync(path).endsWith(' (deleted)')) continue;
        const { dev, ino, size } = statSync(path);
        if (dev === disk) counted.set(ino, size);
      } catch {
        // Closed again, or not ours to look at.
      }
    }
  }
  return [...counted.values()].reduce((sum, bytes) => sum + bytes, 0);
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

/**
 * Ends processes that have a variable of that beginning, such as `COVEY_OUTPUT=/directory`: what a program without a
 * sandbox has started and let go of cannot be told from others otherwise. Linux only.
 * @returns how many there were
 */
export function killWith(variable: string): number {
  if (process.platform !== 'linux') return 0;
  let count = 0;
  for (const name of namesIn('/proc')) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
    try {
      const environment = readFileSync(`/proc/${name}/environ`, 'utf8');
      if (!environment.split('\0').some((text) => text.startsWith(variable))) continue;
    } catch {
      continue;
    }
    count += 1;
    trySignal(Number(name), 'SIGKILL');
  }
  return count;
}

export function trySignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended, or is somebody else's.
  }
}
