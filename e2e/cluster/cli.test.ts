import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { generatePredictableModel } from '../../src-worker/models/predictable.ts';
import { apiRoutes } from '../../src-main/shared/api/schema.ts';
import { coveyCommand } from '../support/checkout.ts';
import { runCovey, type CliOutcome } from '../support/cli.ts';
import type { RunningController } from '../support/cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor, withDeadline } from '../support/wait.ts';

describe('the covey command against a real cluster', () => {
  const cluster = useCluster('file');
  let controller: RunningController;
  let model: string;

  const covey = (...args: string[]): Promise<CliOutcome> => runCovey(controller, args);
  const json = async (...args: string[]): Promise<unknown> => {
    const outcome = await covey(...args, '--json');
    expect(outcome.stderr).toBe('');
    expect(outcome.code).toBe(0);
    return JSON.parse(outcome.stdout);
  };

  beforeAll(async () => {
    controller = await cluster.current.startController({ name: 'hall' });
    model = path.join(cluster.current.directory, 'tale.gguf');
    await generatePredictableModel({ path: model });
  });

  it('invites machines one by one and lists them', async () => {
    const empty = await covey('nodes');
    expect(empty.stdout).toContain('No machine has joined yet');
    for (const name of ['desk', 'attic']) {
      const { stdout, code } = await covey('invite');
      expect(code).toBe(0);
      await cluster.current.startWorker({ join: stdout.trim(), name });
    }
    await waitFor(
      'both to be eligible',
      async () => {
        const { nodes } = apiRoutes.nodes.response.parse(await json('nodes'));
        return nodes.length === 2 && nodes.every((node) => node.eligible);
      },
      20_000,
    );
    const { stdout } = await covey('nodes');
    expect(stdout).toMatch(/^desk +ready /m);
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    expect((await covey('nodes', 'info', 'desk')).stdout).toMatch(/^CPU: +\S/m);
  });

  it('refuses an invitation that was used', async () => {
    const { stdout } = await covey('invite');
    await cluster.current.startWorker({ join: stdout.trim(), name: 'shed' });
    await expect(cluster.current.startWorker({ join: stdout.trim(), name: 'barn' })).rejects.toThrow(/used/);
    const removed = await covey('remove', 'shed', '--yes');
    expect(removed.code).toBe(0);
    const { nodes } = apiRoutes.nodes.response.parse(await json('nodes'));
    expect(nodes.map((node) => node.name).sort()).toEqual(['attic', 'desk']);
  });

  it('loads by shares, shows it, and unloads', async () => {
    const loaded = await covey('load', model, '--split', 'desk=60,attic=40', '--leader', 'desk');
    expect(loaded.stderr).not.toContain('error');
    expect(loaded.code).toBe(0);
    expect(loaded.stdout).toMatch(/^desk +leader /m);
    expect(loaded.stdout).toMatch(/^attic +stage /m);

    const again = await covey('load', model, '--split', 'desk=60,attic=40', '--leader', 'desk');
    expect([again.code, again.stdout.split('(')[0]]).toEqual([0, 'tale was ready already ']);
    const other = await covey('load', model, '--split', 'desk=50,attic=50', '--leader', 'desk');
    expect([other.code, other.stderr]).toEqual([1, expect.stringContaining('loaded already')]);

    const { deployments } = apiRoutes.deployments.response.parse(await json('deployments'));
    expect(deployments.map((one) => [one.model, one.status])).toEqual([['tale', 'ready']]);
    await waitFor(
      'the link to be seen',
      async () => /^attic .* direct /m.test((await covey('deployments', 'info', 'tale')).stdout),
      10_000,
    );
    expect((await covey('status')).stdout).toContain('1 of 1 ready');
    expect((await covey('events')).stdout).toContain('tale is ready.');

    expect((await covey('unload', 'tale')).code).toBe(0);
    await waitFor(
      'it to be gone',
      async () => apiRoutes.deployments.response.parse(await json('deployments')).deployments.length === 0,
      20_000,
    );
    expect(cluster.current.processes().filter((one) => /llama-server|rpc-server/.test(one.command))).toEqual(
      [],
    );
  });

  it('imports into a library and loads by name', async () => {
    const imported = await covey('import', model, '--node', 'attic', '--name', 'story');
    expect([imported.code, imported.stderr.includes('error')]).toEqual([0, false]);
    expect((await covey('models')).stdout).toMatch(/^story .* attic$/m);
    const byName = await covey('load', 'story');
    expect([byName.code, byName.stderr]).toEqual([0, expect.not.stringContaining('error')]);
    expect((await covey('unload', 'story')).code).toBe(0);
  });

  it('runs a job from a file, shows it in every way, and removes it', async () => {
    const numbers = path.join(cluster.current.directory, 'numbers.f64');
    await writeFile(numbers, Buffer.from(new Float64Array(200_000).fill(0.5).buffer));
    const sum = await covey('run', 'kernel', 'sum', numbers);
    expect([sum.code, sum.stdout]).toEqual([0, '100000\n']);
    expect(sum.stderr).not.toContain('\u001b');

    const { jobs } = apiRoutes.jobs.response.parse(await json('jobs'));
    expect(jobs.map(({ name, status }) => [name, status])).toEqual([['sum numbers.f64', 'done']]);
    const id = jobs[0]?.id ?? '';
    for (const words of [['list'], ['info', id], ['stats', id], ['partitions', id], ['spec', id]]) {
      const shown = await covey('jobs', ...words);
      expect([shown.code, shown.stderr], words.join(' ')).toEqual([0, '']);
      for (const line of shown.stdout.split('\n')) expect(line.length, line).toBeLessThanOrEqual(80);
    }
    expect((await covey('jobs', 'partitions', id)).stdout).toMatch(/ done +100% +1 +\S+ +[\d.]+ m?s$/m);
    expect((await covey('distribution', 'show', id)).stdout).toContain('is done, shares by speed');
    expect((await covey('tasks', '--job', id)).stdout).toMatch(new RegExp(`^${id}\\.0\\.1 .* done `, 'm'));
    expect((await covey('artifacts')).stdout).toMatch(/ numbers\.f64 .* 1 job$/m);

    const refused = await covey('jobs', 'info', 'render');
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining(`${id} (sum numbers.f64)`)]);
    const missing = await covey('run', 'kernel', 'sum', 'nubmers.f64');
    expect([missing.code, missing.stderr]).toEqual([
      1,
      expect.stringContaining('Did you mean "numbers.f64"?'),
    ]);
    const done = await covey('jobs', 'rm', id, '--yes');
    expect([done.code, (await covey('jobs')).stdout]).toEqual([
      0,
      expect.stringContaining('There are no jobs'),
    ]);
  });

  it('completes names of the covey', async () => {
    const asked = async (current: string, ...before: string[]): Promise<string> =>
      (await covey('complete', `--current=${current}`, '--', ...before)).stdout;
    expect(await asked('d', 'drain')).toMatch(/^words\ndesk\t(ready|busy)\n$/);
    expect(await asked('num', 'artifacts', 'get')).toMatch(/^words\nnumbers\.f64\t/);
    expect(await asked('', '--api', '127.0.0.1:1', 'drain')).toBe('words\n');
  });

  it.each([
    [['nodes', 'info', 'dekc'], 'Did you mean "desk"?'],
    [['load', '/does/not/exist.gguf'], 'No machine has /does/not/exist.gguf'],
    [['unload', 'nothing'], 'There is no deployment "nothing"'],
  ])('covey %j fails with a sentence', async (args, message) => {
    const { code, stdout, stderr } = await covey(...args);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain(message);
  });

  it('says why a job waits, that the controller does not answer, and that it answers again', async () => {
    const words = [
      'run',
      'command',
      '--name',
      'patient',
      '--data',
      controller.dataDirectory,
      '--',
      '/bin/true',
    ];
    const child = spawn(process.execPath, [coveyCommand, ...words], { stdio: ['ignore', 'ignore', 'pipe'] });
    onTestFinished(() => void child.kill('SIGKILL'));
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
    const ended = once(child, 'close');
    const saying = (text: string): Promise<boolean> => waitFor(text, () => said.includes(text), 30_000);
    await saying('It waits, no machine can take it now. ');
    const { dataDirectory, name, api, report } = controller;
    await controller.crash();
    await saying('The controller does not answer. ');
    controller = await cluster.current.startController({
      ...{ dataDirectory, name, api: new URL(api).host },
      cluster: report.clusterAddress ?? '',
    });
    await saying('The controller answers again.');
    expect((await covey('jobs', 'cancel', 'patient')).code).toBe(0);
    expect(await withDeadline('covey run', ended, 30_000)).toEqual([1, null]);
    for (const text of ['does not answer', 'answers again']) expect(said.split(text), said).toHaveLength(2);
    expect(said).not.toContain('…');
  });
});
