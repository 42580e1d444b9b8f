import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { LimitMethod } from '#shared/host/task-runner.ts';
import { treeOf, trySignal } from '../process-tree.ts';

export interface Wanted {
  readonly memoryBytes: number;
  readonly processes: number;
  /** Of one file; more than one is watched. */
  readonly fileBytes: number;
  readonly cpus: number;
}

export interface GroupUsage {
  readonly cpuMs: number | null;
  readonly peakBytes: number | null;
}

/** The limits of one task, for as long as it takes, and what it used of them. */
export interface LimitGroup {
  /** Options of covey-launch that put a program under them. */
  readonly launchOptions: readonly string[];
  /** Looks at `pid` and what runs below it; @returns the limit that it passed, where the system does not hold it. */
  look(pid: number): 'memory' | 'processes' | null;
  usage(): GroupUsage;
  /** Whether the system ended something of it because the memory was used up. */
  memoryExceeded(): boolean;
  /** Ends whatever is left of it. */
  kill(pid: number | null): void;
  /** Resolves when nothing of it is left, or after a few seconds. */
  remove(): Promise<void>;
}

const maxOpenFiles = 4096;
const removeMs = 5_000;
const pollMs = 20;

let groups = 0;

/** @throws what the system says when a group cannot be made */
export function createLimitGroup(method: LimitMethod, wanted: Wanted): LimitGroup {
  const files = [
    ...['--limit', 'core=0', '--limit', `fsize=${wanted.fileBytes}`],
    ...['--limit', `nofile=${maxOpenFiles}`],
  ];
  const name = `covey-${process.pid}-${(groups += 1)}`;
  switch (method.kind) {
    case 'cgroup2':
      return controlGroup({ all: join(method.directory, name) }, cgroup2, files, wanted);
    case 'cgroup1': {
      const directories: Record<string, string> = {};
      for (const [controller, directory] of Object.entries(method.directories)) {
        directories[controller] = join(directory, name);
      }
      return controlGroup(directories, cgroup1, files, wanted);
    }
    case 'rlimits':
    case 'job-object':
      return watchedGroup(method.kind, files, wanted);
  }
}

/** What the two versions of control groups call things; a controller that is missing gives null or is left out. */
interface Dialect {
  readonly settings: (wanted: Wanted) => readonly {
    readonly controller: string;
    readonly file: string;
    readonly value: string;
    readonly optional?: boolean;
  }[];
  readonly cpuMs: (read: Read) => number | null;
  readonly peakBytes: (read: Read) => number | null;
  readonly outOfMemory: (read: Read) => boolean;
}
type Read = (controller: string, file: string) => string | null;

const periodUs = 100_000;
const quotaUs = ({ cpus }: Wanted): number => Math.max(1_000, Math.round(cpus * periodUs));

const cgroup2: Dialect = {
  settings: (wanted) => [
    { controller: 'all', file: 'memory.max', value: String(wanted.memoryBytes) },
    { controller: 'all', file: 'memory.swap.max', value: '0', optional: true },
    { controller: 'all', file: 'pids.max', value: String(wanted.processes) },
    { controller: 'all', file: 'cpu.max', value: `${quotaUs(wanted)} ${periodUs}`, optional: true },
  ],
  cpuMs: (read) => {
    const found = /^usage_usec (\d+)/m.exec(read('all', 'cpu.stat') ?? '');
    return found ? Number(found[1]) / 1_000 : null;
  },
  peakBytes: (read) => numberOrNull(read('all', 'memory.peak')),
  outOfMemory: (read) => /^oom_kill [1-9]/m.test(read('all', 'memory.events') ?? ''),
};

const cgroup1: Dialect = {
  settings: (wanted) => [
    { controller: 'memory', file: 'memory.limit_in_bytes', value: String(wanted.memoryBytes) },
    {
      controller: 'memory',
      file: 'memory.memsw.limit_in_bytes',
      value: String(wanted.memoryBytes),
      optional: true,
    },
    { controller: 'pids', file: 'pids.max', value: String(wanted.processes) },
    { controller: 'cpu', file: 'cpu.cfs_period_us', value: String(periodUs), optional: true },
    { controller: 'cpu', file: 'cpu.cfs_quota_us', value: String(quotaUs(wanted)), optional: true },
  ],
  cpuMs: (read) => {
    const nanoseconds = numberOrNull(read('cpuacct', 'cpuacct.usage'));
    return nanoseconds === null ? null : nanoseconds / 1e6;
  },
  peakBytes: (read) => numberOrNull(read('memory', 'memory.max_usage_in_bytes')),
  outOfMemory: (read) => /^oom_kill [1-9]/m.test(read('memory', 'memory.oom_control') ?? ''),
};

