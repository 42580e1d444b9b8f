import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import Database from 'better-sqlite3';
import { createJoining } from '../../../src-main/controller/joining/joining.ts';
import { createRuntime } from '../../../src-main/controller/runtime/runtime.ts';
import { defaultPolicy } from '../../../src-main/controller/scheduler/policy.ts';
import { migrations } from '../../../src-main/controller/state/sqlite/database.ts';
import { createJoiningStore } from '../../../src-main/controller/state/sqlite/joining-store.ts';
import { createStore } from '../../../src-main/controller/state/sqlite/store.ts';
import { decodeJoinString } from '../../../src-main/nodejs/join-string.ts';
import { proofMac } from '../../../src-main/nodejs/pairing/cluster-secret.ts';
import { commitmentOf } from '../../../src-main/nodejs/pairing/commitment.ts';
import { pairingDigits } from '../../../src-main/nodejs/pairing/digits.ts';
import { silentLogger } from '../../../src-main/nodejs/transport/fixtures.ts';
import { CoveyError } from '../../../src-main/shared/errors.ts';
import { nodeIdSchema } from '../../../src-main/shared/lib/ids.ts';
import {
  joinControllerFrame,
  joinWorkerFrame,
  type JoinControllerFrame,
  type JoinWorkerFrame,
} from '../../../src-main/shared/protocol/join.ts';
import { PROTOCOL_VERSION } from '../../../src-main/shared/protocol/version.ts';
import { readCorpus } from '../corpus.ts';
import { mutateJson, mutateJsonText } from '../mutate.ts';
import type { Random } from '../random.ts';
import type { FuzzTarget } from '../target.ts';
import { createFuzzSession } from './fuzz-session.ts';

const controllerId = nodeIdSchema.parse('c'.repeat(64));
const peers = Array.from({ length: 8 }, (_, index) => nodeIdSchema.parse(String(index).repeat(64)));
const protocol = PROTOCOL_VERSION;

/**
 * Machines that ask to join: by all three ways, with steps that are left out, changed, repeated or out of order.
 * Who did everything right gets in, and nobody else.
 */
export async function createTarget(): Promise<FuzzTarget> {
  const corpus = readCorpus('join-worker-frames.jsonl');
  const dataDirectory = mkdtempSync(path.join(os.tmpdir(), 'covey-fuzz-join-'));
  const connection = new Database(':memory:');
  for (const { sql } of migrations) connection.exec(sql);
  const store = createStore(connection);
  let now = 1_700_000_000_000;
  const clock = { now: () => now };
  const runtime = createRuntime({
    store,
    clock,
    policy: defaultPolicy,
    logger: silentLogger,
    running: () => new Map(),
  });
  const joining = await createJoining({
    store: createJoiningStore(connection),
    runtime,
    clock,
    logger: silentLogger,
    controllerId,
    controllerName: 'desk',
    addresses: () => [{ host: '192.0.2.9', port: 7879 }],
    dataDirectory,
  });
  const secret = await joining.newClusterSecret();

  const run = (random: Random): void => {
    // Two a minute and address, so that the limits do not turn everybody away.
    now += 30_000;
    const peerId = random.pick(peers);
    const binding = random.bytes(32).toString('hex');
    const session = createFuzzSession(peerId, `10.${random.int(256)}.${random.int(256)}.1`);
    joining.accept({ ...session.peer, binding, dialledAddress: null, hold: () => true });
    /** Whether every frame so far went out as it should. */
    let honest = true;
    let confirmed = false;
    let needsConfirmation = false;
    let admitted = false;
    let last: JoinControllerFrame | null = null;
    const hear = (): void => {
      for (const text of session.sent.splice(0)) {
        last = joinControllerFrame.parse(JSON.parse(text));
        if (last.type === 'admitted') admitted = true;
      }
    };
    /** A confirmation in addition or in other words is the machine's own; anything else must be as it should. */
    const deliver = (text: string, should: JoinWorkerFrame | null): void => {
      const frame = read(text);
      if (frame?.type === 'confirm') confirmed = true;
      else if (should?.type !== 'confirm' && !isDeepStrictEqual(essence(frame), essence(should)))
        honest = false;
      session.deliver(text);
    };
    const say = (frame: JoinWorkerFrame): JoinControllerFrame | null => {
      const text = JSON.stringify(frame);
      const said = random.oneIn(5) ? mutateJson(random, text, corpus) : text;
      if (random.oneIn(30)) deliver(mutateJsonText(random, corpus), null);
      deliver(random.oneIn(30) ? '' : said, frame);
      hear();
      return last;
    };

    const nonce = random.bytes(32).toString('hex');
    switch (random.int(4)) {
      case 0: {
        const content = decodeJoinString(joining.invite().joinString);
        if (!content.ok) throw content.error;
        say({ type: 'join-string', protocol, name: 'anna', secret: content.value.secret });
        break;
      }
      case 1: {
        needsConfirmation = true;
        const answer = say({ type: 'ask', protocol, name: 'anna', commitment: commitmentOf(nonce, peerId) });
        const controllerNonce = answer?.type === 'challenge' ? answer.nonce : nonce;
        say({ type: 'reveal', nonce });
        const whole = { binding, workerId: peerId, controllerId, workerNonce: nonce, controllerNonce };
        const digits = pairingDigits(whole);
        const typed = random.oneIn(4) ? String(random.int(1_000_000)).padStart(6, '0') : digits;
        if (typed !== digits) honest = false;
        const approve = (): void => {
          try {
            joining.approve(typed);
          } catch (error) {
            if (!(error instanceof CoveyError)) throw error;
          }
          hear();
        };
        if (random.oneIn(2)) approve();
        say({ type: 'confirm' });
        approve();
        break;
      }
      case 2: {
        const answer = say({ type: 'prove', protocol, name: 'anna', nonce });
        const controllerNonce = answer?.type === 'proof' ? answer.nonce : nonce;
        const whole = { binding, workerId: peerId, controllerId, workerNonce: nonce, controllerNonce };
        const role = random.oneIn(5) ? 'controller' : 'worker';
        const ours = random.oneIn(5) ? `covey-secret.${'0'.repeat(32)}` : secret;
        if (role !== 'worker' || ours !== secret) honest = false;
        say({ type: 'proof', mac: proofMac(ours, role, whole) });
        break;
      }
      default:
        honest = false;
        for (let count = 1 + random.int(5); count > 0; count -= 1) {
          deliver(mutateJsonText(random, corpus), null);
        }
        hear();
    }
    session.end();
    const isMember = runtime.state.nodes.has(peerId);
    if (admitted !== isMember) throw new Error(`told ${String(admitted)}, recorded ${String(isMember)}`);
    if (isMember && !(honest && (confirmed || !needsConfirmation)))
      throw new Error('let in without having done what it takes');
    if (isMember) runtime.dispatch({ type: 'node-removed', at: now, nodeId: peerId });
    if (joining.pending().pending.length > 0) throw new Error('a request outlived its connection');
  };

  return {
    run,
    close() {
      joining.close();
      runtime.stop();
      store.close();
      rmSync(dataDirectory, { recursive: true, force: true });
    },
  };
}

function read(text: string): JoinWorkerFrame | null {
  try {
    return joinWorkerFrame.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

/** A frame without what changes nothing about who may join. */
function essence(frame: JoinWorkerFrame | null): unknown {
  return frame && 'name' in frame ? { ...frame, name: '' } : frame;
}
