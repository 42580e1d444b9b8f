import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import type { TaskView } from '#shared/domain/job.ts';
import { predictChat } from '../../src-worker/models/predictable.ts';
import { hostsOf, startJobMachines, type JobMachines } from '../support/job-machines.ts';
import { predictableModel, storiesMissing, storiesModel } from '../support/models.ts';
import { descendantsOf, stillRuns } from '../support/processes.ts';
import { loadReady } from '../support/split-cluster.ts';
import { sha256Of } from '../support/sha256.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

/** What is left of a job's work when a controller or a worker ends in the middle, and jobs over datasets. */
const cluster = useCluster();
const mark = `recovery-mark-${process.pid}`;
let machines: JobMachines;
beforeEach(async () => {
  machines = await startJobMachines(cluster.current, ['anna', 'ben', 'cleo']);
});

const sleepers = (partitions: number, seconds: number) => ({
  kind: 'command' as const,
  name: 'sleepers',
  command: ['/bin/sh', '-c', `sleep ${seconds}; echo $COVEY_INDEX > $COVEY_OUTPUT/out`, mark],
  outputs: [{ path: 'out' }],
  partitions,
});
const outputs = (partitions: number) =>
  Array.from({ length: partitions }, (_value, index) => [`${index}/out`, sha256Of(`${index}\n`)]);
const byTask = (tasks: readonly TaskView[]) => new Map(tasks.map((task) => [task.id, task]));

async function expectWhole(id: string, partitions: number): Promise<Map<string, TaskView>> {
  const view = await machines.finished(id);
  expect(view).toMatchObject({ status: 'done', partitions: { done: partitions }, error: null });
  expect(view.result?.artifacts.map(({ name, id: hash }) => [name, hash])).toEqual(outputs(partitions));
  return byTask(await machines.tasks(id));
}

test('a controller that is killed in the middle loses nothing, and nothing is done twice', async () => {
  const { id } = await machines.submit(sleepers(60, 0.5));
  await machines.until('to be a quarter done', id, ({ partitions }) => partitions.done >= 15);
  const before = await machines.tasks(id);
  await machines.controller().crash();
  await machines.returnController();
  const after = await expectWhole(id, 60);
  for (const { id: taskId, outcome, startedAt, endedAt } of before) {
    if (outcome === 'done') expect(after.get(taskId)).toMatchObject({ outcome, endedAt });
    // The machines went on with what they had begun.
    else if (startedAt !== null) expect(after.get(taskId)?.outcome).toBe('done');
  }
  expect(before.filter(({ outcome }) => outcome === 'running').length).toBeGreaterThan(0);
  await machines.expectIdle(mark);
});

test('what a killed worker ran is repeated, what it had done is not', async () => {
  const { id } = await machines.submit(sleepers(60, 0.5));
  await machines.until(
    'to be done in part by all',
    id,
    ({ shares }) => shares.length === 3 && shares.every(({ doneUnits }) => doneUnits > 2),
  );
  await machines.worker('anna').crash();
  const before = (await machines.tasks(id)).filter(({ nodeName }) => nodeName === 'anna');
  await machines.returnWorker('anna');
  const after = await expectWhole(id, 60);
  for (const { id: taskId, outcome } of before) {
    expect(after.get(taskId)?.outcome).toBe(outcome === 'running' ? 'lost' : outcome);
  }
  expect(before.filter(({ outcome }) => outcome === 'running').length).toBeGreaterThan(0);
  // It took work again.
  expect(
    [...after.values()].some(
      ({ nodeName, id: taskId }) => nodeName === 'anna' && !byTask(before).has(taskId),
    ),
  ).toBe(true);
  await machines.expectIdle(mark);
});

test('ends that nobody could hear of outlive their worker, and count', async () => {
  const { id } = await machines.submit(sleepers(6, 3));
  await machines.until('to run', id, ({ partitions }) => partitions.running === 6);
  await machines.controller().crash();
  for (const name of machines.names) {
    const journal = path.join(machines.worker(name).dataDirectory, 'journal', 'tasks.jsonl');
    await waitFor(
      `the ends of ${name} to be written down`,
      () => existsSync(journal) && readFileSync(journal, 'utf8').split('"done"').length === 3,
      20_000,
    );
    await machines.worker(name).crash();
  }
  for (const name of machines.names) await machines.returnWorker(name);
  await machines.returnController();
  const tasks = await expectWhole(id, 6);
  expect([...tasks.values()].map(({ attempt, outcome }) => [attempt, outcome])).toEqual(
    Array.from({ length: 6 }, () => [1, 'done']),
  );
  await machines.expectIdle(mark);
});

