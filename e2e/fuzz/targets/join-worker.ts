import { proofMac } from '../../../src-main/nodejs/pairing/cluster-secret.ts';
import type { JoinConversation } from '../../../src-main/nodejs/transport/transport.ts';
import { CoveyError } from '../../../src-main/shared/errors.ts';
import { nodeIdSchema } from '../../../src-main/shared/lib/ids.ts';
import { joinWorkerFrame, type JoinControllerFrame } from '../../../src-main/shared/protocol/join.ts';
import {
  joinByApproval,
  joinBySecret,
  joinByString,
  type Admitted,
} from '../../../src-worker/joining/conversations.ts';
import { readCorpus } from '../corpus.ts';
import { mutateJson, mutateJsonText } from '../mutate.ts';
import type { Random } from '../random.ts';
import type { FuzzTarget } from '../target.ts';
import { createFuzzSession } from './fuzz-session.ts';

const controllerId = nodeIdSchema.parse('c'.repeat(64));
const nodeId = nodeIdSchema.parse('a'.repeat(64));
const secret = `covey-secret.${'5'.repeat(32)}`;

/**
 * A controller that says anything to a machine that wants to join it. The machine takes itself for admitted only by
 * the key that it talks to, after its own person has confirmed, or by a proof of the secret that it holds.
 */
export function createTarget(): FuzzTarget {
  const corpus = readCorpus('join-controller-frames.jsonl');
  return {
    async run(random: Random) {
      const session = createFuzzSession(controllerId);
      const abort = new AbortController();
      const self = { nodeId, name: 'anna', signal: abort.signal };
      const binding = random.bytes(32).toString('hex');
      const conversation: JoinConversation = {
        ...session.peer,
        binding,
        dialledAddress: { host: '192.0.2.9', port: 7879 },
        hold: () => true,
      };
      const person = Promise.withResolvers<void>();
      let confirmed = false;
      const say = async (frame: JoinControllerFrame): Promise<void> => {
        const text = JSON.stringify(frame);
        if (random.oneIn(20)) session.deliver(mutateJsonText(random, corpus));
        if (!random.oneIn(20)) session.deliver(random.oneIn(6) ? mutateJson(random, text, corpus) : text);
        // As long as it takes to be read.
        for (let turn = 0; turn < 6; turn += 1) await Promise.resolve();
      };
      const admitted: Admitted = {
        type: 'admitted',
        controllerId: random.oneIn(6) ? nodeId : controllerId,
        controllerName: 'desk',
        addresses: [],
      };

      const way = random.pick(['string', 'approval', 'secret'] as const);
      let proven = false;
      const joining =
        way === 'string'
          ? joinByString(conversation, self, '1'.repeat(64))
          : way === 'approval'
            ? joinByApproval(conversation, self, {
                onController: () => undefined,
                onCode: (code) => {
                  if (!/^\d{6}$/.test(code)) throw new Error(`a number of "${code}"`);
                },
                onApproved: () => undefined,
                confirmed: person.promise,
              })
            : joinBySecret(conversation, self, secret, () => void (proven = true));
      const outcome = joining.then(
        (frame) => frame,
        (error: unknown) => {
          if (!(error instanceof CoveyError)) throw error;
          return null;
        },
      );
      await Promise.resolve();
      if (way === 'approval') {
        await say({ type: 'challenge', controllerName: 'desk', nonce: '2'.repeat(64) });
        await say({ type: 'waiting', expiresInMs: 300_000 });
        if (!random.oneIn(3)) {
          confirmed = true;
          person.resolve();
        }
        await say({ type: 'approved' });
      }
      const knows = !random.oneIn(4);
      if (way === 'secret') {
        const opening = joinWorkerFrame.parse(JSON.parse(session.sent[0] ?? ''));
        const nonce = '3'.repeat(64);
        const mac = proofMac(knows ? secret : `covey-secret.${'0'.repeat(32)}`, 'controller', {
          binding,
          workerId: nodeId,
          controllerId,
          workerNonce: opening.type === 'prove' ? opening.nonce : nonce,
          controllerNonce: nonce,
        });
        await say({ type: 'proof', controllerName: 'desk', nonce, mac });
      }
      await say(admitted);
      session.end();
      abort.abort(new CoveyError('cancelled', 'over'));
      const frame = await outcome;
      for (const text of session.sent) joinWorkerFrame.parse(JSON.parse(text));
      if (!frame) return;
      if (frame.controllerId !== controllerId) throw new Error('admitted by another key');
      if (way === 'approval' && !confirmed) throw new Error('admitted without a confirmation');
      if (way === 'secret' && !(knows && proven)) throw new Error('admitted without a proof');
    },
  };
}
