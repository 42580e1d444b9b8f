import type { EngineHostEvent, EngineHostInit } from '#shared/host/engine-host.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { NativeExit, NativeProcess } from './native-process.ts';

/** What a kind of engine gets from the host to bring its program up. */
export interface EngineContext<Program> {
  readonly init: EngineHostInit;
  readonly program: Program;
  emit(event: EngineHostEvent): void;
  log(level: 'debug' | 'info' | 'warn' | 'error', message: string): void;
  /**
   * Starts a program of the engine directory. It is journalled, beats, and ends with the host; an earlier one
   * must have ended before. Rejects with `engine_start_failed`.
   */
  start(
    name: 'llama-server' | 'ggml-rpc-server',
    args: readonly string[],
    environment: Readonly<Record<string, string>>,
  ): Promise<NativeProcess>;
  /** CPU time of the program that runs, null when unknown. */
  cpuMs(): number | null;
  /** Aborted when the engine is told to stop: every wait gives up. */
  readonly signal: AbortSignal;
}

/** A program that serves. */
export interface RunningProgram {
  readonly process: NativeProcess;
  /** Slots that compute now; null when it does not tell in time. Absent for programs without slots. */
  readonly busySlots?: () => Promise<number | null>;
  explain(exit: NativeExit): ErrorBody;
}
