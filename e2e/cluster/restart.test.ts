import { describe, expect, test } from 'vitest';
import { predictText } from '../../src-worker/models/predictable.ts';
import { predictableModel } from '../support/models.ts';
import { complete } from '../support/openai-http.ts';
import { loadReady, startSplitCluster, untilEligible, untilStatus } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

const cluster = useCluster();
const prompt = 'Once upon a time';

describe('the controller ends and comes back', () => {
  test.each(['killed', 'stopped'] as const)(
    '%s: it serves again without a reload while the leader lives',
    async (how) => {
      const { controller, anna, ben } = await startSplitCluster(cluster.current);
      const { id, model } = await loadReady(controller, await predictableModel());
      const engines = [...anna.engines(), ...ben.engines()].map(({ pid }) => pid);
      const clusterAddress = controller.report.clusterAddress ?? '';
      await (how === 'killed' ? controller.crash() : controller.stop());
      const again = await cluster.current.startController({
        dataDirectory: controller.dataDirectory,
        cluster: clusterAddress,
        name: controller.name,
      });
      const view = await untilStatus(again, id, 'ready', 30_000);
      expect(view.epoch).toBe(1);
      await untilEligible(again, 2);
      expect([...anna.engines(), ...ben.engines()].map(({ pid }) => pid)).toEqual(engines);
      expect(await complete(again.api, model, prompt, 40)).toBe(predictText(prompt, 40));
    },
  );

  test('a deployment is brought back without a click after everything was stopped', async () => {
    const { controller, anna, ben } = await startSplitCluster(cluster.current);
    const { id, model } = await loadReady(controller, await predictableModel());
    const clusterAddress = controller.report.clusterAddress ?? '';
    await anna.stop();
    await ben.stop();
    await controller.stop();
    const again = await cluster.current.startController({
      dataDirectory: controller.dataDirectory,
      cluster: clusterAddress,
    });
    await cluster.current.startWorker({ name: 'anna', dataDirectory: anna.dataDirectory });
    await cluster.current.startWorker({ name: 'ben', dataDirectory: ben.dataDirectory });
    await untilStatus(again, id, 'ready', 60_000);
    expect(await complete(again.api, model, prompt, 40)).toBe(predictText(prompt, 40));
  });
});

describe('drain', () => {
  test('finishes what runs, empties the node, survives a restart, and resume loads again', async () => {
    const { controller } = await startSplitCluster(cluster.current);
    const { id, model } = await loadReady(controller, await predictableModel());
    const running = complete(controller.api, model, prompt, 400);
    await waitFor(
      'the request to run',
      async () => (await controller.client.call('status')).requestsRunning > 0,
      5_000,
      5,
    ).catch(() => undefined);
    await controller.client.call('drain', { params: { node: 'ben' }, body: {} });
    expect(await running).toBe(predictText(prompt, 400));
    await waitFor(
      'ben to be drained',
      async () => (await controller.client.call('node', { params: { node: 'ben' } })).drain?.completedAt,
      20_000,
    );
    expect((await controller.client.call('deployment', { params: { id } })).status).toBe('waiting');

    const clusterAddress = controller.report.clusterAddress ?? '';
    await controller.stop();
    const again = await cluster.current.startController({
      dataDirectory: controller.dataDirectory,
      cluster: clusterAddress,
    });
    expect((await again.client.call('node', { params: { node: 'ben' } })).drain?.completedAt).toBeTruthy();
    await waitFor(
      'ben to be back',
      async () => (await again.client.call('node', { params: { node: 'ben' } })).connected,
      20_000,
    );
    await again.client.call('resume', { params: { node: 'ben' } });
    await untilStatus(again, id, 'ready', 30_000);
    expect(await complete(again.api, model, prompt, 20)).toBe(predictText(prompt, 20));
  });
});

describe('removal', () => {
  test('a removed worker is refused by name and its engines end', async () => {
    const { controller, ben } = await startSplitCluster(cluster.current);
    await loadReady(controller, await predictableModel());
    await controller.client.call('removeNode', { params: { node: 'ben' } });
    await waitFor('its engines to end', () => ben.engines().length === 0, 20_000);
    await waitFor(
      'the refusal to be said',
      () => /removed from the covey/.test(ben.process.output()),
      20_000,
    );
    const { nodes } = await controller.client.call('nodes');
    expect(nodes.map((node) => node.name)).toEqual(['anna']);
  });

  test('one that was removed while it could not reach the controller ends its engines when it hears of it', async () => {
    const { controller, ben } = await startSplitCluster(cluster.current);
    await loadReady(controller, await predictableModel());
    const clusterAddress = controller.report.clusterAddress ?? '';
    await controller.stop();
    expect(ben.engines()).toHaveLength(1);
    ben.process.signal('SIGSTOP');
    const again = await cluster.current.startController({
      dataDirectory: controller.dataDirectory,
      cluster: clusterAddress,
    });
    await again.client.call('removeNode', { params: { node: 'ben' } });
    ben.process.signal('SIGCONT');
    await waitFor('its engines to end', () => ben.engines().length === 0, 40_000);
  });
});
