import { mkdirSync, writeFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import path from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import type { ArtifactView } from '#shared/domain/artifact.ts';
import type { JobView } from '#shared/domain/job.ts';
import { probeSandbox } from '../../src-worker/engines/task-runner/sandbox/probe-sandbox.ts';
import { runCovey } from '../support/cli.ts';
import type { RunningController, RunningNode } from '../support/cluster.ts';
import { stillRuns } from '../support/processes.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

/** Programs of others, from the API down to their sandbox: one machine whose owner allows them, one whose does not. */
const cluster = useCluster();
const sandboxed = (await probeSandbox()).sandbox.kind !== 'none';
const MiB = 1024 * 1024;
let controller: RunningController;
let willing: RunningNode;

beforeEach(async () => {
  controller = await cluster.current.startController();
  willing = await startWorker('willing', true);
  await startWorker('wary', false);
  await waitFor(
    'both machines',
    async () => {
      const { nodes } = await controller.client.call('nodes');
      return nodes.filter(({ status }) => status === 'ready').length === 2 || null;
    },
    20_000,
  );
});

async function startWorker(name: string, commands: boolean, kinds: object = {}): Promise<RunningNode> {
  const dataDirectory = path.join(cluster.current.directory, name);
  mkdirSync(dataDirectory, { mode: 0o700 });
  const config = { lend: { kinds: { commands, ...kinds } } };
  writeFileSync(path.join(dataDirectory, 'config.json'), JSON.stringify(config), { mode: 0o600 });
  const join = await controller.invite();
  return cluster.current.startWorker({ name, dataDirectory, join, api: '127.0.0.1:0' });
}

async function put(target: string): Promise<string> {
  const outcome = await runCovey(controller, ['artifacts', 'put', target, '--json']);
  expect(outcome).toMatchObject({ code: 0 });
  return (JSON.parse(outcome.stdout) as ArtifactView).id;
}

async function api<T>(method: string, target: string, body?: object): Promise<T> {
  const response = await fetch(`${controller.api}${target}`, {
    method,
    headers: { authorization: `Bearer ${controller.token}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer = (await response.json()) as T;
  if (!response.ok) throw new Error(JSON.stringify(answer));
  return answer;
}

async function finished(spec: object, timeoutMs = 40_000): Promise<JobView> {
  const { id } = await api<JobView>('POST', '/api/jobs', spec);
  return waitFor(
    'the job to finish',
    async () => {
      const view = await api<JobView>('GET', `/api/jobs/${id}`);
      return ['done', 'failed', 'cancelled'].includes(view.status) ? view : null;
    },
    timeoutMs,
    100,
  );
}

const content = async (id: string): Promise<string> => {
  const response = await fetch(`${controller.api}/api/artifacts/${id}/content`, {
    headers: { authorization: `Bearer ${controller.token}` },
  });
  return response.text();
};

test('a script with a folder as input gives a file, on the machine whose owner allows that', async () => {
  const folder = path.join(cluster.current.directory, 'folder');
  mkdirSync(path.join(folder, 'deep'), { recursive: true });
  writeFileSync(path.join(folder, 'a'), 'one\n');
  writeFileSync(path.join(folder, 'deep', 'b'), 'two\n');
  const view = await finished({
    kind: 'command',
    script: 'cat in/a in/deep/b > "$COVEY_OUTPUT/all"; echo "part $COVEY_INDEX"',
    inputs: [{ artifact: await put(folder), path: 'in' }],
    outputs: [{ path: 'all' }],
    partitions: 3,
  });
  expect(view).toMatchObject({ status: 'done', partitions: { done: 3, failed: 0 } });
  expect(view.result?.artifacts.map(({ name }) => name)).toEqual(['0/all', '1/all', '2/all']);
  expect(await content(view.result?.artifacts[2]?.id ?? '')).toBe('one\ntwo\n');
  const share = (name: string) => view.shares.find(({ nodeName }) => nodeName === name);
  expect(share('willing')?.donePercent).toBe(100);
  expect(share('wary')?.donePercent).toBe(0);
  const log = await api<{ output: string }>('GET', `/api/jobs/${view.id}/log?index=1`);
  expect(log.output).toBe('part 1\n');
});

test('a job that only a machine could run that forbids it waits, and says why', async () => {
  const { id } = await api<JobView>('POST', '/api/jobs', {
    kind: 'command',
    command: ['true'],
    requires: { nodes: ['wary'] },
  });
  const view = await waitFor(
    'the reason',
    async () => {
      const found = await api<JobView>('GET', `/api/jobs/${id}`);
      return found.shares.some(({ whyNot }) => whyNot !== null) ? found : null;
    },
    20_000,
  );
  expect(view.status).toBe('queued');
  expect(view.shares.find(({ nodeName }) => nodeName === 'wary')?.whyNot).toMatch(/program|command/i);
});

test('a machine whose owner lets no models run on it runs programs and kernels', async () => {
  await startWorker('modest', true, { inference: false });
  const requires = { nodes: ['modest'] };
  expect(await finished({ kind: 'command', command: ['true'], requires })).toMatchObject({ status: 'done' });
  const file = path.join(cluster.current.directory, 'numbers.i32');
  writeFileSync(file, Buffer.alloc(4 * 1_000, 1));
  const input = await put(file);
  const sum = await finished({ kind: 'kernel', kernel: 'sum', type: 'i32', input, requires });
  expect(sum).toMatchObject({ status: 'done' });
  expect(await controller.client.call('node', { params: { node: 'modest' } })).toMatchObject({
    status: 'ready',
    eligible: false,
    ineligibleReasons: ['lets no models run on it'],
  });
});

test('a machine that is taken back lets a program compute last, for half a minute, and the job waits', async () => {
  const lend = (enabled: boolean) => willing.client.call('setSettings', { body: { lend: { enabled } } });
  const { id } = await api<JobView>('POST', '/api/jobs', {
    kind: 'command',
    script: '[ "$COVEY_ATTEMPT" = 1 ] && exec sleep 1000.25; echo again',
  });
  const program = await waitFor(
    'the program to run',
    () => willing.processes().find(({ command }) => command === 'sleep 1000.25') ?? null,
    20_000,
  );
  await lend(false);
  const tookBackAt = Date.now();
  await waitFor('it to step back', () => getPriority(program.pid) === 19, 4_000);
  await waitFor('it to end', () => !stillRuns(program), 40_000);
  const runMs = Date.now() - tookBackAt;
  expect(runMs).toBeGreaterThan(25_000);
  expect(runMs).toBeLessThan(40_000);
  const { tasks } = await api<{ tasks: { outcome: string; error: { code: string } | null }[] }>(
    'GET',
    `/api/tasks?job=${id}`,
  );
  expect(tasks[0]).toMatchObject({ outcome: 'lost', error: { code: 'node_gave_way' } });
  const waiting = await api<JobView>('GET', `/api/jobs/${id}`);
  expect(waiting.shares.find(({ nodeName }) => nodeName === 'willing')?.whyNot).toContain('not lent now');
  await lend(true);
  await waitFor(
    'it to be done',
    async () => (await api<JobView>('GET', `/api/jobs/${id}`)).status === 'done' || null,
    20_000,
  );
});

test('records of a dataset are mapped in order', async () => {
  const data = path.join(cluster.current.directory, 'data.csv');
  const rows = Array.from({ length: 3_000 }, (_value, index) => `${index},"line\n${index}"\n`);
  writeFileSync(data, `number,text\n${rows.join('')}`);
  const view = await finished({
    kind: 'map',
    dataset: { artifact: await put(data), format: 'csv' },
    command: ['tail', '-n', '+2'],
    partitions: 4,
  });
  expect(view).toMatchObject({ status: 'done', units: { total: 3_000, done: 3_000 } });
  expect(await content(view.result?.artifacts[0]?.id ?? '')).toBe(rows.join(''));
});

test.runIf(sandboxed).each([
  ['prints a gigabyte', 'cat /dev/zero', 'task_output_too_large'],
  ['forks without end', 'b() { b & b & }; b; wait; while :; do sleep 0.1; done', null],
  [
    'takes all memory',
    `exec python3 -c 'x=[]\nwhile True: x.append(bytearray(1<<20))'`,
    'task_memory_exceeded',
  ],
  ['does not want to end', `trap '' TERM; while :; do sleep 1; done`, 'task_timeout'],
])('a program that %s is contained and named, and nothing of it is left', async (_what, script, code) => {
  const view = await finished(
    {
      kind: 'command',
      script,
      limits: { memoryBytes: 128 * MiB, processes: 32, outputBytes: 16 * MiB },
      retry: { attempts: 1 },
      timeoutMs: 5_000,
    },
    60_000,
  );
  expect(view.status).toBe('failed');
  const { tasks } = await api<{ tasks: { error: { code: string } | null }[] }>(
    'GET',
    `/api/tasks?job=${view.id}`,
  );
  if (code !== null) expect(tasks[0]?.error?.code).toBe(code);
  await waitFor(
    'its processes to be gone',
    () =>
      willing.processes().some(({ command }) => command.includes('/bin/sh') || command.includes('bwrap'))
        ? null
        : true,
    10_000,
  );
});
