import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { startJobMachines, type JobMachines } from '../support/job-machines.ts';
import { generateDataset, writeNumbers } from '../support/kernel-reference.ts';
import { predictableModel } from '../support/models.ts';
import { stillRuns, type ProcessInfo } from '../support/processes.ts';
import { untilStatus } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

/** `kill -9` of a node's main process: nothing that it had started outlives it, or at least not its next start. */
const cluster = useCluster();
const mark = `orphans-mark-${process.pid}`;
const hosts = ['transport-host', 'artifact-hasher', 'kernel-host', 'task-runner', 'engine-host'] as const;
let machines: JobMachines;

/** Everything below both main processes, once there is one of each kind. */
async function busyChildren(): Promise<ProcessInfo[]> {
  const nodes = [machines.controller(), machines.worker('anna')];
  return waitFor(
    'children of every kind',
    () => {
      const children = nodes.flatMap((node) =>
        node.processes().filter(({ pid }) => pid !== node.process.pid),
      );
      const missing = [...hosts.map((name) => `${name}.js`), 'llama-server', mark].filter(
        (part) => !children.some(({ command }) => command.includes(part)),
      );
      if (missing.length > 0) throw new Error(`there is no ${missing.join(', no ')}`);
      return children;
    },
    30_000,
    50,
  );
}

beforeEach(async () => {
  machines = await startJobMachines(cluster.current, ['anna']);
  const { client } = machines.controller();
  const { id } = await client.call('load', { body: { model: await predictableModel(), nodes: ['anna'] } });
  await untilStatus(machines.controller(), id, 'ready');
  const file = path.join(cluster.current.directory, 'words.bin');
  writeNumbers(file, generateDataset(2 ** 20, 7).words);
  const input = await machines.put(file);
  const sum = await machines.submit({ kind: 'kernel', kernel: 'sum', type: 'i64', input });
  expect(await machines.finished(sum.id)).toMatchObject({ status: 'done' });
  writeFileSync(path.join(cluster.current.directory, 'again.bin'), mark);
  // Its hasher has just been used, and stays a while.
  await machines.put(path.join(cluster.current.directory, 'again.bin'));
});

test('children of a main process that is killed end by themselves', async () => {
  await machines.submit({ kind: 'command', command: ['/bin/sh', '-c', 'sleep 600', mark], partitions: 2 });
  const children = await busyChildren();
  await machines.worker('anna').crash();
  await machines.controller().crash();
  await waitFor(
    'all of them to be gone',
    () => {
      const left = children.filter(stillRuns);
      if (left.length > 0) throw new Error(left.map(({ command }) => command).join('; '));
      return true;
    },
    5_000,
    50,
  );
});

test('children that hang when their main process is killed are gone once it is back, and their ports are free', async () => {
  const { id } = await machines.submit({
    kind: 'command',
    command: ['/bin/sh', '-c', 'sleep 3', mark],
    partitions: 2,
  });
  const children = await busyChildren();
  const hung = children.filter(({ command }) => hosts.some((name) => command.includes(`${name}.js`)));
  for (const { pid } of hung) process.kill(pid, 'SIGSTOP');
  await machines.worker('anna').crash();
  await machines.controller().crash();
  expect(hung.filter(stillRuns)).toHaveLength(hung.length);
  await machines.returnController();
  await machines.returnWorker('anna');
  await waitFor('all of them to be gone', () => !children.some(stillRuns), 5_000, 50);
  expect(await machines.finished(id)).toMatchObject({ status: 'done', partitions: { done: 2 } });
  await machines.expectIdle(mark);
});