function controlGroup(
  directories: Readonly<Record<string, string>>,
  dialect: Dialect,
  files: readonly string[],
  wanted: Wanted,
): LimitGroup {
  const read: Read = (controller, file) => {
    try {
      return readFileSync(join(directories[controller] ?? '/nowhere', file), 'latin1');
    } catch {
      return null;
    }
  };
  // Controllers may share a mount (`cpu,cpuacct`), and so a directory.
  const all = [...new Set(Object.values(directories))];
  const removeAll = (): boolean => {
    let gone = true;
    for (const directory of all) {
      try {
        rmdirSync(directory);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') gone = false;
      }
    }
    return gone;
  };
  try {
    for (const directory of all) mkdirSync(directory);
    for (const { controller, file, value, optional } of dialect.settings(wanted)) {
      const directory = directories[controller];
      if (directory === undefined && optional) continue;
      try {
        writeFileSync(join(directory ?? '/nowhere', file), value);
      } catch (error) {
        if (!optional) throw error;
      }
    }
  } catch (error) {
    removeAll();
    throw error;
  }
  let last: GroupUsage = { cpuMs: null, peakBytes: null };
  let exceeded = false;
  const look = (): void => {
    last = {
      cpuMs: dialect.cpuMs(read) ?? last.cpuMs,
      peakBytes: dialect.peakBytes(read) ?? last.peakBytes,
    };
    exceeded ||= dialect.outOfMemory(read);
  };
  const killAll = (): void => {
    for (const directory of all) {
      try {
        writeFileSync(join(directory, 'cgroup.kill'), '1');
      } catch {
        // Version 1, or an older kernel: one by one.
        for (const pid of pidsIn(directory)) trySignal(pid, 'SIGKILL');
      }
    }
  };
  return {
    launchOptions: [...all.flatMap((directory) => ['--cgroup', directory]), ...files],
    look: () => {
      look();
      return null;
    },
    usage: () => {
      look();
      return last;
    },
    memoryExceeded: () => {
      look();
      return exceeded;
    },
    kill: killAll,
    async remove() {
      look();
      const deadline = performance.now() + removeMs;
      killAll();
      while (!removeAll() && performance.now() < deadline) {
        await delay(pollMs);
        killAll();
      }
    },
  };
}

/**
 * Without control groups: limits of each process, and a look at all of them twice a second. `data` bounds what one
 * process can write to; address space would forbid runtimes that only reserve much of it.
 */
function watchedGroup(kind: 'rlimits' | 'job-object', files: readonly string[], wanted: Wanted): LimitGroup {
  const cpuMs = new Map<number, number>();
  const killed = new Set<number>();
  let peakBytes: number | null = null;
  let exceeded = false;
  return {
    launchOptions: [
      ...files,
      ...['--limit', `data=${wanted.memoryBytes}`],
      // Counts all processes of this user: on other systems than Windows it would forbid what others have begun.
      ...(kind === 'job-object' ? ['--limit', `nproc=${wanted.processes}`] : []),
    ],
    look(pid) {
      const tree = treeOf(pid);
      for (const one of tree) cpuMs.set(one.pid, one.cpuMs);
      const rssBytes = tree.reduce((sum, one) => sum + one.rssBytes, 0);
      if (tree.length > 0) peakBytes = Math.max(peakBytes ?? 0, rssBytes);
      if (rssBytes > wanted.memoryBytes) exceeded = true;
      return exceeded ? 'memory' : tree.length > wanted.processes ? 'processes' : null;
    },
    usage: () => ({
      cpuMs: cpuMs.size === 0 ? null : [...cpuMs.values()].reduce((sum, ms) => sum + ms, 0),
      peakBytes,
    }),
    memoryExceeded: () => exceeded,
    kill(pid) {
      if (pid === null) return;
      const tree = treeOf(pid);
      for (const one of tree) killed.add(one.pid);
      for (const one of tree) trySignal(one.pid, 'SIGKILL');
    },
    async remove() {
      const deadline = performance.now() + removeMs;
      while ([...killed].some(isThere) && performance.now() < deadline) await delay(pollMs);
    },
  };
}

export function pidsIn(directory: string): number[] {
  try {
    return readFileSync(join(directory, 'cgroup.procs'), 'latin1').split('\n').filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function numberOrNull(text: string | null): number | null {
  const value = text === null ? NaN : Number(text.trim());
  return Number.isFinite(value) ? value : null;
}
