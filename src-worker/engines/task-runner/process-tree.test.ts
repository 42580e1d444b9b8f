import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { deletedBytes, killWith, treeOf } from './process-tree.ts';

describe.runIf(process.platform === 'linux')('processes of a program', () => {
  let directory: string;
  const started: ChildProcess[] = [];
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'covey-tree-'));
  });
  afterEach(() => {
    for (const child of started.splice(0)) child.kill('SIGKILL');
    rmSync(directory, { recursive: true, force: true });
  });
  const start = (script: string, env: Record<string, string> = {}): ChildProcess => {
    const child = spawn('/bin/sh', ['-c', script], { env, cwd: directory, stdio: 'ignore', detached: true });
    started.push(child);
    return child;
  };
  const ended = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null;

  it('are itself and all below it, parents first', async () => {
    const child = start('sleep 100 & sleep 100; true');
    await vi.waitFor(() => expect(treeOf(child.pid ?? 0)).toHaveLength(3), 5_000);
    expect(treeOf(child.pid ?? 0)[0]?.pid).toBe(child.pid);
    for (const { pid } of treeOf(child.pid ?? 0).slice(1)) process.kill(pid, 'SIGKILL');
    await vi.waitFor(() => expect(treeOf(child.pid ?? 0)).toEqual([]), 5_000);
  });

  it('are found by a variable when they have left it', async () => {
    const mine = start('exec sleep 100', { COVEY_OUTPUT: join(directory, 'a', 'output') });
    const other = start('exec sleep 100', { COVEY_OUTPUT: `${directory}-b/a/output` });
    await vi.waitFor(() => expect(killWith(`COVEY_OUTPUT=${join(directory, '/')}`)).toBe(1), 5_000);
    await vi.waitFor(() => expect(ended(mine)).toBe(true), 5_000);
    expect(killWith(`COVEY_OUTPUT=${join(directory, '/')}`)).toBe(0);
    expect(ended(other)).toBe(false);
  });

  it('hold files that were removed, each counted once, on that disk only', async () => {
    const child = start(
      'exec 3> f 4<> f 5> /dev/null; rm f; head -c 5000 /dev/zero >&3; sleep 100 & exec sleep 100',
    );
    await vi.waitFor(() => expect(treeOf(child.pid ?? 0)).toHaveLength(2), 5_000);
    await vi.waitFor(() => expect(deletedBytes(treeOf(child.pid ?? 0), directory)).toBe(5_000), 5_000);
    expect(deletedBytes(treeOf(child.pid ?? 0), '/proc')).toBe(0);
    for (const { pid } of treeOf(child.pid ?? 0)) process.kill(pid, 'SIGKILL');
  });
});
