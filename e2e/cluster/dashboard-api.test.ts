import { afterEach, describe, expect, test } from 'vitest';
import { apiRoutes } from '../../src-main/shared/api/schema.ts';
import { predictableModel } from '../support/models.ts';
import { runCovey } from '../support/cli.ts';
import { followLive, type LiveView } from '../support/live.ts';
import { complete, post, readStream } from '../support/openai-http.ts';
import { loadReady, startSplitCluster, untilEligible, untilStatus } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

const cluster = useCluster();
const prompt = 'Once upon a time';
const open: LiveView[] = [];
afterEach(() => open.splice(0).forEach((view) => view.close()));

describe('what dashboards use', () => {
  test('a machine is renamed and paused; both last over a restart of the controller', async () => {
    const { controller, anna, ben } = await startSplitCluster(cluster.current);
    const { id, model } = await loadReady(controller, await predictableModel());
    const renamed = await controller.client.call('renameNode', {
      params: { node: 'ben' },
      body: { name: 'küche' },
    });
    expect(renamed).toMatchObject({ id: ben.report.nodeId, name: 'küche', connected: true });
    await expect(
      controller.client.call('renameNode', { params: { node: 'küche' }, body: { name: 'anna' } }),
    ).rejects.toMatchObject({ code: 'node_name_taken', details: { field: 'name' } });

    const paused = await controller.client.call('pause', { params: { node: 'küche' } });
    expect(paused).toMatchObject({ status: 'paused', eligible: false, deployments: [id] });
    expect(await complete(controller.api, model, prompt, 10)).not.toBe('');
    await expect(
      controller.client.call('load', {
        body: { model: await predictableModel(), name: 'second', nodes: ['küche', 'anna'], leader: 'anna' },
      }),
    ).rejects.toMatchObject({
      code: 'placement_refused',
      message: expect.stringContaining('"küche" cannot be used: it is paused') as string,
    });

    const clusterAddress = controller.report.clusterAddress ?? '';
    await controller.stop();
    const again = await cluster.current.startController({
      dataDirectory: controller.dataDirectory,
      cluster: clusterAddress,
    });
    await untilStatus(again, id, 'ready', 30_000);
    await untilEligible(again, 1);
    await waitFor(
      'the paused machine to be back',
      async () => (await again.client.call('node', { params: { node: 'küche' } })).status === 'paused',
      15_000,
    );
    expect(anna.engines('llama-server')).toHaveLength(1);
    const resumed = await again.client.call('resume', { params: { node: 'küche' } });
    expect(resumed).toMatchObject({ status: 'busy', eligible: true, pausedAt: null });

    const { events } = await again.client.call('eventHistory', {
      query: { node: 'küche', kind: 'node-renamed,node-paused,node-resumed' },
    });
    expect(events.map(({ kind, message }) => [kind, message])).toEqual([
      ['node-resumed', 'küche takes work again.'],
      ['node-paused', 'küche is paused: it gets no new work.'],
      ['node-renamed', 'ben is called küche now.'],
    ]);
  });

  test('a renamed machine knows its name: at once, and after a restart without its controller', async () => {
    const api = '127.0.0.1:0';
    const { controller, ben } = await startSplitCluster(cluster.current, { ben: { api } });
    await controller.client.call('renameNode', { params: { node: 'ben' }, body: { name: 'küche' } });
    await waitFor('ben to hear it', async () => (await ben.client.call('self')).name === 'küche', 5_000);
    await controller.stop();
    await ben.stop();
    const again = await cluster.current.startWorker({ name: 'ben', dataDirectory: ben.dataDirectory, api });
    expect(again.report.name).toBe('küche');
    expect(await again.client.call('self')).toMatchObject({
      name: 'küche',
      membership: { connected: false },
    });
    expect(await runCovey(again, ['status'])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^Machine: küche \(/) as string,
    });
  });

  test('figures are live: machines, requests, tokens a second; ten minutes of them are kept', async () => {
    const { controller, ben } = await startSplitCluster(cluster.current);
    const view = await followLive(controller);
    open.push(view);
    await view.until('all machines in the first update', ({ updates }) => updates[0]?.nodes.length === 2);
    await view.until('figures of both', ({ nodes }) =>
      [...nodes.values()].every(
        (node) => node.cpuLoad !== null && node.receiveBytesPerS !== null && node.devices[0]?.id === 'CPU',
      ),
    );
    const { id, model } = await loadReady(controller, await predictableModel());
    const streams = [0, 1].map(() =>
      post(controller.api, '/v1/completions', {
        model,
        prompt,
        max_tokens: 1_500,
        temperature: 0,
        stream: true,
      }),
    );
    await view.until('tokens a second', ({ deployments }) => (deployments.get(id)?.tokensPerS ?? 0) > 0);
    const answers = await Promise.all(streams.map(({ done }) => done));
    expect(answers.map(({ body }) => readStream(body).finished)).toEqual([true, true]);
    expect(view.deployments.get(id)?.slotsTotal).toBeGreaterThanOrEqual(1);
    await view.until(
      'rest',
      ({ deployments }) =>
        deployments.get(id)?.tokensPerS === 0 && deployments.get(id)?.requestsRunning === 0,
    );

    await ben.crash();
    await view.until(
      'the page to see the lost machine within 5 s',
      ({ nodes }) => !['ready', 'busy'].includes(nodes.get(ben.report.nodeId)?.status ?? 'ready'),
      5_000,
    );
    const { samples } = await controller.client.call('nodeHistory', { params: { node: 'anna' } });
    expect(samples.length).toBeGreaterThanOrEqual(3);
    expect(samples.at(-1)?.cpuLoad).not.toBeNull();
    const times = samples.map(({ at }) => at);
    expect(times).toEqual([...times].sort((a, b) => a - b));
  });

  test('the events that llama-server streams are what the count of tokens takes them for', async () => {
    const { controller } = await startSplitCluster(cluster.current);
    const { model } = await loadReady(controller, await predictableModel());
    const blocks = async (path: string, body: object): Promise<number> => {
      const request = { model, max_tokens: 40, temperature: 0, stream: true, ...body };
      const answer = await post(controller.api, path, request).done;
      expect(answer.status).toBe(200);
      return answer.body.split('\n\n').filter((block) => block.startsWith('data: ')).length;
    };
    expect(await blocks('/v1/completions', { prompt })).toBe(40 + 2);
    const chat = await blocks('/v1/chat/completions', { messages: [{ role: 'user', content: prompt }] });
    expect(chat).toBeGreaterThan(3);
    expect(chat).toBeLessThanOrEqual(40 + 3);
  });

  test('a preview is what the load then does, and a model in use stays in its library', async () => {
    const { controller } = await startSplitCluster(cluster.current);
    const transfer = await controller.client.call('importModel', {
      body: { node: 'anna', path: await predictableModel(), name: 'mine' },
    });
    await waitFor(
      'the import',
      async () => {
        const { transfers } = await controller.client.call('transfers');
        return transfers.find(({ id }) => id === transfer.id)?.status === 'done';
      },
      30_000,
    );
    const body = { model: 'mine', split: { anna: 70, ben: 30 }, leader: 'anna' };
    const preview = await controller.client.call('previewLoad', { body });
    expect(preview).toMatchObject({ ok: true, error: null });
    const deployment = await loadReady(controller, 'mine', body);
    const shape = (stage: { nodeName: string; role: string; layers: number }) => [
      stage.nodeName,
      stage.role,
      stage.layers,
    ];
    expect(deployment.stages.map(shape)).toEqual(preview.stages.map(shape));
    expect(deployment.contextPerRequest).toBe(preview.contextPerRequest);
    const other = await controller.client.call('previewLoad', {
      body: { ...body, split: { anna: 1, ben: 1 } },
    });
    expect(other).toMatchObject({ ok: false, error: { code: 'already_loaded' } });
    expect(other.stages).toHaveLength(2);

    const remove = { params: { node: 'anna', name: 'mine' } };
    await expect(controller.client.call('removeModel', remove)).rejects.toMatchObject({
      code: 'model_in_use',
    });
    await controller.client.call('unload', { params: { id: deployment.id } });
    await waitFor(
      'it to be unloaded',
      async () => (await controller.client.call('deployments')).deployments.length === 0,
      20_000,
    );
    await controller.client.call('removeModel', remove);
    expect((await controller.client.call('models')).models).toEqual([]);
    const gone = await controller.client.call('previewLoad', { body });
    expect(gone).toMatchObject({ ok: false, stages: [], error: { code: 'model_file_not_found' } });
    await expect(controller.client.call('removeModel', remove)).rejects.toMatchObject({
      code: 'model_not_found',
    });
  });

  test('all of it wants a token, and pages of events are walked without a gap', async () => {
    const controller = await cluster.current.startController();
    for (const name of [
      'pause',
      'renameNode',
      'nodeHistory',
      'previewLoad',
      'eventHistory',
      'removeModel',
      'transfers',
    ] as const) {
      const { method, path } = apiRoutes[name];
      const response = await fetch(`${controller.api}${path.replace(/:\w+/g, 'x')}`, { method });
      expect([name, response.status]).toEqual([name, 401]);
    }
    for (let count = 0; count < 5; count += 1) await controller.client.call('invite');
    const ids: number[] = [];
    for (let more = true; more;) {
      const before = ids.at(-1);
      const page = await controller.client.call('eventHistory', {
        query: { limit: '2', ...(before === undefined ? {} : { before: String(before) }) },
      });
      ids.push(...page.events.map(({ id }) => id as number));
      more = page.more;
    }
    const newest = ids[0] ?? 0;
    expect(newest).toBeGreaterThanOrEqual(5);
    expect(ids).toEqual(Array.from({ length: newest }, (_, index) => newest - index));
  });
});
