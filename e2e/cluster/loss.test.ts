import { describe, expect, test } from 'vitest';
import { predictText } from '../../src-worker/models/predictable.ts';
import type { DeploymentView } from '../../src-main/shared/domain/deployment.ts';
import { heavyModel, predictableModel } from '../support/models.ts';
import { complete, post, postLongCompletion, readStream, type OpenRequest } from '../support/openai-http.ts';
import type { RunningNode } from '../support/cluster.ts';
import { stillRuns, type ProcessInfo } from '../support/processes.ts';
import {
  load,
  loadReady,
  startSplitCluster,
  untilStatus,
  type SplitCluster,
} from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

/**
 * Kill -9 of every kind of process at every stage of a deployment's life. Whatever is hit: the deployment leaves
 * `ready` within seconds, requests under way end with an error and never a silent cut, the engines of the broken
 * replica are gone everywhere, and it loads again by itself and answers as before.
 */
const cluster = useCluster();
const prompt = 'Once upon a time';

interface Victim {
  readonly name: string;
  /** Ends it and brings back what a person or a service manager would. */
  readonly strike: (split: SplitCluster) => Promise<void>;
}

const kill = (process_: ProcessInfo | undefined): void => {
  if (!process_) throw new Error('the process to kill is not there');
  process.kill(process_.pid, 'SIGKILL');
};
const hostOf = (node: RunningNode): ProcessInfo | undefined => {
  const [engine] = node.engines();
  return node.processes().find((process_) => process_.pid === engine?.parentPid);
};
const restartWorker = async (node: RunningNode): Promise<void> => {
  await node.crash();
  await cluster.current.startWorker({ name: node.name, dataDirectory: node.dataDirectory });
};

const victims: readonly Victim[] = [
  { name: 'rpc-server', strike: async ({ ben }) => kill(ben.engines('ggml-rpc-server')[0]) },
  { name: 'llama-server', strike: async ({ anna }) => kill(anna.engines('llama-server')[0]) },
  { name: "the stage's engine host", strike: async ({ ben }) => kill(hostOf(ben)) },
  { name: "the leader's engine host", strike: async ({ anna }) => kill(hostOf(anna)) },
  {
    name: "the stage's transport process",
    strike: async ({ ben }) =>
      kill(ben.processes().find(({ command }) => command.includes('transport-host'))),
  },
  { name: "the stage's worker", strike: ({ ben }) => restartWorker(ben) },
  { name: "the leader's worker", strike: ({ anna }) => restartWorker(anna) },
];

const enginesOf = ({ anna, ben }: SplitCluster): ProcessInfo[] => [...anna.engines(), ...ben.engines()];

async function untilReloaded(split: SplitCluster, before: DeploymentView): Promise<void> {
  await waitFor(
    'another replica to be ready',
    async () => {
      const view = await split.controller.client.call('deployment', { params: { id: before.id } });
      if (view.status === 'failed') throw new Error(`failed: ${view.reason?.message}`);
      return view.status === 'ready' && view.epoch > before.epoch;
    },
    60_000,
  );
}

describe.each(victims)('kill -9 of $name', ({ strike }) => {
  test('at idle', async () => {
    const split = await startSplitCluster(cluster.current);
    const before = await loadReady(split.controller, await predictableModel());
    const engines = enginesOf(split);
    await strike(split);
    await untilReloaded(split, before);
    expect(engines.filter(stillRuns)).toEqual([]);
    expect(await complete(split.controller.api, before.model, prompt, 40)).toBe(predictText(prompt, 40));
  });

  test('during decode', async () => {
    const split = await startSplitCluster(cluster.current);
    const before = await loadReady(split.controller, await heavyModel());
    const engines = enginesOf(split);
    const stream = postLongCompletion(split.controller.api, before.model);
    const whole = postLongCompletion(split.controller.api, before.model, false);
    await stream.received(2_000);
    const struckAt = Date.now();
    await strike(split);
    await expectInterrupted(stream, whole);
    expect(Date.now() - struckAt).toBeLessThan(25_000);
    await untilReloaded(split, before);
    expect(engines.filter(stillRuns)).toEqual([]);
    await complete(split.controller.api, before.model, 'once', 4);
  });
});

/** The stream says what happened and ends in order; the whole answer is a proper error. */
async function expectInterrupted(stream: OpenRequest, whole: OpenRequest): Promise<void> {
  const streamed = await stream.done;
  expect(streamed.status).toBe(200);
  expect(streamed.cut).toBe(false);
  const { error, texts } = readStream(streamed.body);
  expect(error).toMatchObject({
    type: 'server_error',
    code: expect.stringMatching(/engine|stage|stream|node|worker/),
  });
  expect(texts.length).toBeGreaterThan(5);
  const answer = await whole.done;
  expect(answer.cut).toBe(false);
  expect(answer.status).toBeGreaterThanOrEqual(500);
  expect(JSON.parse(answer.body)).toMatchObject({ error: { type: 'server_error' } });
}

