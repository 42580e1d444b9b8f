import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { NodeId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { JoinControllerFrame, JoinWorkerFrame } from '#shared/protocol/join.ts';
import { PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import { proofMac } from '../../nodejs/pairing/cluster-secret.ts';
import { commitmentOf } from '../../nodejs/pairing/commitment.ts';
import { pairingDigits } from '../../nodejs/pairing/digits.ts';
import {
  createJoinPair,
  testKey,
  type ConversationEnd,
  type JoinPairOptions,
} from '../../nodejs/pairing/fixtures.ts';
import { apply } from '../state/apply.ts';
import type { ControllerEvent } from '../state/events.ts';
import { openDatabase } from '../state/sqlite/database.ts';
import { createJoiningStore } from '../state/sqlite/joining-store.ts';
import { emptyState } from '../state/state.ts';
import { createJoining, type Joining } from './joining.ts';

export const quiet: Logger = {
  log: () => undefined,
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => quiet,
};

export interface Bench {
  readonly joining: Joining;
  readonly controllerId: NodeId;
  readonly events: readonly ControllerEvent[];
  /** Something that happened elsewhere in the controller. */
  record(event: ControllerEvent): void;
  /** Names of members. */
  members(): string[];
  /** Kinds and sentences for the event list. */
  notes(kind?: string): string[];
  now: number;
  /** The next commit throws. */
  failCommits: boolean;
  readonly dataDirectory: string;
  /** A worker of that name begins a conversation, which the controller serves. */
  dial(name: string, changes?: Partial<JoinPairOptions>): ScriptedWorker;
  close(): void;
}

/** Joining on a real database and a state that only it changes. */
export async function createBench(): Promise<Bench> {
  const dataDirectory = mkdtempSync(join(tmpdir(), 'covey-joining-'));
  const connection = openDatabase(join(dataDirectory, 'covey.db'));
  const controllerId = testKey('controller');
  const events: ControllerEvent[] = [];
  let state = emptyState(0);
  const take = (...added: ControllerEvent[]): void => {
    events.push(...added);
    state = added.reduce(apply, state);
  };
  const joining = await createJoining({
    store: createJoiningStore(connection),
    runtime: {
      get state() {
        return state;
      },
      dispatch: take,
      commit(...added) {
        if (bench.failCommits) throw new Error('the disk is full');
        take(...added);
      },
    },
    clock: { now: () => bench.now },
    logger: quiet,
    controllerId,
    controllerName: 'home',
    addresses: () => [{ host: '198.51.100.1', port: 7879 }],
    dataDirectory,
  });
  const bench: Bench = {
    joining,
    controllerId,
    events,
    record: (event) => take(event),
    members: () => [...state.nodes.values()].map((node) => node.durable.name),
    notes: (kind) =>
      events.flatMap((event) =>
        event.type === 'noted' && (kind === undefined || event.kind === kind) ? [event.message] : [],
      ),
    now: 1_000_000,
    failCommits: false,
    dataDirectory,
    dial(name, changes = {}) {
      const workerId = changes.workerId ?? testKey(name);
      const { atController, atWorker } = createJoinPair({
        workerId,
        controllerId,
        binding: randomBytes(32).toString('hex'),
        ...changes,
      });
      joining.accept(atController);
      return scriptedWorker(name, workerId, atWorker, atController);
    },
    close() {
      joining.close();
      connection.close();
      rmSync(dataDirectory, { recursive: true, force: true });
    },
  };
  return bench;
}

/** A worker that says what it is told to. */
export interface ScriptedWorker {
  readonly end: ConversationEnd;
  readonly atController: ConversationEnd;
  readonly nodeId: NodeId;
  /** Everything that the controller has said. */
  readonly heard: readonly JoinControllerFrame[];
  /** Sends and lets it arrive. Text goes as it is. */
  say(frame: JoinWorkerFrame | string): Promise<void>;
  last(): JoinControllerFrame | undefined;
  /** Code of the refusal, if there was one. */
  refusal(): string | null;
  /** Asks for approval until the request is listed; the digits that the worker shows. */
  ask(): Promise<string>;
  /** Proves that it holds the secret, whatever the controller's proof says. */
  prove(secret: string): Promise<void>;
  useJoinString(secret: string): Promise<void>;
}

export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

function scriptedWorker(
  name: string,
  nodeId: NodeId,
  end: ConversationEnd,
  atController: ConversationEnd,
): ScriptedWorker {
  const heard: JoinControllerFrame[] = [];
  end.onMessage((text) => heard.push(JSON.parse(text) as JoinControllerFrame));
  const nonce = randomBytes(32).toString('hex');
  const protocol = PROTOCOL_VERSION;
  const worker: ScriptedWorker = {
    end,
    atController,
    nodeId,
    heard,
    async say(frame) {
      end.send(typeof frame === 'string' ? frame : JSON.stringify(frame));
      await settle();
    },
    last: () => heard.at(-1),
    refusal() {
      const last = heard.at(-1);
      return last?.type === 'refused' ? last.error.code : null;
    },
    async ask() {
      await worker.say({ type: 'ask', protocol, name, commitment: commitmentOf(nonce, nodeId) });
      const challenge = heard.find((frame) => frame.type === 'challenge');
      if (!challenge) return 'refused';
      await worker.say({ type: 'reveal', nonce });
      return pairingDigits({
        binding: end.binding,
        workerId: nodeId,
        controllerId: end.peerId,
        workerNonce: nonce,
        controllerNonce: challenge.nonce,
      });
    },
    async prove(secret) {
      await worker.say({ type: 'prove', protocol, name, nonce });
      const proof = heard.find((frame) => frame.type === 'proof');
      if (!proof) return;
      const transcript = {
        binding: end.binding,
        workerId: nodeId,
        controllerId: end.peerId,
        workerNonce: nonce,
        controllerNonce: proof.nonce,
      };
      await worker.say({ type: 'proof', mac: proofMac(secret, 'worker', transcript) });
    },
    useJoinString: (secret) => worker.say({ type: 'join-string', protocol, name, secret }),
  };
  return worker;
}