test('a task runner that hangs outlives its worker until the worker is back, and so do its programs', async () => {
  const { id } = await machines.submit(sleepers(12, 2));
  const [runner, ...programs] = await waitFor(
    'anna to run programs',
    () => {
      const [host] = hostsOf(machines.worker('anna'), 'task-runner');
      const started = host ? descendantsOf(host.pid) : [];
      return host && started.some(({ command }) => command.includes(mark)) ? [host, ...started] : null;
    },
    20_000,
  );
  if (!runner) throw new Error('anna runs nothing');
  process.kill(runner.pid, 'SIGSTOP');
  await machines.worker('anna').crash();
  await machines.returnWorker('anna');
  await waitFor('all of it to be gone', () => ![runner, ...programs].some(stillRuns), 5_000);
  await expectWhole(id, 12);
  await machines.expectIdle(mark);
});

test('records with line breaks in quotes keep their order, also when a machine is lost over them', async () => {
  const rows = Array.from(
    { length: 20_000 },
    (_value, index) => `${index},"first ""line""\r\nsecond, of ${index}",${'x'.repeat(index % 50)}\n`,
  );
  const data = path.join(cluster.current.directory, 'rows.csv');
  writeFileSync(data, `number,text,filler\n${rows.join('')}`);
  const { id } = await machines.submit({
    kind: 'map',
    dataset: { artifact: await machines.put(data), format: 'csv' },
    script: 'sleep 0.5; tail -n +2',
    interpreter: ['/bin/sh', '-c', `. "$0"; : ${mark}`],
  });
  await machines.until('to be done in part', id, ({ units }) => units.done > 0);
  await machines.worker('ben').crash();
  const view = await machines.finished(id);
  expect(view).toMatchObject({ status: 'done', units: { unit: 'records', total: 20_000, done: 20_000 } });
  expect(view.partitions.total).toBeGreaterThan(6);
  expect((await machines.content(view.result?.artifacts[0]?.id ?? '')) === rows.join('')).toBe(true);
  await machines.returnWorker('ben');
  await machines.expectIdle(mark);
});

test('a program for each record of JSONL, in order', async () => {
  const lines = Array.from({ length: 40 }, (_value, index) => JSON.stringify({ index, text: 'a\nb' }));
  const data = path.join(cluster.current.directory, 'rows.jsonl');
  writeFileSync(data, `${lines.join('\n')}\n`);
  const { id } = await machines.submit({
    kind: 'map',
    dataset: { artifact: await machines.put(data), format: 'jsonl' },
    per: 'record',
    command: ['/bin/sh', '-c', 'printf "<"; cat', mark],
    partitions: 8,
  });
  const view = await machines.finished(id);
  expect(view).toMatchObject({ status: 'done', partitions: { done: 8 } });
  const output = await machines.content(view.result?.artifacts[0]?.id ?? '');
  expect(output).toBe(lines.map((line) => `<${line}\n`).join(''));
});

interface AnswerLine {
  readonly record: number;
  readonly response?: { readonly choices: readonly { readonly message?: { readonly content: string } }[] };
  readonly error?: unknown;
}

async function ask(model: string, prompts: readonly string[], maxTokens: number): Promise<AnswerLine[]> {
  const { model: served } = await loadReady(machines.controller(), model, {
    nodes: ['anna'],
    split: { anna: 100 },
    leader: 'anna',
  });
  const data = path.join(cluster.current.directory, 'prompts.jsonl');
  writeFileSync(data, prompts.map((prompt) => `${JSON.stringify({ question: prompt })}\n`).join(''));
  const { id } = await machines.submit({
    kind: 'inference',
    model: served,
    task: 'chat',
    dataset: { artifact: await machines.put(data), format: 'jsonl' },
    prompt: '{question}',
    parameters: { max_tokens: maxTokens, temperature: 0 },
  });
  const view = await machines.finished(id);
  expect(view, JSON.stringify(view.error)).toMatchObject({ status: 'done', units: { done: prompts.length } });
  expect(view.shares.filter(({ doneUnits }) => doneUnits > 0).length).toBeGreaterThan(1);
  const output = await machines.content(view.result?.artifacts[0]?.id ?? '');
  const lines = output
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as AnswerLine);
  expect(lines.map(({ record }) => record)).toEqual(prompts.map((_prompt, index) => index));
  return lines;
}

test('a served model over JSONL: each answer is the one for its record', async () => {
  const prompts = Array.from({ length: 60 }, (_value, index) => `Question ${index}: once`);
  const lines = await ask(await predictableModel(), prompts, 12);
  expect(lines.map(({ response }) => response?.choices[0]?.message?.content.trim())).toEqual(
    prompts.map((content) => predictChat([{ role: 'user', content }], 12).trim()),
  );
});

const stories = storiesModel();
test.skipIf(stories === null)(
  `a real tiny model over JSONL${stories === null ? ` (${storiesMissing})` : ''}`,
  async () => {
    const prompts = Array.from(
      { length: 40 },
      (_value, index) => `Once upon a time there were ${index} cats`,
    );
    const lines = await ask(stories ?? '', prompts, 16);
    for (const { response, error } of lines) {
      expect(error).toBeUndefined();
      expect(response?.choices[0]?.message?.content.length).toBeGreaterThan(10);
    }
  },
);
