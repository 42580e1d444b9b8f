import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateModel } from '../../src-worker/models/generate.ts';
import { engineDirectory } from '../support/checkout.ts';
import { startProcess } from '../support/managed-process.ts';
import { freePort } from '../support/ports.ts';
import { waitFor } from '../support/wait.ts';
import { describeMachine, median, type BenchOptions, type BenchResult, type BenchRun } from './result.ts';
import {
  isListening,
  openCoveyPath,
  openStunnelPath,
  stunnelProgram,
  type TunnelPath,
} from './tunnel-paths.ts';

/**
 * A generated model of about 0.55 GB, half of its layers in the leader's llama-server and half behind one
 * rpc-server, over three paths in turn: bare loopback, two transport processes, two stunnel processes.
 * `decode`: tokens/s of a greedy answer. `load`: MB/s of the stage's weights from the engine's start to the
 * moment it answers, so the start of the program counts on all sides.
 */
const layers = 16;
const stageLayers = 8;
const rounds = 3;
const tokens = 48;

export async function run({ log }: BenchOptions): Promise<BenchResult> {
  const directory = await mkdtemp(join(tmpdir(), 'covey-bench-tunnel-'));
  const closers: Array<() => Promise<unknown>> = [() => rm(directory, { recursive: true, force: true })];
  try {
    const model = join(directory, 'model.gguf');
    log('generating a model of 0.55 GB ...');
    const bytes = await generateModel({
      path: model,
      layers,
      embeddingLength: 2048,
      feedForwardLength: 8192,
      headCount: 32,
      headCountKv: 8,
      contextLength: 2048,
      seed: 1,
      weightType: 'Q4_0',
    });
    const target = await freePort();
    const server = startProcess({
      label: 'rpc-server',
      argv: [
        join(engineDirectory(), 'ggml-rpc-server'),
        '-H',
        '127.0.0.1',
        '-p',
        String(target),
        '-d',
        'CPU',
        '-t',
        '1',
      ],
    });
    closers.push(() => server.stop());
    await waitFor('the rpc-server', () => isListening(target), 10_000);

    const raw: TunnelPath = { name: 'raw', port: target, close: () => Promise.resolve() };
    const paths = [raw, await openCoveyPath(target)];
    const stunnel = stunnelProgram();
    if (stunnel) paths.push(await openStunnelPath(stunnel, target));
    else log('stunnel is not installed (Debian package stunnel4): loadRatio is against nothing and left out');
    closers.push(...paths.map((path) => () => path.close()));

    const stageMb = (bytes * (stageLayers / (layers + 1))) / 1e6;
    const runs: BenchRun[] = [];
    for (let round = 0; round <= rounds; round += 1) {
      for (const path of round % 2 === 0 ? paths : paths.toReversed()) {
        log(
          round === 0 ? `warm-up over ${path.name} ...` : `round ${round} of ${rounds} over ${path.name} ...`,
        );
        const figures = await measure(model, path.port, stageMb);
        if (round > 0) runs.push({ side: path.name, figures });
      }
    }
    const of = (side: string, figure: string): number =>
      median(runs.filter((entry) => entry.side === side).map((entry) => entry.figures[figure] ?? NaN));
    const decode = of('covey', 'decodeTokensPerS');
    return {
      name: 'tunnel',
      ratio: decode / of('raw', 'decodeTokensPerS'),
      ratioOf: 'decode tokens/s through the tunnel / over raw RPC; higher is better',
      ours: decode,
      theirs: of('raw', 'decodeTokensPerS'),
      unit: 'tokens/s',
      runs,
      more: {
        ...(stunnel ? { loadRatio: of('covey', 'loadMbPerS') / of('stunnel', 'loadMbPerS') } : {}),
        loadRatioToRaw: of('covey', 'loadMbPerS') / of('raw', 'loadMbPerS'),
        ...(stunnel
          ? { stunnelDecodeRatio: of('stunnel', 'decodeTokensPerS') / of('raw', 'decodeTokensPerS') }
          : {}),
      },
      targets: { ratio: { atLeast: 0.95 }, loadRatio: { atLeast: 0.9 }, loadRatioToRaw: { atLeast: 0.6 } },
      machine: describeMachine(),
    };
  } finally {
    for (const close of closers.toReversed()) await close();
  }
}

/** One load and one answer over a path. */
async function measure(model: string, path: number, stageMb: number): Promise<Record<string, number>> {
  const port = await freePort();
  const program = join(engineDirectory(), 'llama-server');
  if (!existsSync(program)) throw new Error(`${program} is missing`);
  const startedAt = performance.now();
  const engine = startProcess({
    label: 'llama-server',
    argv: [
      program,
      ...['--model', model, '--host', '127.0.0.1', '--port', String(port)],
      ...['--rpc', `127.0.0.1:${path}`, '--device', 'RPC0', '-ts', '1', '-ngl', String(stageLayers)],
      ...['-fit', 'off', '-c', '512', '--parallel', '1', '-t', '1', '--poll', '0', '--no-warmup'],
    ],
  });
  try {
    await waitFor(
      'the model to load',
      async () => {
        if (engine.hasExited) throw new Error(`llama-server ended: ${engine.output().slice(-2_000)}`);
        return (await fetch(`http://127.0.0.1:${port}/health`)).ok;
      },
      120_000,
      20,
    );
    const loadS = (performance.now() - startedAt) / 1_000;
    await answer(port, 4);
    return { loadS, loadMbPerS: stageMb / loadS, decodeTokensPerS: await answer(port, tokens) };
  } finally {
    await engine.stop();
  }
}

async function answer(port: number, count: number): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${port}/completion`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'once upon a time', n_predict: count, temperature: 0, ignore_eos: true }),
    signal: AbortSignal.timeout(120_000),
  });
  const body = (await response.json()) as { timings?: { predicted_per_second?: number } };
  if (!response.ok || body.timings?.predicted_per_second === undefined) {
    throw new Error(`the engine answered ${response.status} ${JSON.stringify(body).slice(0, 300)}`);
  }
  return body.timings.predicted_per_second;
}
