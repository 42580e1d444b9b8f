import { nodeIdSchema } from '../../../src-main/shared/lib/ids.ts';
import { helloFrame, workerFrame } from '../../../src-main/shared/protocol/session.ts';
import { workerRequests } from '../../../src-main/shared/protocol/requests.ts';
import { silentLogger } from '../../../src-main/nodejs/transport/fixtures.ts';
import { alwaysLent } from '../../../src-worker/runtime/fixtures.ts';
import { createRequestServer, type RequestHandlers } from '../../../src-worker/runtime/requests.ts';
import { createSessionClient } from '../../../src-worker/runtime/session-client.ts';
import { readCorpus } from '../corpus.ts';
import { mutateJsonText } from '../mutate.ts';
import type { Random } from '../random.ts';
import type { FuzzTarget } from '../target.ts';
import { createFuzzSession } from './fuzz-session.ts';

const controllerId = nodeIdSchema.parse('c'.repeat(64));

/** A controller that says anything to its worker: the session client, and the requests behind it. */
export function createTarget(): FuzzTarget {
  const frames = readCorpus('controller-frames.jsonl');
  const welcome = frames.find((frame) => frame.includes('"welcome"')) ?? '';
  const hello = helloFrame.parse(JSON.parse(readCorpus('worker-frames.jsonl')[0] ?? ''));
  const handlers = Object.fromEntries(
    Object.keys(workerRequests).map((method) => [method, async () => ({})]),
  ) as unknown as RequestHandlers;

  return {
    async run(random: Random) {
      const session = createFuzzSession(controllerId);
      const dialled = Promise.withResolvers<void>();
      let welcomes = 0;
      let losses = 0;
      const client = createSessionClient({
        dial: async () => {
          dialled.resolve();
          return session.peer;
        },
        hello: async () => hello,
        heartbeat: () => ({ telemetry: hello.telemetry, problems: [], lend: alwaysLent().state() }),
        onWelcome: () => void (welcomes += 1),
        onAck: () => undefined,
        onFrame: (frame) => {
          if (frame.type === 'request') requests.handle(frame);
          if (frame.type === 'cancel') requests.cancel(frame.id);
        },
        onRefused: () => undefined,
        onLost: () => void (losses += 1),
        logger: silentLogger,
        random: () => 0,
      });
      const requests = createRequestServer(handlers, (frame) => void client.send(frame));
      await dialled.promise;
      // The session is handed over one turn of promises later.
      await Promise.resolve();
      if (!random.oneIn(8)) session.deliver(welcome);
      for (let count = 1 + random.int(4); count > 0; count -= 1) {
        session.deliver(random.oneIn(5) ? random.pick(frames) : mutateJsonText(random, frames));
      }
      await Promise.resolve();
      requests.abortAll();
      const closing = client.close('over');
      session.end();
      await closing;
      for (const text of session.sent) workerFrame.parse(JSON.parse(text));
      if (welcomes > 1) throw new Error('welcomed twice in one session');
      if (losses !== welcomes) throw new Error(`${welcomes} welcomes and ${losses} losses`);
    },
  };
}
