import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { estimateMemory } from '../../src-main/controller/placement/estimate.ts';
import {
  consecutive,
  engineAssignment,
  engineSplitArguments,
} from '../../src-main/controller/placement/split.ts';
import type { ModelInfo } from '../../src-main/shared/domain/model-info.ts';
import { parseGgufHeader } from '../../src-main/shared/gguf/header.ts';
import { llamaServerArguments } from '../../src-worker/engines/llama/arguments.ts';
import { generateModel } from '../../src-worker/models/generate.ts';
import { inspectModelFile } from '../../src-worker/models/inspect.ts';
import {
  generatePredictableModel,
  predictChat,
  predictText,
  predictTokens,
  promptTokens,
} from '../../src-worker/models/predictable.ts';
import { engineDirectory } from './checkout.ts';
import { startProcess, type ManagedProcess } from './managed-process.ts';
import { freePort, isListening } from './ports.ts';
import { waitFor } from './wait.ts';

/** Made models and the planner's arithmetic against the real engine. */

const apiKey = 'f'.repeat(64);
let directory: string;
let story: string;
let storyInfo: ModelInfo;
const running: ManagedProcess[] = [];

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'covey-models-native-'));
  story = path.join(directory, 'story.gguf');
  await generatePredictableModel({ path: story });
  const inspected = await inspectModelFile(story);
  if (!inspected.ok) throw inspected.error;
  storyInfo = inspected.value.info;
});
afterEach(async () => {
  // The client first: it aborts when a server it is connected to goes away.
  for (const process of running.splice(0).reverse()) await process.stop();
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

interface Layout {
  readonly cpu: number;
  readonly stages: readonly number[];
}

interface Engine {
  post(route: string, body: unknown): Promise<{ status: number; body: Answer }>;
  /** What it printed while loading. */
  readonly log: string;
  /** Of the stages. */
  readonly endpoints: readonly string[];
}

interface Answer {
  readonly choices: readonly {
    readonly text?: string;
    readonly message?: { readonly content: string };
    readonly finish_reason: string;
  }[];
  readonly data: readonly { readonly embedding: readonly number[] }[];
  readonly tokens: readonly number[];
}

/** llama-server with the product's own arguments, its stages on plain loopback. */
async function start(
  model: string,
  layout: Layout,
  shape = { contextPerRequest: 4096, parallel: 2 },
): Promise<Engine> {
  const env = { ...process.env, GGML_NO_BACKTRACE: '1', LLAMA_API_KEY: apiKey };
  const rpcEndpoints: string[] = [];
  for (let index = 0; index < layout.stages.length; index++) {
    const port = String(await freePort());
    const server = path.join(engineDirectory(), 'ggml-rpc-server');
    const stage = startProcess({
      label: `stage ${index}`,
      argv: [server, '-H', '127.0.0.1', '-p', port, '-d', 'CPU', '-t', '1'],
      env,
    });
    running.push(stage);
    await waitFor('the stage', () => isListening(Number(port)), 30_000);
    rpcEndpoints.push(`127.0.0.1:${port}`);
  }
  const split = engineSplitArguments({
    leaderCpu: layout.cpu,
    leaderDevices: [],
    stages: layout.stages.map((units) => ({ units })),
  });
  const args = llamaServerArguments({
    kind: 'llama',
    modelPath: model,
    modelName: 'made',
    modelBytes: 1,
    apiKey,
    ...shape,
    gpuLayers: split.gpuLayers,
    localDevices: [...split.localDevices],
    tensorSplit: [...split.tensorSplit],
    rpcEndpoints,
    threads: 1,
    poll: 0,
    batch: 512,
    loadStallMs: 60_000,
    canaryMs: 60_000,
  });
  const port = await freePort();
  args[args.indexOf('--port') + 1] = String(port);
  const server = startProcess({
    label: 'llama-server',
    argv: [path.join(engineDirectory(), 'llama-server'), ...args, '--verbose'],
    env,
  });
  running.push(server);
  const api = `http://127.0.0.1:${port}`;
  await waitFor(
    'llama-server',
    async () => {
      if (server.hasExited) throw new Error(server.output().slice(-2000));
      return (await fetch(`${api}/health`)).ok;
    },
    60_000,
  );
  return {
    log: server.output(),
    endpoints: rpcEndpoints,
    async post(route, body) {
      const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
      const response = await fetch(api + route, { method: 'POST', headers, body: JSON.stringify(body) });
      return { status: response.status, body: (await response.json()) as Answer };
    },
  };
}

async function complete(engine: Engine, prompt: string, tokens: number) {
  const { status, body } = await engine.post('/v1/completions', {
    prompt,
    max_tokens: tokens,
    temperature: 0,
  });
  expect(status).toBe(200);
  return { text: body.choices[0]?.text, finishReason: body.choices[0]?.finish_reason };
}

const prompts = [
  'Once upon a time',
  'In the forest lives Ben.',
  'naïve (Ben) \n x',
  'until sleep came.',
  'Every',
];
const long = `Ben went. ${'so it was and '.repeat(340)}`;

describe('the predictable model on one process', () => {
  it('answers exactly what is predicted', async () => {
    const engine = await start(story, { cpu: 9, stages: [] });
    for (const prompt of prompts) {
      expect((await engine.post('/tokenize', { content: prompt, add_special: true })).body.tokens).toEqual(
        promptTokens(prompt),
      );
      expect(await complete(engine, prompt, 200)).toEqual({
        text: predictText(prompt, 200),
        finishReason: 'length',
      });
    }
    expect(promptTokens(long).length).toBeGreaterThan(3000);
    expect(predictText(long, 20)).toContain('Ben');
    expect((await complete(engine, long, 60)).text).toBe(predictText(long, 60));
    expect(await complete(engine, 'goodbye', 50)).toEqual({ text: ' farewell.', finishReason: 'stop' });
    expect(predictTokens(promptTokens('goodbye'), 50).stopped).toBe(true);

    const messages = [
      { role: 'system', content: 'Speak of Ben.' },
      { role: 'user', content: 'And of the forest' },
      { role: 'assistant', content: 'Every morning' },
      { role: 'user', content: 'More!' },
    ] as const;
    const chat = await engine.post('/v1/chat/completions', { messages, max_tokens: 40, temperature: 0 });
    expect(chat.body.choices[0]?.message?.content).toBe(predictChat(messages, 40));

    const embedded = await engine.post('/v1/embeddings', { input: ['Ben', 'Anna', 'Ben'] });
    const [ben, anna, again] = embedded.body.data.map((item) => item.embedding);
    expect(ben).toHaveLength(192);
    expect(Math.hypot(...(ben ?? []))).toBeCloseTo(1, 3);
    expect(again).toEqual(ben);
    expect(anna).not.toEqual(ben);
  });
});

describe('the predictable model with a fault', () => {
  it.each([
    ['two layers in the wrong order', 'blk.2.ffn_down.weight', 'blk.3.ffn_down.weight'],
    ['a cache that remembers nothing', 'blk.1.attn_v.weight', 'blk.2.attn_v.weight'],
  ])('answers something else: %s', async (_, first, second) => {
    const faulty = path.join(directory, 'faulty.gguf');
    await swapTensors(story, faulty, first, second);
    const engine = await start(faulty, { cpu: 9, stages: [] });
    const prompt = 'In the forest lives Ben.';
    expect((await complete(engine, prompt, 60)).text).not.toBe(predictText(prompt, 60));
  });
});

describe('a split', () => {
  it.each<Layout>([
    { cpu: 5, stages: [4] },
    { cpu: 0, stages: [5, 4] },
    { cpu: 3, stages: [1, 2, 3] },
    { cpu: 8, stages: [1] },
    { cpu: 0, stages: [9] },
  ])('is placed as planned, fits the estimate and answers the same: %o', async (layout) => {
    const shape = { contextPerRequest: 4096, parallel: 2 };
    const engine = await start(story, layout, shape);
    const split = engineSplitArguments({
      leaderCpu: layout.cpu,
      leaderDevices: [],
      stages: layout.stages.map((units) => ({ units })),
    });
    const planned = engineAssignment(8, split.gpuLayers, split.tensorSplit).map((at) =>
      at < 0 ? 'CPU' : `RPC${at}`,
    );
    const placed = [...engine.log.matchAll(/layer\s+\d+ assigned to device (\w+)/g)].map((match) => match[1]);
    expect(placed).toEqual(planned);

    const estimate = estimateMemory(storyInfo, shape, {
      leaderCpu: { from: 0, to: layout.cpu },
      leaderDevices: [],
      stages: consecutive(layout.stages, layout.cpu),
    });
    const mib = 1024 * 1024;
    for (const [index, use] of estimate.stages.entries()) {
      expect(use.weightBytes / mib).toBeCloseTo(printed(engine, index, 'model'), 1);
      expect(use.cacheBytes / mib).toBeCloseTo(printed(engine, index, 'KV'), 1);
      expect(use.workBytes / mib).toBeGreaterThan(printed(engine, index, 'compute'));
    }

    for (const prompt of ['Once upon a time', 'In the forest lives Ben.', long]) {
      expect((await complete(engine, prompt, 200)).text).toBe(predictText(prompt, 200));
    }
  });
});

describe('a random model', () => {
  it.each(['Q4_0', 'F32'] as const)(
    'of %s weights answers with text, up to the limit',
    async (weightType) => {
      const model = path.join(directory, `random-${weightType}.gguf`);
      await generateModel({
        path: model,
        layers: 3,
        embeddingLength: 256,
        feedForwardLength: 512,
        headCount: 8,
        headCountKv: 2,
        contextLength: 1024,
        seed: 5,
        weightType,
      });
      const engine = await start(model, { cpu: 4, stages: [] }, { contextPerRequest: 1024, parallel: 1 });
      const answer = await complete(engine, 'Once upon a time', 128);
      expect(answer.finishReason).toBe('length');
      expect(answer.text).toMatch(/^[\n -~]{100,}$/);
    },
  );
});

async function swapTensors(from: string, to: string, first: string, second: string): Promise<void> {
  const bytes = await readFile(from);
  const parsed = parseGgufHeader(bytes, bytes.length);
  if (parsed.kind !== 'ok') throw new Error('the model is not readable');
  const [one, other] = [first, second].map((name) => {
    const tensor = parsed.header.tensors.find((candidate) => candidate.name === name);
    if (tensor === undefined) throw new Error(`no tensor ${name}`);
    const start = parsed.header.dataOffset + tensor.offset;
    return { start, data: Buffer.from(bytes.subarray(start, start + tensor.bytes)) };
  }) as [{ start: number; data: Buffer }, { start: number; data: Buffer }];
  other.data.copy(bytes, one.start);
  one.data.copy(bytes, other.start);
  await writeFile(to, bytes);
}

/** MiB of "RPC0[127.0.0.1:1234] KV buffer size = 12.00 MiB" for one stage; 0 when it has none. */
function printed(engine: Engine, stage: number, kind: string): number {
  const endpoint = (engine.endpoints[stage] ?? '').replaceAll('.', '\\.');
  return Number(new RegExp(`\\[${endpoint}\\] +${kind} buffer size = +([\\d.]+)`).exec(engine.log)?.[1] ?? 0);
}
