import { mkdirSync, readFileSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { LimitMethod } from '#shared/host/task-runner.ts';
import { treeOf, trySignal } from '../process-tree.ts';
import { pidsIn } from './limit-group.ts';

/** Where the system tells of control groups; tests have their own. */
export interface CgroupPaths {
  readonly mountinfo: string;
  readonly membership: string;
  /** What accounts here are outside of the user namespace. */
  readonly uidMap: string;
}
const ofThisProcess: CgroupPaths = {
  mountinfo: '/proc/self/mountinfo',
  membership: '/proc/self/cgroup',
  uidMap: '/proc/self/uid_map',
};

export interface LimitFacts {
  readonly limits: LimitMethod;
  /** Why it is not the best, as a sentence. */
  readonly problem: string | null;
  /** false: nothing keeps a program from starting ever more processes, which takes the whole machine down. */
  readonly processesHeld: boolean;
}

/**
 * The best way to limit programs here: control groups version 2, where a part of the tree is ours (systemd:
 * `Delegate=yes`); version 1, where its directories can be written; resource limits of each process and a look at all
 * of them; on Windows a Job Object. Each was tried, not assumed.
 * @param uid of this process; undefined: the system has no such numbers
 */
export function probeLimits(paths: CgroupPaths = ofThisProcess, uid = process.getuid?.()): LimitFacts {
  if (process.platform === 'win32') {
    return { limits: { kind: 'job-object' }, problem: null, processesHeld: true };
  }
  const processesHeld = uid !== 0 || !isRootOutside(paths);
  if (process.platform !== 'linux') {
    return {
      limits: { kind: 'rlimits' },
      problem: 'Memory and processes of programs are limited one by one only.',
      processesHeld,
    };
  }
  const second = tryCgroup2(paths);
  if (second !== null) {
    return { limits: { kind: 'cgroup2', directory: second }, problem: null, processesHeld: true };
  }
  const first = tryCgroup1(paths);
  if (first !== null) {
    return { limits: { kind: 'cgroup1', directories: first }, problem: null, processesHeld: true };
  }
  return {
    limits: { kind: 'rlimits' },
    problem:
      'No control group may be made here (for a systemd service: Delegate=yes), so memory and processes of programs are looked at twice a second only.',
    processesHeld,
  };
}

/**
 * setrlimit(2): the number of processes binds everybody but the root of the whole machine. Root of a user namespace
 * (rootless containers) is somebody else outside; user_namespaces(7): `inside outside length`.
 */
function isRootOutside({ uidMap }: CgroupPaths): boolean {
  const outside = lines(uidMap)
    .map((line) => line.trim().split(/\s+/))
    .find(([inside]) => inside === '0')?.[1];
  return outside === undefined || outside === '0';
}

function tryCgroup2(paths: CgroupPaths): string | null {
  const mount = mounts(paths).find(({ type }) => type === 'cgroup2');
  const path = memberships(paths).get('');
  if (!mount || path === undefined) return null;
  const own = join(mount.directory, inMount(path, mount.root));
  const controllers = (file: string): string[] => words(join(own, file));
  const wanted = ['memory', 'pids', 'cpu'].filter((name) => controllers('cgroup.controllers').includes(name));
  if (!wanted.includes('memory') || !wanted.includes('pids')) return null;
  try {
    sweep(own);
    if (!wanted.every((name) => controllers('cgroup.subtree_control').includes(name))) {
      // A group with processes of its own has no controllers for its children: they move to one of these.
      const leaf = join(own, 'covey-main');
      const ours = new Set(treeOf(process.pid).map(({ pid }) => pid));
      const members = pidsIn(own);
      if (!members.every((pid) => ours.has(pid))) return null;
      mkdirSync(leaf, { recursive: true });
      for (const pid of members) writeFileSync(join(leaf, 'cgroup.procs'), String(pid));
      writeFileSync(join(own, 'cgroup.subtree_control'), wanted.map((name) => `+${name}`).join(' '));
    }
    return canMake(own) ? own : null;
  } catch {
    return null;
  }
}

function tryCgroup1(paths: CgroupPaths): Record<string, string> | null {
  const member = memberships(paths);
  const directories: Record<string, string> = {};
  for (const controller of ['memory', 'pids', 'cpu', 'cpuacct']) {
    const mount = mounts(paths).find(
      ({ type, options }) => type === 'cgroup' && options.includes(controller),
    );
    const path = member.get(controller);
    if (!mount || path === undefined) continue;
    const directory = join(mount.directory, inMount(path, mount.root));
    sweep(directory);
    if (canMake(directory)) directories[controller] = directory;
  }
  return 'memory' in directories && 'pids' in directories ? directories : null;
}

function canMake(directory: string): boolean {
  const trial = join(directory, `covey-${process.pid}-0`);
  try {
    mkdirSync(trial);
    rmdirSync(trial);
    return true;
  } catch {
    return false;
  }
}

/** Ends what runners that are gone have left behind. */
export function sweepGroups(method: LimitMethod): void {
  if (method.kind === 'cgroup2') sweep(method.directory);
  if (method.kind === 'cgroup1') for (const directory of Object.values(method.directories)) sweep(directory);
}

/** Groups of a runner that is gone: what is left in them ends. */
function sweep(directory: string): void {
  let names: string[];
  try {
    names = readdirSync(directory);
  } catch {
    return;
  }
  for (const name of names) {
    const pid = Number(/^covey-(\d+)-\d+$/.exec(name)?.[1] ?? NaN);
    if (Number.isNaN(pid) || runs(pid)) continue;
    const group = join(directory, name);
    for (const member of pidsIn(group)) trySignal(member, 'SIGKILL');
    try {
      rmdirSync(group);
    } catch {
      // Next time: its members are still on their way out.
    }
  }
}

function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

interface Mount {
  readonly directory: string;
  /** What of the hierarchy is mounted there. */
  readonly root: string;
  readonly type: string;
  readonly options: readonly string[];
}

/** proc_pid_mountinfo(5): `36 35 98:0 /root /directory options - type source superoptions`. */
function mounts({ mountinfo }: CgroupPaths): Mount[] {
  return lines(mountinfo).flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ');
    const [, , , root, directory] = before.split(' ');
    const [type, , options = ''] = after.split(' ');
    if (root === undefined || directory === undefined || type === undefined) return [];
    return [{ directory, root, type, options: options.split(',') }];
  });
}

/** cgroups(7): `5:cpu,cpuacct:/path`, version 2 without a controller. */
function memberships({ membership }: CgroupPaths): Map<string, string> {
  const found = new Map<string, string>();
  for (const line of lines(membership)) {
    const match = /^\d+:([^:]*):(.*)$/.exec(line);
    if (match) for (const controller of (match[1] ?? '').split(',')) found.set(controller, match[2] ?? '/');
  }
  return found;
}

function inMount(path: string, root: string): string {
  if (root === '/') return path;
  return path.startsWith(root) ? path.slice(root.length) : '/';
}

function lines(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n').filter(Boolean);
  } catch {
    return [];
  }
}

function words(path: string): string[] {
  return lines(path).join(' ').split(/\s+/).filter(Boolean);
}
