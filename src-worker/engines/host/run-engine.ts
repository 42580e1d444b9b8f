import { join } from 'node:path';
import type { EngineHostEvent, EngineHostInit } from '#shared/host/engine-host.ts';
import { CoveyError, type ErrorBody } from '#shared/errors.ts';
import { forgetEngine, recordEngine } from '../../journal/engine-record.ts';
import { startLlamaServer } from '../llama/llama-server.ts';
import { startRpcServer } from '../llama/rpc-server.ts';
import type { EngineContext, RunningProgram } from './engine-context.ts';
import { limitLog } from './log-limit.ts';
import { startNative, type NativeProcess } from './native-process.ts';
import { processUsage, type ProcessUsage } from './process-usage.ts';

const beatMs = 1_000;
const executableSuffix = process.platform === 'win32' ? '.exe' : '';

export interface RunningEngine {
  /** Asks it to end, by force after `graceMs`. Again with less grace is fine. */
  stop(graceMs: number): void;
  /** Forced end without waiting, for a host that is about to exit. */
  kill(): void;
  /** Resolves when the program has ended: null when it was told to, otherwise why. Never rejects. */
  readonly ended: Promise<ErrorBody | null>;
}

/** Runs one engine from its start to its end and tells what happens to it. It never starts it a second time. */
export function runEngine(init: EngineHostInit, emit: (event: EngineHostEvent) => void): RunningEngine {
  const stopping = new AbortController();
  let current: NativeProcess | null = null;
  let running: RunningProgram | null = null;
  let usage: ProcessUsage | null = null;

  const log = limitLog(
    (level, message) => emit({ type: 'log', level, message: message.slice(0, 4096) }),
    () => performance.now(),
  );
  const context = <Program>(program: Program): EngineContext<Program> => ({
    init,
    program,
    emit,
    log,
    async start(name, args, environment) {
      const executable = join(init.engineDirectory, `${name}${executableSuffix}`);
      const started = await startNative({
        launcher: join(init.engineDirectory, `covey-launch${executableSuffix}`),
        executable,
        args,
        environment,
        workingDirectory: init.engineDirectory,
      });
      current = started;
      if (stopping.signal.aborted) started.kill();
      await recordEngine(init.journalDirectory, init.engineId, { pid: started.pid, executable });
      return started;
    },
    cpuMs: () => usage?.cpuMs ?? null,
    signal: stopping.signal,
  });

  let beating = false;
  const beat = async (): Promise<void> => {
    const watched = current;
    if (!watched || watched.exit || beating) return;
    beating = true;
    try {
      usage = await processUsage(watched.pid);
      const busySlots = usage.suspended ? null : ((await running?.busySlots?.()) ?? null);
      if (!watched.exit) emit({ type: 'beat', pid: watched.pid, ...usage, busySlots });
    } finally {
      beating = false;
    }
  };
  const timer = setInterval(() => void beat(), beatMs);

  const run = async (): Promise<ErrorBody | null> => {
    try {
      running =
        init.program.kind === 'rpc'
          ? await startRpcServer(context(init.program))
          : await startLlamaServer(context(init.program));
      emit({ type: 'phase', phase: 'ready', error: null });
      const exit = await running.process.exited;
      return stopping.signal.aborted ? null : running.explain(exit);
    } catch (error) {
      return stopping.signal.aborted ? null : CoveyError.from(error).toBody();
    } finally {
      clearInterval(timer);
      await current?.end(0);
      forgetEngine(init.journalDirectory, init.engineId);
    }
  };

  return {
    stop(graceMs) {
      stopping.abort();
      void current?.end(graceMs);
    },
    kill() {
      stopping.abort();
      current?.kill();
    },
    ended: run(),
  };
}
