import { createCluster, type RunningController } from '../support/cluster.ts';
import { heavyModel, predictableModel, storiesModel } from '../support/models.ts';
import { untilEligible, untilStatus } from '../support/split-cluster.ts';
import { BenchChildren, coveySide, cpuMsOf, directSide, type Side } from './gateway-sides.ts';
import type { LoadReport, LoadRequest } from './gateway-load.ts';
import { describeMachine, median, type BenchOptions, type BenchResult, type BenchRun } from './result.ts';

/** One load, put on each side in turn. `tokens` are per request. */
interface Case {
  readonly name: string;
  readonly streams: number;
  readonly requestsPerStream: number;
  readonly tokens: number;
  readonly rounds: number;
}

const tinyCases: readonly Case[] = [
  { name: 'tiny-1', streams: 1, requestsPerStream: 5, tokens: 300, rounds: 6 },
  { name: 'tiny-8', streams: 8, requestsPerStream: 4, tokens: 300, rounds: 10 },
  { name: 'tiny-32', streams: 32, requestsPerStream: 1, tokens: 300, rounds: 6 },
];
const heavyCases: readonly Case[] = [
  { name: '100mb-1', streams: 1, requestsPerStream: 1, tokens: 100, rounds: 3 },
  { name: '100mb-8', streams: 8, requestsPerStream: 1, tokens: 60, rounds: 3 },
  { name: '100mb-32', streams: 32, requestsPerStream: 1, tokens: 30, rounds: 3 },
];
/** Short answers, many of them: the time to the first token. */
const firstTokenCase: Case = { name: 'first-1', streams: 1, requestsPerStream: 40, tokens: 4, rounds: 6 };
const remoteCases: readonly Case[] = [
  { name: 'remote-1', streams: 1, requestsPerStream: 5, tokens: 300, rounds: 6 },
  { name: 'remote-8', streams: 8, requestsPerStream: 4, tokens: 300, rounds: 10 },
];
const parallel = 32;
const contextPerRequest = 512;

/**
 * What the gateway costs: streamed tokens per second, CPU time and time to first token through a real controller,
 * against the same llama-server directly and against a plain Node pipe. `local`: the controller's own machine
 * runs the engine. `remote`: a worker does, against two processes that pipe over TLS.
 */
export async function run({ log }: BenchOptions): Promise<BenchResult> {
  const tiny = storiesModel() ?? (await predictableModel());
  const children = new BenchChildren();
  const cluster = createCluster();
  try {
    const measure = measurer(children.load(), log);
    const runs: BenchRun[] = [];

    log('a controller that lends its own machine ...');
    const controller = await cluster.startController({ name: 'local', args: ['--lend'] });
    await untilEligible(controller, 1);
    for (const [file, cases] of [
      [tiny, [...tinyCases, firstTokenCase]],
      [await heavyModel(), heavyCases],
    ] as const) {
      const { id, model } = await loadOn(controller, file);
      const direct = directSide(controller);
      const sides = [direct, coveySide('ours', controller, [controller]), await children.pipeSide(direct)];
      for (const one of cases) runs.push(...(await measure(one, model, sides)));
      await controller.client.call('unload', { params: { id } });
    }
    await controller.stop();

    log('a controller, and a worker that runs the engine ...');
    const remote = await cluster.startController({ name: 'remote' });
    const worker = await cluster.startWorker({ name: 'worker', join: await remote.invite() });
    await untilEligible(remote, 1);
    const { model } = await loadOn(remote, tiny);
    const direct = directSide(worker);
    const sides = [direct, coveySide('ours', remote, [remote, worker]), await children.tlsPipeSide(direct)];
    for (const one of remoteCases) runs.push(...(await measure(one, model, sides)));
    return result(runs);
  } finally {
    children.close();
    await cluster.close();
  }
}

async function loadOn(controller: RunningController, file: string): Promise<{ id: string; model: string }> {
  const { id } = await controller.client.call('load', { body: { model: file, parallel, contextPerRequest } });
  return untilStatus(controller, id, 'ready');
}

