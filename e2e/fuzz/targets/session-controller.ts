import Database from 'better-sqlite3';
import { createRuntime } from '../../../src-main/controller/runtime/runtime.ts';
import { defaultPolicy } from '../../../src-main/controller/scheduler/policy.ts';
import { createSessionRegistry } from '../../../src-main/controller/sessions/session-registry.ts';
import { migrations } from '../../../src-main/controller/state/sqlite/database.ts';
import { createStore } from '../../../src-main/controller/state/sqlite/store.ts';
import { silentLogger } from '../../../src-main/nodejs/transport/fixtures.ts';
import { nodeIdSchema } from '../../../src-main/shared/lib/ids.ts';
import { controllerFrame } from '../../../src-main/shared/protocol/session.ts';
import { readCorpus } from '../corpus.ts';
import { mutateJsonText } from '../mutate.ts';
import type { Random } from '../random.ts';
import type { FuzzTarget } from '../target.ts';
import { createFuzzSession } from './fuzz-session.ts';

const memberId = nodeIdSchema.parse('a'.repeat(64));
const otherId = nodeIdSchema.parse('b'.repeat(64));

/**
 * A member that says anything within its session: the registry, the runtime and the store behind it. What comes
 * back must be frames of the protocol, and once something was refused the session is over.
 */
export function createTarget(): FuzzTarget {
  const frames = readCorpus('worker-frames.jsonl');
  const hellos = frames.filter((frame) => frame.includes('"hello"'));
  const connection = new Database(':memory:');
  for (const { sql } of migrations) connection.exec(sql);
  const store = createStore(connection);
  let now = 1_700_000_000_000;
  const clock = { now: () => (now += 7) };
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
    controllerName: 'desk',
    controllerVersion: '0.1.0',
    onLog: () => undefined,
    onDialRequest: () => undefined,
    onArtifacts: () => undefined,
    onGone: () => undefined,
    greet: () => [],
  });
  for (const [nodeId, name] of [
    [memberId, 'anna'],
    [otherId, 'ben'],
  ] as const) {
    runtime.dispatch({ type: 'node-joined', at: now, nodeId, name });
  }

  const heard = (text: string): boolean => controllerFrame.parse(JSON.parse(text)).type === 'refused';

  return {
    run(random: Random) {
      const session = createFuzzSession(memberId);
      registry.accept(session.peer);
      let refused = false;
      const say = (text: string): void => {
        session.deliver(text);
        for (const answer of session.sent.splice(0)) {
          if (refused) throw new Error('a frame after a refusal');
          refused = heard(answer);
        }
      };
      if (!random.oneIn(8)) say(random.pick(hellos));
      if (random.oneIn(16)) {
        registry
          .request(memberId, 'model.list', {}, { deadlineMs: 1_000 })
          .then(() => undefined)
          .catch(() => undefined);
      }
      for (let count = 1 + random.int(4); count > 0; count -= 1) {
        say(random.oneIn(5) ? random.pick(frames) : mutateJsonText(random, frames));
      }
      session.end();
      if (refused && !session.closed) throw new Error('refused and not closed');
      if (runtime.state.nodes.size !== 2) throw new Error('a session changed who is a member');
      if (runtime.state.nodes.get(memberId)?.live.session) throw new Error('a session outlived its end');
      if (random.oneIn(64)) runtime.beat();
    },
    close() {
      registry.closeAll();
      runtime.stop();
      store.close();
    },
  };
}
