import { describe, expect, test } from 'vitest';
import { predictText } from '../../src-worker/models/predictable.ts';
import { heavyModel, predictableModel, storiesMissing, storiesModel } from '../support/models.ts';
import { complete, post, readStream } from '../support/openai-http.ts';
import { loadReady, startSplitCluster } from '../support/split-cluster.ts';
import { startReference } from '../support/reference-server.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

const cluster = useCluster();

describe('a model split over two machines', () => {
  test('answers exactly as one process without RPC does', async ({ skip }) => {
    const model = storiesModel();
    if (!model) skip(storiesMissing);
    const { controller, anna, ben } = await startSplitCluster(cluster.current);
    const deployment = await loadReady(controller, model as string, { split: { anna: 60, ben: 40 } });
    expect(deployment.stages.map((stage) => [stage.nodeName, stage.role, stage.layers])).toEqual([
      ['anna', 'leader', 4],
      ['ben', 'stage', 2],
    ]);
    expect(anna.engines('llama-server')).toHaveLength(1);
    expect(ben.engines('ggml-rpc-server')).toHaveLength(1);

    const text = await complete(controller.api, 'stories260K', 'Once upon a time', 200);
    expect(text).toMatch(/^, there was a little girl named Lily\./);
    const reference = await startReference(model as string);
    try {
      expect(text).toBe(await complete(reference.api, 'stories260K', 'Once upon a time', 200));
    } finally {
      await reference.stop();
    }
  });

  test('streams the predicted text, over any shares', async () => {
    const model = await predictableModel();
    const { controller } = await startSplitCluster(cluster.current);
    for (const split of [
      { anna: 1, ben: 8 },
      { anna: 80, ben: 20 },
    ]) {
      const { id, model: name } = await loadReady(controller, model, { split });
      const answer = await post(controller.api, '/v1/completions', {
        model: name,
        prompt: 'Once upon a time',
        max_tokens: 100,
        temperature: 0,
        stream: true,
      }).done;
      const stream = readStream(answer.body);
      expect(stream).toMatchObject({ error: null, finished: true });
      expect(stream.texts.join('')).toBe(predictText('Once upon a time', 100));
      await controller.client.call('unload', { params: { id } });
      await waitFor(
        'it to be unloaded',
        async () => (await controller.client.call('deployments')).deployments.length === 0,
        20_000,
      );
    }
  });

  test('engines listen on loopback only and their keys stand in no command line', async () => {
    const { controller, anna, ben } = await startSplitCluster(cluster.current);
    await loadReady(controller, await predictableModel());
    for (const node of [anna, ben]) {
      for (const { host } of node.ports()) expect(host).toBe('127.0.0.1');
      for (const engine of node.engines()) expect(engine.command).not.toMatch(/[0-9a-f]{32}/);
    }
    const [server] = anna.engines('llama-server');
    const port = anna.ports().find((listening) => listening.pid === server?.pid)?.port;
    const answer = await fetch(`http://127.0.0.1:${port}/v1/completions`, {
      method: 'POST',
      body: '{"prompt":"x"}',
    });
    expect(answer.status).toBe(401);
  });

  test('progress is told by stage until ready', async () => {
    const { controller } = await startSplitCluster(cluster.current);
    const abort = new AbortController();
    const phases = new Set<string>();
    const watching = (async () => {
      for await (const event of controller.client.events({ afterId: null, signal: abort.signal })) {
        for (const stage of event.stages ?? [])
          if (stage.phase) phases.add(`${stage.nodeName} ${stage.phase}`);
        if (event.kind === 'replica-ready') return;
      }
    })();
    await loadReady(controller, await heavyModel());
    await watching;
    abort.abort();
    expect([...phases]).toEqual(expect.arrayContaining(['ben ready', 'anna loading']));
  });
});
