import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../fuzz/random.ts';
import type { RunningNode } from './cluster.ts';
import { hostsOf, type HostProgram, type JobMachines } from './job-machines.ts';
import { stillRuns, type ProcessInfo } from './processes.ts';

/** What was done to whom, for the message of a test that fails. */
export interface Blow {
  readonly atMs: number;
  readonly what: string;
}

const everyMs = 2_000;
/** Short enough to go unnoticed, longer than a session's tasks are waited for, long enough to be lost. */
const stopsMs = [500, 1_500, 4_000, 7_000, 10_000, 18_000];
const absencesMs = [0, 1_000, 6_000];
const hostPrograms: readonly HostProgram[] = [
  'kernel-host',
  'task-runner',
  'transport-host',
  'artifact-hasher',
];

/**
 * Every two seconds kills (-9) or stops a worker, one of its processes or of the controller's, or the controller, and
 * brings it back after a while. Ends with all of them there.
 * @returns what it did
 */
export async function strike(machines: JobMachines, random: Random, durationMs: number): Promise<Blow[]> {
  const startedAt = Date.now();
  const blows: Blow[] = [];
  const away = new Set<string>();
  const returns: Promise<void>[] = [];
  /** Only one thing happens to a node at a time. */
  const during = (name: string, work: () => Promise<void>): void => {
    away.add(name);
    returns.push(work().finally(() => away.delete(name)));
  };
  const note = (what: string): void => void blows.push({ atMs: Date.now() - startedAt, what });

  const nodes = ['hub', ...machines.names];
  const nodeOf = (name: string): RunningNode =>
    name === 'hub' ? machines.controller() : machines.worker(name);
  const bringBack = (name: string): Promise<void> =>
    name === 'hub' ? machines.returnController() : machines.returnWorker(name);

  const strikeNode = (name: string): void => {
    const node = nodeOf(name);
    const stopMs = random.pick(stopsMs);
    const absenceMs = random.pick(absencesMs);
    switch (random.int(3)) {
      case 0:
        note(`${name} killed, back after ${absenceMs} ms`);
        during(name, async () => {
          await node.crash();
          await delay(absenceMs);
          await bringBack(name);
        });
        return;
      case 1:
        note(`${name} stopped for ${stopMs} ms`);
        during(name, async () => {
          node.process.signal('SIGSTOP');
          await delay(stopMs);
          node.process.signal('SIGCONT');
        });
        return;
      default:
        note(`${name} stopped for ${stopMs} ms, then killed`);
        during(name, async () => {
          node.process.signal('SIGSTOP');
          await delay(stopMs);
          await node.crash();
          await bringBack(name);
        });
    }
  };
  const strikeHost = (name: string, host: ProcessInfo): void => {
    const what = `${hostPrograms.find((program) => host.command.includes(program)) ?? 'host'} of ${name}`;
    const stopMs = random.pick(stopsMs);
    if (random.oneIn(2)) {
      note(`${what} killed`);
      signal(host, 'SIGKILL');
      return;
    }
    note(`${what} stopped for ${stopMs} ms`);
    during(`${name} ${host.pid}`, async () => {
      signal(host, 'SIGSTOP');
      await delay(stopMs);
      signal(host, 'SIGCONT');
    });
  };

  for (let at = 0; at < durationMs; at += everyMs) {
    await delay(Math.max(0, startedAt + at - Date.now()));
    const free = nodes.filter((name) => !away.has(name));
    const name = free.length === 0 ? null : random.pick(free);
    if (name === null) continue;
    const hosts = hostPrograms.flatMap((program) => hostsOf(nodeOf(name), program));
    const host = hosts.length > 0 && random.oneIn(2) ? random.pick(hosts) : null;
    if (host) strikeHost(name, host);
    else strikeNode(name);
  }
  await Promise.all(returns);
  return blows;
}

function signal(victim: ProcessInfo, name: NodeJS.Signals): void {
  if (!stillRuns(victim)) return;
  try {
    process.kill(victim.pid, name);
  } catch {
    // It has ended just now.
  }
}
