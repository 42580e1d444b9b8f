import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { afterEach, describe, expect, test } from 'vitest';
import { setProgramPriority } from './priority.ts';

let child: ChildProcess | null = null;
afterEach(() => child?.kill('SIGKILL'));

/** proc_pid_stat(5), field 19. */
function niceness(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).map((thread) => {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'latin1');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]);
  });
}

describe.runIf(process.platform === 'linux')('priority', () => {
  test('of every thread of a program is lowered', async () => {
    // Node has helper threads from its start.
    const program = (child = spawn(process.execPath, ['-e', 'console.log(1); setInterval(() => {}, 1000)']));
    await new Promise((resolve) => program.stdout?.once('data', resolve));
    const pid = program.pid as number;
    expect(niceness(pid).length).toBeGreaterThan(1);
    setProgramPriority(pid, true);
    expect(new Set(niceness(pid))).toEqual(new Set([19]));
  });

  test("of a program that has gone is nobody's", () => {
    expect(() => setProgramPriority(2 ** 22 + 1, true)).not.toThrow();
  });
});