describe('kill -9 during load', () => {
  test.each([
    ['rpc-server', ({ ben }: SplitCluster) => Promise.resolve(kill(ben.engines('ggml-rpc-server')[0]))],
    ['llama-server', ({ anna }: SplitCluster) => Promise.resolve(kill(anna.engines('llama-server')[0]))],
    ["the stage's worker", ({ ben }: SplitCluster) => restartWorker(ben)],
    ["the leader's worker", ({ anna }: SplitCluster) => restartWorker(anna)],
  ])('%s', async (_name, strike) => {
    const split = await startSplitCluster(cluster.current);
    const model = await heavyModel();
    const first = await load(split.controller, model);
    await waitFor(
      'the load to run',
      () => split.anna.engines('llama-server').length > 0 && split.ben.engines('ggml-rpc-server').length > 0,
      20_000,
      2,
    );
    const engines = enginesOf(split);
    await strike(split);
    await untilReloaded(split, { ...first, epoch: 1 });
    expect(engines.filter(stillRuns)).toEqual([]);
    await complete(split.controller.api, first.model, 'once', 4);
  });

  test('the controller: the load goes on or starts again when it is back', async () => {
    const { controller } = await startSplitCluster(cluster.current);
    const { id, model } = await load(controller, await heavyModel());
    await waitFor(
      'the load to run',
      async () =>
        (await controller.client.call('deployment', { params: { id } })).stages.some(
          (stage) => stage.phase === 'loading',
        ),
      20_000,
      2,
    ).catch(() => undefined);
    await controller.crash();
    const again = await cluster.current.startController({
      dataDirectory: controller.dataDirectory,
      cluster: controller.report.clusterAddress ?? '',
    });
    await untilStatus(again, id, 'ready', 60_000);
    await complete(again.api, model, 'once', 4);
  });
});

describe('kill -9 of rpc-server during prefill', () => {
  test('the stream that had not begun gets a proper error, and the model loads again', async () => {
    const split = await startSplitCluster(cluster.current);
    const before = await loadReady(split.controller, await heavyModel(), { parallel: 1 });
    const body = {
      model: before.model,
      prompt: 'once upon a time '.repeat(150),
      max_tokens: 4,
      temperature: 0,
    };
    const stream = post(split.controller.api, '/v1/completions', { ...body, stream: true });
    await waitFor(
      'the prompt to be computed',
      async () => {
        const node = await split.controller.client.call('node', { params: { node: 'ben' } });
        return (
          (await requestsRunning(split)) === 1 && node.engines.some((engine) => (engine.cpuMs ?? 0) > 300)
        );
      },
      20_000,
    );
    kill(split.ben.engines('ggml-rpc-server')[0]);
    const answer = await stream.done;
    expect(answer.cut).toBe(false);
    const error =
      answer.status === 200
        ? readStream(answer.body).error
        : (JSON.parse(answer.body) as { error: { type: string } }).error;
    expect(error).toMatchObject({ type: 'server_error' });
    await untilReloaded(split, before);
    await complete(split.controller.api, before.model, 'once', 4);
  });
});

const requestsRunning = async (split: SplitCluster): Promise<number> =>
  (await split.controller.client.call('status')).requestsRunning;

describe('kill -9 of the controller during decode', () => {
  test('the client sees its connection end, the slot is free, and it serves again without a reload', async () => {
    const split = await startSplitCluster(cluster.current);
    const { controller, anna, ben } = split;
    const before = await loadReady(controller, await heavyModel(), { parallel: 1 });
    const stream = postLongCompletion(controller.api, before.model);
    await stream.received(2_000);
    const engines = enginesOf(split).map(({ pid }) => pid);
    await controller.crash();
    const outcome = await stream.done.then(
      (answer) => answer.cut,
      () => true,
    );
    expect(outcome).toBe(true);
    const again = await cluster.current.startController({
      dataDirectory: controller.dataDirectory,
      cluster: controller.report.clusterAddress ?? '',
    });
    const view = await untilStatus(again, before.id, 'ready', 30_000);
    expect(view.epoch).toBe(1);
    expect([...anna.engines(), ...ben.engines()].map(({ pid }) => pid)).toEqual(engines);
    await complete(again.api, before.model, 'once', 4);
  });
});

describe('an engine that stands still', () => {
  const engines: readonly [string, (split: SplitCluster) => ProcessInfo | undefined][] = [
    ['rpc-server', ({ ben }) => ben.engines('ggml-rpc-server')[0]],
    ['llama-server', ({ anna }) => anna.engines('llama-server')[0]],
  ];

  // Each in a cluster of its own, both at once: most of it is waiting.
  test('kill -STOP during decode is noticed as no progress and treated as loss', async () => {
    const standing = await Promise.all(
      engines.map(async ([name, find]) => {
        const split = await startSplitCluster(cluster.current);
        return { name, find, split, before: await loadReady(split.controller, await heavyModel()) };
      }),
    );
    await Promise.all(
      standing.map(async ({ name, find, split, before }) => {
        const running = enginesOf(split);
        const stream = postLongCompletion(split.controller.api, before.model);
        await stream.received(2_000);
        const stoppedAt = Date.now();
        process.kill(find(split)?.pid ?? 0, 'SIGSTOP');
        const answer = await stream.done;
        expect(Date.now() - stoppedAt, name).toBeLessThan(25_000);
        expect(answer.cut, name).toBe(false);
        expect(readStream(answer.body).error?.code, name).toMatch(/engine|stream/);
        await untilReloaded(split, before);
        expect(running.filter(stillRuns), name).toEqual([]);
      }),
    );
  });
});

describe('the worker that leads is gone for good', () => {
  test('the deployment waits and says for whom; nothing runs on the others', async () => {
    const split = await startSplitCluster(cluster.current);
    const before = await loadReady(split.controller, await predictableModel());
    await split.anna.crash();
    await waitFor(
      'requests to be refused',
      async () =>
        (await post(split.controller.api, '/v1/completions', { model: before.model, prompt: 'x' }).done)
          .status === 503,
      5_000,
    );
    const refused = await post(split.controller.api, '/v1/completions', { model: before.model, prompt: 'x' })
      .done;
    expect(refused.headers['retry-after']).toMatch(/^\d+$/);
    const waiting = await untilStatus(split.controller, before.id, 'waiting', 30_000);
    expect(waiting.reason?.message).toMatch(/anna/);
    await waitFor('the stage to end', () => split.ben.engines().length === 0, 20_000);
  });
});
