import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { probeLimits } from './probe-limits.ts';

describe.runIf(process.platform === 'linux')('what can limit programs here', () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'covey-limits-'));
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  /** @param controllers of version 1 whose directories are there */
  const probe = (uid: number, uidMap: string, controllers: readonly string[] = []) => {
    const put = (name: string, lines: readonly string[]): string => {
      const file = join(directory, name);
      writeFileSync(file, lines.map((line) => `${line}\n`).join(''));
      return file;
    };
    for (const name of controllers) mkdirSync(join(directory, name, 'own'), { recursive: true });
    const mountOf = (name: string): string =>
      `30 25 0:26 / ${join(directory, name)} rw - cgroup cgroup rw,${name}`;
    const paths = {
      mountinfo: put('mountinfo', controllers.map(mountOf)),
      membership: put(
        'cgroup',
        controllers.map((name, index) => `${index + 1}:${name}:/own`),
      ),
      uidMap: put('uid_map', [uidMap]),
    };
    return probeLimits(paths, uid);
  };
  const whole = '         0          0 4294967295';

  it('are groups that can be made, and nothing is left of the trial', () => {
    const { limits, problem, processesHeld } = probe(0, whole, ['memory', 'pids']);
    const directories = { memory: join(directory, 'memory/own'), pids: join(directory, 'pids/own') };
    expect({ limits, problem, processesHeld }).toEqual({
      limits: { kind: 'cgroup1', directories },
      problem: null,
      processesHeld: true,
    });
    for (const own of Object.values(directories)) expect(readdirSync(own)).toEqual([]);
  });

  it('holds no number of processes of root without them', () => {
    for (const controllers of [[], ['memory']]) {
      expect(probe(0, whole, controllers)).toMatchObject({
        limits: { kind: 'rlimits' },
        problem: expect.stringContaining('No control group may be made here'),
        processesHeld: false,
      });
    }
  });

  it('holds that of other accounts, and of a root who is one of them outside', () => {
    for (const [uid, uidMap] of [
      [1000, whole],
      [0, '         0       1000          1'],
      [0, '         0     100000      65536'],
    ] as const) {
      expect(probe(uid, uidMap)).toMatchObject({ limits: { kind: 'rlimits' }, processesHeld: true });
    }
    expect(probe(0, '')).toMatchObject({ processesHeld: false });
  });
});
