import { boundedErrorBody } from '#shared/errors.ts';
import type { EngineHostCommand, EngineHostEvent } from '#shared/host/engine-host.ts';
import { parentPort } from '../../../src-main/nodejs/process-host/parent-port.ts';
import { runEngine, type RunningEngine } from './run-engine.ts';

/**
 * Entry of an engine host: one child process per engine. It starts the native program that `init` names, tells
 * the parent what happens to it, and ends with it. However it goes (told to stop, parent gone, an error of its
 * own), the program's whole group goes too; if this process is killed, the launcher sees to that.
 *
 * The schemas of its messages are imported as types only: this process is small, and its one peer is our own main process.
 */
const port = parentPort();
const emit = (event: EngineHostEvent): void => port.send(event);
let engine: RunningEngine | null = null;

/** For an end that the parent has not asked for. */
const graceMs = 5_000;
/** Messages on their way to the parent get this long to leave. */
const flushMs = 50;

port.onMessage((message) => {
  const command = message as EngineHostCommand;
  if (command.type === 'stop') {
    engine?.stop(command.graceMs);
    if (!engine) process.exit(0);
    return;
  }
  if (engine) return;
  engine = runEngine(command, emit);
  void engine.ended.then((error) => {
    emit({ type: 'phase', phase: error ? 'failed' : 'stopped', error: error && boundedErrorBody(error) });
    setTimeout(() => process.exit(0), flushMs);
  });
});

port.onDisconnect(() => {
  engine?.kill();
  process.exit(0);
});

// A terminal's Ctrl-C reaches every process of the group: the parent decides how engines end.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => engine?.stop(graceMs));

process.on('uncaughtException', (error) => {
  engine?.kill();
  emit({
    type: 'phase',
    phase: 'failed',
    error: boundedErrorBody({ code: 'internal_error', message: `the engine host failed: ${error.message}` }),
  });
  setTimeout(() => process.exit(1), flushMs);
});

emit({ type: 'hello' });
