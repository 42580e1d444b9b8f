import { randomBytes } from 'node:crypto';
import { CoveyError } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { JoinControllerFrame, JoinWorkerFrame } from '#shared/protocol/join.ts';
import { LIMITS, PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import { proofMac } from '../../src-main/nodejs/pairing/cluster-secret.ts';
import { commitmentOf } from '../../src-main/nodejs/pairing/commitment.ts';
import { pairingDigits } from '../../src-main/nodejs/pairing/digits.ts';
import { equalSecrets } from '../../src-main/nodejs/pairing/equal.ts';
import type { JoinConversation } from '../../src-main/nodejs/transport/transport.ts';
import { createFrameReader, type FrameReader } from './frame-reader.ts';

export type Admitted = Extract<JoinControllerFrame, { type: 'admitted' }>;

/** This machine, and what ends the attempt. */
export interface JoinSelf {
  readonly nodeId: NodeId;
  readonly name: string;
  readonly signal: AbortSignal;
}

/** What the people here see and do while their number is compared. */
export interface ApprovalDesk {
  onController(name: string): void;
  /** The number is to be shown for so long. */
  onCode(code: string, expiresInMs: number): void;
  /** It was typed at the controller. */
  onApproved(): void;
  /** Resolves when a person here has confirmed; never when nobody does. */
  readonly confirmed: Promise<void>;
}

/** For an answer that needs no person. Longer than the controller's own limit, whose refusal says more. */
const answerMs = LIMITS.joinMs + 5_000;
/** A controller may not keep this machine waiting longer, whatever it says. */
const maxWaitMs = 15 * 60_000;
const slackMs = 15_000;

/** The conversation's key was checked against the join string's when it was dialled. */
export async function joinByString(
  conversation: JoinConversation,
  self: JoinSelf,
  secret: string,
): Promise<Admitted> {
  const reader = createFrameReader(conversation, self.signal);
  send(conversation, { type: 'join-string', protocol: PROTOCOL_VERSION, name: self.name, secret });
  return admitted(reader, conversation, answerMs);
}

/**
 * Neither side knows the other: people compare. Resolves only after the number was typed at the controller and a
 * person here has confirmed, in either order.
 */
export async function joinByApproval(
  conversation: JoinConversation,
  self: JoinSelf,
  desk: ApprovalDesk,
): Promise<Admitted> {
  const reader = createFrameReader(conversation, self.signal);
  const workerNonce = newNonce();
  send(conversation, {
    type: 'ask',
    protocol: PROTOCOL_VERSION,
    name: self.name,
    commitment: commitmentOf(workerNonce, self.nodeId),
  });
  const challenge = await reader.next(['challenge'], answerMs);
  desk.onController(challenge.controllerName);
  send(conversation, { type: 'reveal', nonce: workerNonce });
  const { expiresInMs } = await reader.next(['waiting'], answerMs);
  const waitMs = Math.min(expiresInMs, maxWaitMs);
  desk.onCode(
    pairingDigits({
      binding: conversation.binding,
      workerId: self.nodeId,
      controllerId: conversation.peerId,
      workerNonce,
      controllerNonce: challenge.nonce,
    }),
    waitMs,
  );
  let confirmed = false;
  void desk.confirmed.then(() => {
    confirmed = true;
    send(conversation, { type: 'confirm' });
  });
  await reader.next(['approved'], waitMs + slackMs);
  desk.onApproved();
  const frame = await admitted(reader, conversation, waitMs + slackMs);
  // Whatever the other side says: nothing counts before the person here has agreed.
  if (confirmed) return frame;
  throw new CoveyError(
    'invalid_request',
    'The controller did not wait for the confirmation at this machine. This machine has not joined.',
  );
}

/** Both prove that they hold the secret, the controller first. Rejects with `cluster_secret_wrong` when it does not. */
export async function joinBySecret(
  conversation: JoinConversation,
  self: JoinSelf,
  secret: string,
  onController: (name: string) => void,
): Promise<Admitted> {
  const reader = createFrameReader(conversation, self.signal);
  const workerNonce = newNonce();
  send(conversation, { type: 'prove', protocol: PROTOCOL_VERSION, name: self.name, nonce: workerNonce });
  const proof = await reader.next(['proof'], answerMs);
  const transcript = {
    binding: conversation.binding,
    workerId: self.nodeId,
    controllerId: conversation.peerId,
    workerNonce,
    controllerNonce: proof.nonce,
  };
  if (!equalSecrets(proof.mac, proofMac(secret, 'controller', transcript))) {
    throw new CoveyError(
      'cluster_secret_wrong',
      'The controller does not hold the cluster secret that this machine has: it may have been changed. "covey secret show" there prints the one that counts.',
    );
  }
  onController(proof.controllerName);
  send(conversation, { type: 'proof', mac: proofMac(secret, 'worker', transcript) });
  return admitted(reader, conversation, answerMs);
}

async function admitted(
  reader: FrameReader,
  conversation: JoinConversation,
  timeoutMs: number,
): Promise<Admitted> {
  const frame = await reader.next(['admitted'], timeoutMs);
  if (frame.controllerId === conversation.peerId) return frame;
  throw new CoveyError(
    'controller_key_mismatch',
    'The controller names another key than the one that it has shown. This machine has not joined.',
  );
}

function send(conversation: JoinConversation, frame: JoinWorkerFrame): void {
  conversation.send(JSON.stringify(frame));
}

function newNonce(): string {
  return randomBytes(32).toString('hex');
}