/** One round of each side warms it up and does not count; then they alternate, forwards and backwards. */
function measurer(load: (request: LoadRequest) => Promise<LoadReport>, log: (text: string) => void) {
  return async (one: Case, model: string, sides: readonly Side[]): Promise<BenchRun[]> => {
    const runs: BenchRun[] = [];
    for (let round = 0; round <= one.rounds; round++) {
      for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
        const { streams, requestsPerStream, tokens } = one;
        const cpuBeforeMs = cpuMsOf(side.pids);
        const report = await load({
          port: side.port,
          authorization: side.authorization,
          model,
          streams,
          requestsPerStream,
          tokens,
        });
        const cpuMs = cpuMsOf(side.pids) - cpuBeforeMs;
        if (report.broken > 0)
          throw new Error(`${report.broken} streams of ${side.name} in ${one.name} did not end properly`);
        if (round === 0) continue;
        runs.push({
          side: `${one.name} ${side.name}`,
          figures: {
            tokensPerS: (report.tokens / report.elapsedMs) * 1000,
            cpuSPer1kTokens: cpuMs / report.tokens,
            firstTokenMs: median(report.firstEventMs),
          },
        });
      }
    }
    const rate = (side: Side): string => median(valuesOf(runs, one.name, side.name, 'tokensPerS')).toFixed(0);
    log(`${one.name}: ${sides.map((side) => `${side.name} ${rate(side)}`).join(', ')} tokens/s`);
    return runs;
  };
}

function valuesOf(runs: readonly BenchRun[], caseName: string, side: string, name: string): number[] {
  return runs.filter((one) => one.side === `${caseName} ${side}`).map((one) => one.figures[name] ?? NaN);
}

function result(runs: readonly BenchRun[]): BenchResult {
  const values = (caseName: string, side: string, name: string): number[] =>
    valuesOf(runs, caseName, side, name);
  const of = (caseName: string, side: string, name: string): number => median(values(caseName, side, name));
  /** Median of the rounds' own ratios: what disturbs a machine for a while disturbs both sides of a round. */
  const ratio = (caseName: string, side: string, name = 'tokensPerS'): number => {
    const theirs = values(caseName, side, name);
    return median(values(caseName, 'ours', name).map((ours, round) => ours / (theirs[round] ?? NaN)));
  };
  const added = (side: string): number =>
    of(firstTokenCase.name, side, 'firstTokenMs') - of(firstTokenCase.name, 'direct', 'firstTokenMs');
  const ratios: Record<string, number> = {};
  for (const { name } of [...tinyCases, ...heavyCases]) {
    ratios[`ratio ${name}`] = ratio(name, 'direct');
    ratios[`pipeRatio ${name}`] = ratio(name, 'pipe');
  }
  for (const { name } of remoteCases) ratios[`pipeRatio ${name}`] = ratio(name, 'tls-pipe');
  const figures = {
    pipeRatio: ratio('tiny-8', 'pipe'),
    cpuPer1kTokens: of('tiny-8', 'ours', 'cpuSPer1kTokens'),
    pipeCpuPer1kTokens: of('tiny-8', 'pipe', 'cpuSPer1kTokens'),
    cpuRatio: of('tiny-8', 'ours', 'cpuSPer1kTokens') / of('tiny-8', 'pipe', 'cpuSPer1kTokens'),
    addedFirstTokenMs: added('ours'),
    pipeAddedFirstTokenMs: added('pipe'),
    remoteRatio: ratio('remote-8', 'tls-pipe'),
    remoteCpuRatio: of('remote-8', 'ours', 'cpuSPer1kTokens') / of('remote-8', 'tls-pipe', 'cpuSPer1kTokens'),
  };
  return {
    name: 'gateway',
    ratio: ratio('tiny-8', 'direct'),
    ratioOf: 'ours / direct, streamed tokens per second at 8 streams of the tiny model; higher is better',
    ours: of('tiny-8', 'ours', 'tokensPerS'),
    theirs: of('tiny-8', 'direct', 'tokensPerS'),
    unit: 'tokens/s',
    runs,
    more: { ...figures, ...ratios },
    targets: {
      ratio: { atLeast: 0.85 },
      pipeRatio: { atLeast: 0.95 },
      cpuRatio: { atMost: 1.2 },
      addedFirstTokenMs: { atMost: 3 },
      remoteRatio: { atLeast: 0.95 },
    },
    machine: describeMachine(),
  };
}
