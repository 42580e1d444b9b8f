import { setTimeout as delay } from 'node:timers/promises';
import { CoveyError } from '#shared/errors.ts';
import type { EngineContext, RunningProgram } from '../host/engine-context.ts';
import { engineEnvironment } from '../host/environment.ts';
import { freeLoopbackPort } from '../host/free-port.ts';
import type { NativeProcess } from '../host/native-process.ts';
import { rpcServerArguments, type RpcProgram } from './arguments.ts';
import { createLogTail, engineError, explainExit, type LogTail } from './engine-error.ts';
import { rpcCompatible, rpcHello } from './rpc-handshake.ts';

const portAttempts = 5;
const helloMs = 1_000;
const retryMs = 20;

/**
 * Brings up a stage: starts ggml-rpc-server on a port that was free a moment ago, again with another when it was
 * taken meanwhile, until it answers the RPC greeting in our version. Errors: `engine_start_failed`,
 * `engine_build_mismatch`, `engine_timeout`.
 */
export async function startRpcServer(context: EngineContext<RpcProgram>): Promise<RunningProgram> {
  for (let attempt = 1; ; attempt += 1) {
    const tail = createLogTail();
    const port = await freeLoopbackPort();
    const server = await context.start(
      'ggml-rpc-server',
      rpcServerArguments(context.program, port),
      engineEnvironment({}),
    );
    let accepted = false;
    server.onLine((line) => {
      if (line === 'Accepted client connection') accepted = true;
      else if (line !== 'Client connection closed') tail.add(line);
      context.log('debug', line);
    });
    try {
      await greet(context, server, port, () => accepted, tail);
      context.emit({ type: 'listening', port, pid: server.pid });
      return { process: server, explain: (exit) => explainExit(tail.lines(), exit, 'run') };
    } catch (error) {
      const taken =
        server.exit !== null && tail.lines().some((line) => line.includes('Failed to create server socket'));
      await server.end(0);
      if (!taken || attempt === portAttempts || context.signal.aborted) throw error;
    }
  }
}

/**
 * Resolves when the greeting was answered and the program has logged a client, which proves that it was this
 * program that answered and not another that took the port first.
 */
async function greet(
  context: EngineContext<RpcProgram>,
  server: NativeProcess,
  port: number,
  accepted: () => boolean,
  tail: LogTail,
): Promise<void> {
  const deadline = performance.now() + context.program.startMs;
  for (;;) {
    if (context.signal.aborted) throw new CoveyError('cancelled', 'the engine was stopped while it started');
    if (server.exit) throw engineError(explainExit(tail.lines(), server.exit, 'load'));
    const version = await rpcHello(port, helloMs).catch(() => null);
    if (version !== null && accepted()) {
      if (rpcCompatible(context.init.rpcProtocol, version)) return;
      throw new CoveyError(
        'engine_build_mismatch',
        `ggml-rpc-server speaks RPC ${version}, this engine directory promises ${context.init.rpcProtocol}`,
      );
    }
    if (performance.now() > deadline) {
      throw new CoveyError(
        'engine_timeout',
        `ggml-rpc-server did not answer within ${Math.round(context.program.startMs / 1000)} s`,
      );
    }
    await delay(retryMs);
  }
}
