import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { waitFor } from '../support/wait.ts';

/** A control group whose processes get a part of one processor together. */
export interface Quota {
  /** Put before a command line: the program and what it starts are in the group. */
  readonly prefix: readonly [string, ...string[]];
  /** Before that there is no limit, so that starts take no longer than elsewhere. */
  limit(percent: number): void;
  unlimited(): void;
  /** Once its processes have ended. */
  remove(): Promise<void>;
}

const root = '/sys/fs/cgroup';
const periodUs = 20_000;

/** Why there are no quotas here; null: there are (Linux, root, control groups with the cpu controller). */
export function quotaProblem(): string | null {
  const directory = groupsDirectory();
  if (directory === null) return 'there is no control group with the cpu controller here';
  try {
    accessSync(directory, constants.W_OK);
    return null;
  } catch {
    return `${directory} cannot be written (root can)`;
  }
}

/** Version 1 where its cpu controller is mounted, else version 2. */
function groupsDirectory(): string | null {
  if (existsSync(path.join(root, 'cpu', 'cpu.cfs_quota_us'))) return path.join(root, 'cpu');
  const controllers = path.join(root, 'cgroup.subtree_control');
  return existsSync(controllers) && readFileSync(controllers, 'utf8').includes('cpu') ? root : null;
}

export function createQuota(name: string): Quota {
  const parent = groupsDirectory();
  if (parent === null) throw new Error(quotaProblem() ?? 'no control groups');
  const directory = path.join(parent, `covey-bench-${process.pid}-${name}`);
  mkdirSync(directory);
  const set = (quotaUs: number | null): void => {
    if (parent === root) {
      writeFileSync(path.join(directory, 'cpu.max'), `${quotaUs ?? 'max'} ${periodUs}`);
      return;
    }
    writeFileSync(path.join(directory, 'cpu.cfs_period_us'), String(periodUs));
    writeFileSync(path.join(directory, 'cpu.cfs_quota_us'), String(quotaUs ?? -1));
  };
  const members = path.join(directory, 'cgroup.procs');
  return {
    prefix: ['/bin/sh', '-c', 'echo $$ > "$0" && exec "$@"', members],
    limit: (percent) => set((periodUs * percent) / 100),
    unlimited: () => set(null),
    async remove() {
      // Only a group without processes and groups can be removed; those of tasks are gone with their worker, or now.
      const gone = (): true => {
        for (const { name: inner, parentPath } of readdirSync(directory, { withFileTypes: true })) {
          if (inner.startsWith('covey-')) rmdirSync(path.join(parentPath, inner));
        }
        rmdirSync(directory);
        return true;
      };
      await waitFor(`${directory} to be removed`, gone, 10_000);
    },
  };
}
