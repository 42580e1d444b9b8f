import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { HelloFrame } from '#shared/protocol/session.ts';
import { PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import { silentLogger } from '../../nodejs/transport/fixtures.ts';
import { createRuntime, type Runtime } from '../runtime/runtime.ts';
import { defaultPolicy } from '../scheduler/policy.ts';
import { bootId, facts, nodeId, telemetry } from '../state/fixtures.ts';
import { openDatabase } from '../state/sqlite/database.ts';
import { createStore } from '../state/sqlite/store.ts';
import {
  createSessionRegistry,
  type SessionRegistry,
  type SessionRegistryOptions,
} from './session-registry.ts';

/** For tests: a controller's sessions with what is behind them, on a database of their own. */
export interface SessionBench {
  readonly runtime: Runtime;
  readonly registry: SessionRegistry;
  close(): void;
}

/** @param options replaces parts of the registry's; the node `a`, alpha, is a member */
export function openSessionBench(options: Partial<SessionRegistryOptions> = {}): SessionBench {
  const directory = mkdtempSync(join(tmpdir(), 'covey-sessions-'));
  const clock = { now: () => Date.now() };
  const store = createStore(openDatabase(join(directory, 'covey.db')));
  const runtime = createRuntime({
    store,
    clock,
    policy: defaultPolicy,
    logger: silentLogger,
    running: () => new Map(),
  });
  const registry = createSessionRegistry({
    runtime,
    clock,
    logger: silentLogger,
    controllerName: 'c',
    controllerVersion: '0.1.0',
    onLog: () => undefined,
    onDialRequest: () => undefined,
    onArtifacts: () => undefined,
    onGone: () => undefined,
    greet: () => [],
    ...options,
  });
  runtime.dispatch({ type: 'node-joined', at: clock.now(), nodeId: nodeId('a'), name: 'alpha' });
  return {
    runtime,
    registry,
    close() {
      registry.closeAll();
      store.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** For tests: what the worker of node `a` says first. */
export const exampleHello: HelloFrame = {
  type: 'hello',
  protocol: PROTOCOL_VERSION,
  bootId: bootId('a'),
  name: 'alpha',
  version: '0.1.0',
  at: 0,
  machine: null,
  engine: { buildId: 'v0.4.0-test', rpcProtocol: '6.0.0' },
  hardware: facts.hardware,
  addresses: [...facts.addresses],
  telemetry,
  engines: [],
};
