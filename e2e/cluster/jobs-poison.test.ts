import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { sha256Of } from '../support/sha256.ts';
import { runCovey } from '../support/cli.ts';
import { hostsOf, startJobMachines } from '../support/job-machines.ts';
import { useCluster } from '../support/use-cluster.ts';

/** A partition whose process always crashes is tried, given up and named; everything else goes on. */
const cluster = useCluster();
const poisoned = 42;

test('one of 100 partitions always crashes: 99 results, one named failure, exit code 1', async () => {
  const machines = await startJobMachines(cluster.current, ['anna', 'ben', 'cleo']);
  const folder = path.join(cluster.current.directory, 'specification');
  mkdirSync(folder);
  const file = path.join(folder, 'job.yaml');
  writeFileSync(
    file,
    `kind: command
name: poisoned
partitions: 100
script: |
  if [ "$COVEY_INDEX" = ${poisoned} ]; then echo about to crash; kill -SEGV $$; fi
  echo "$COVEY_INDEX" > "$COVEY_OUTPUT/out"
outputs: [{ path: out }]
retry: { attempts: 3, backoffMs: 100 }
`,
  );
  // Beside it, work of somebody else.
  const other = await machines.submit({
    kind: 'command',
    name: 'undisturbed',
    script: 'sleep 0.2; echo "$COVEY_INDEX" > "$COVEY_OUTPUT/out"',
    partitions: 40,
    outputs: [{ path: 'out' }],
    retry: { attempts: 1 },
  });
  await machines.until('to run', other.id, ({ partitions }) => partitions.done > 0);
  const before = machines.names.map((name) => {
    const node = machines.worker(name);
    return [node.process.pid, ...hostsOf(node, 'task-runner').map(({ pid }) => pid)];
  });

  const outcome = await runCovey(machines.controller(), ['run', file], { timeoutMs: 120_000 });
  expect(outcome.code, outcome.stderr).toBe(1);
  expect(outcome.stderr).toContain('1 partition without a result');
  expect(outcome.stderr).toMatch(new RegExp(`[Pp]artition ${poisoned}\\b`));

  const { jobs } = await machines.controller().client.call('jobs');
  const id = jobs.find(({ name }) => name === 'poisoned')?.id ?? '';
  const view = await machines.view(id);
  expect(view).toMatchObject({
    status: 'failed',
    partitions: { total: 100, done: 99, failed: 1 },
    result: { missing: 1 },
  });
  const expected = Array.from({ length: 100 }, (_value, index) => index).filter(
    (index) => index !== poisoned,
  );
  expect(view.result?.artifacts.map(({ name, id: hash }) => [name, hash])).toEqual(
    expected.map((index) => [`${index}/out`, sha256Of(`${index}\n`)]),
  );
  const failed = (await machines.partitions(id)).filter(({ status }) => status !== 'done');
  expect(failed).toMatchObject([
    { index: poisoned, status: 'failed', attempts: 3, error: { code: 'task_crashed' } },
  ]);
  const tasks = await machines.tasks(id);
  expect(tasks.filter(({ outcome: end }) => end !== 'done')).toHaveLength(3);
  expect(tasks.filter(({ outcome: end }) => end === 'crashed').map(({ index }) => index)).toEqual([
    poisoned,
    poisoned,
    poisoned,
  ]);
  const log = await runCovey(machines.controller(), ['jobs', 'logs', id, '--partition', String(poisoned)]);
  expect(log.stdout).toContain('about to crash');

  // Nothing else was disturbed: the same processes, and each attempt at the other job was its first.
  expect(await machines.finished(other.id)).toMatchObject({ status: 'done', partitions: { done: 40 } });
  expect(
    (await machines.tasks(other.id)).every(({ attempt, outcome: end }) => attempt === 1 && end === 'done'),
  ).toBe(true);
  expect(
    machines.names.map((name) => {
      const node = machines.worker(name);
      return [node.process.pid, ...hostsOf(node, 'task-runner').map(({ pid }) => pid)];
    }),
  ).toEqual(before);
  await machines.expectIdle('about to crash');
});
