import { setTimeout as delay } from 'node:timers/promises';
import type { EngineProgress } from '#shared/domain/engine.ts';
import { CoveyError } from '#shared/errors.ts';
import type { EngineContext, RunningProgram } from '../host/engine-context.ts';
import { engineEnvironment } from '../host/environment.ts';
import type { NativeProcess } from '../host/native-process.ts';
import { llamaServerArguments, type LlamaProgram } from './arguments.ts';
import { canaryRequest, checkCanary } from './canary.ts';
import { createLogTail, engineError, explainExit } from './engine-error.ts';
import { loopbackRequest } from './loopback-http.ts';
import { exitLine, parseServerOutput, reportingEnvironment } from './server-output.ts';

const progressEveryMs = 250;
const watchEveryMs = 1_000;
const requestMs = 5_000;
const slotsMs = 800;
/** CPU time between two looks that counts as work: more than a process that only waits can collect. */
const workingCpuMs = 20;

/**
 * Brings up a leader: starts llama-server, follows its load, and lets it answer the canary. It is ready when
 * this resolves. Errors: `engine_start_failed`, `engine_load_failed`, `engine_out_of_memory`, `engine_timeout`
 * (no progress for `loadStallMs`), `canary_failed`, `stage_lost`.
 */
export async function startLlamaServer(context: EngineContext<LlamaProgram>): Promise<RunningProgram> {
  const { program } = context;
  const tail = createLogTail();
  const server = await context.start(
    'llama-server',
    llamaServerArguments(program),
    engineEnvironment({ LLAMA_API_KEY: program.apiKey, ...reportingEnvironment }),
  );
  context.signal.addEventListener('abort', () => server.write(exitLine), { once: true });
  context.emit({ type: 'phase', phase: 'loading', error: null });

  const load: Load = { port: 0, ready: false, vocabularySize: null, evidenceAt: performance.now() };
  const report = progressReporter(context, program.modelBytes);
  server.onLine((line) => {
    load.evidenceAt = performance.now();
    const output = parseServerOutput(line);
    switch (output.kind) {
      case 'progress':
        report(output.share);
        return;
      case 'ready':
        load.ready = true;
        load.vocabularySize = output.vocabularySize;
        return;
      case 'listening':
        load.port = output.port;
        return;
      case 'log':
        tail.add(line);
        context.log(output.level, output.message);
        return;
    }
  });

  await loaded(context, server, load, tail.lines);
  context.emit({ type: 'listening', port: load.port, pid: server.pid });
  context.emit({ type: 'phase', phase: 'canary', error: null });
  await untilExit(context, server, tail.lines, singCanary(context, load));
  return {
    process: server,
    busySlots: () => busySlots(load.port, program.apiKey),
    explain: (exit) => explainExit(tail.lines(), exit, 'run'),
  };
}

/** What is known of a load so far. */
interface Load {
  port: number;
  ready: boolean;
  vocabularySize: number | null;
  /** When it last showed that it goes on. */
  evidenceAt: number;
}

/** At most four updates a second, never going back. */
function progressReporter(context: EngineContext<LlamaProgram>, totalBytes: number): (share: number) => void {
  let highest = -1;
  let sentAt = -Infinity;
  return (share) => {
    const now = performance.now();
    if (share <= highest || (share < 1 && now - sentAt < progressEveryMs)) return;
    highest = share;
    sentAt = now;
    const progress: EngineProgress = {
      step: 'loading tensors',
      doneBytes: Math.round(share * totalBytes),
      totalBytes,
      percent: Math.round(share * 1000) / 10,
    };
    context.emit({ type: 'progress', progress });
  };
}

/** Resolves when the model is loaded; every line of output and every bit of CPU time counts as progress. */
async function loaded(
  context: EngineContext<LlamaProgram>,
  server: NativeProcess,
  load: Load,
  lines: () => readonly string[],
): Promise<void> {
  let cpuMs = 0;
  let cpuAt = 0;
  while (!load.ready || load.port === 0) {
    if (context.signal.aborted) throw new CoveyError('cancelled', 'the engine was stopped while it loaded');
    if (server.exit) throw engineError(explainExit(lines(), server.exit, 'load'));
    const now = performance.now();
    if (now - cpuAt >= watchEveryMs) {
      const used = context.cpuMs() ?? cpuMs;
      if (used - cpuMs >= workingCpuMs) load.evidenceAt = now;
      cpuMs = used;
      cpuAt = now;
    }
    if (now - load.evidenceAt > context.program.loadStallMs) {
      throw new CoveyError(
        'engine_timeout',
        `loading made no progress for ${Math.round(context.program.loadStallMs / 1000)} s`,
      );
    }
    await Promise.race([server.exited, delay(25)]);
  }
}

async function singCanary(
  context: EngineContext<LlamaProgram>,
  { port, vocabularySize }: Load,
): Promise<void> {
  const { apiKey, canaryMs } = context.program;
  const health = await loopbackRequest({ port, path: '/health', apiKey, timeoutMs: requestMs });
  if (health.status !== 200)
    throw new CoveyError(
      'engine_start_failed',
      `the engine loaded but is not healthy: HTTP ${health.status}`,
    );
  const startedAt = performance.now();
  const answer = await loopbackRequest({
    port,
    path: '/completion',
    apiKey,
    body: canaryRequest,
    timeoutMs: canaryMs,
  }).catch((error: unknown) => {
    const late = performance.now() - startedAt >= canaryMs;
    throw new CoveyError(
      'canary_failed',
      late
        ? `the test prompt was not answered within ${Math.round(canaryMs / 1000)} s`
        : `the test prompt failed: ${error instanceof Error ? error.message : String(error)}`,
    );
  });
  const { tokenIds, firstMargin } = checkCanary(answer, vocabularySize);
  context.emit({ type: 'canary', tokenIds, firstMargin });
}

/** A program that ends is why a request to it failed, and says so better; so does a stop. */
async function untilExit(
  context: EngineContext<LlamaProgram>,
  server: NativeProcess,
  lines: () => readonly string[],
  work: Promise<void>,
): Promise<void> {
  try {
    await Promise.race([
      work,
      server.exited.then((exit) => Promise.reject(engineError(explainExit(lines(), exit, 'load')))),
    ]);
  } catch (error) {
    if (context.signal.aborted)
      throw new CoveyError('cancelled', 'the engine was stopped before it was ready', {}, error);
    // A reset connection is seen before the end of the process is.
    const exit = await Promise.race([server.exited, delay(500, null)]);
    if (exit) throw engineError(explainExit(lines(), exit, 'load'));
    throw error;
  }
}

/** The server answers between two batches, so a long batch leaves this without an answer: null, not zero. */
async function busySlots(port: number, apiKey: string): Promise<number | null> {
  const answer = await loopbackRequest({ port, path: '/slots', apiKey, timeoutMs: slotsMs }).catch(
    () => null,
  );
  if (answer?.status !== 200) return null;
  // Each slot describes all its sampling parameters; one word of it is wanted, once a second.
  return answer.text.match(/"is_processing":\s*true/g)?.length ?? 0;
}
