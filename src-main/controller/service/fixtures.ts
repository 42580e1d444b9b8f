import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import type { NodeId } from '#shared/lib/ids.ts';
import { CoveyError } from '#shared/errors.ts';
import { silentLogger } from '../../nodejs/transport/fixtures.ts';
import type { LoadContext } from '../deployments/prepare-load.ts';
import { createRuntime, type Runtime } from '../runtime/runtime.ts';
import { defaultPolicy } from '../scheduler/policy.ts';
import type { SessionRegistry } from '../sessions/session-registry.ts';
import { openDatabase } from '../state/sqlite/database.ts';
import { createStore, type ControllerStore } from '../state/sqlite/store.ts';

/** A runtime on a new database and machines that answer as a test says; new for every test. */
export interface Bench extends LoadContext {
  runtime: Runtime;
  store: ControllerStore;
  now: number;
  /** What was asked of machines. */
  asked: { nodeId: NodeId; method: string; params: unknown }[];
  /** Answers a request to a machine; what it throws is the machine's refusal. */
  answer: (nodeId: NodeId, method: string, params: unknown) => unknown;
}

export function useBench(): Bench {
  let directory: string;
  const bench = {
    policy: defaultPolicy,
    clock: { now: () => bench.now },
    sessions: {
      request: async (nodeId: NodeId, method: string, params: unknown) => {
        bench.asked.push({ nodeId, method, params });
        return bench.answer(nodeId, method, params);
      },
    } as unknown as SessionRegistry,
  } as Bench;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'covey-service-'));
    bench.now = 1_000;
    bench.asked = [];
    bench.answer = (_nodeId, method) => {
      throw new CoveyError('internal_error', `nothing was said about ${method}`);
    };
    bench.store = createStore(openDatabase(join(directory, 'covey.db')));
    bench.runtime = createRuntime({
      store: bench.store,
      clock: bench.clock,
      policy: defaultPolicy,
      logger: silentLogger,
      running: () => new Map(),
    });
  });
  afterEach(() => {
    bench.runtime.stop();
    bench.store.close();
    rmSync(directory, { recursive: true, force: true });
  });
  return bench;
}
