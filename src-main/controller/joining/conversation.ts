import { CoveyError } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { joinWorkerFrame, type JoinControllerFrame, type JoinWorkerFrame } from '#shared/protocol/join.ts';
import { LIMITS, PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import { proofMac } from '../../nodejs/pairing/cluster-secret.ts';
import { commitmentOf } from '../../nodejs/pairing/commitment.ts';
import { pairingDigits } from '../../nodejs/pairing/digits.ts';
import { equalSecrets } from '../../nodejs/pairing/equal.ts';
import type { PairingTranscript } from '../../nodejs/pairing/transcript.ts';
import type { JoinConversation } from '../../nodejs/transport/transport.ts';
import { cleanName } from './names.ts';
import type { PendingRequest } from './pending.ts';

/** Ways to join, for the event list. */
export type JoinWay = 'join-string' | 'approval' | 'cluster-secret';

/** What a conversation needs of the controller. Each may throw a CoveyError, which is then the refusal. */
export interface JoinDesk {
  readonly controllerId: NodeId;
  readonly controllerName: string;
  /** 32 random bytes as 64 hex digits. */
  nonce(): string;
  /** The machine has said what it wants: may it try at all? */
  enter(peerId: NodeId, remoteAddress: string): void;
  /** As `enter`, for a machine that wants a challenge; the result gives the challenge back. */
  challenge(): () => void;
  clusterSecret(): string | null;
  /** Spends the secret of a join string on this machine and lets it in by `admit`. */
  redeem(secret: string, peerId: NodeId, admit: () => void): void;
  /** Lists the request until it is settled. */
  wait(request: PendingRequest): { readonly expiresInMs: number };
  confirm(request: PendingRequest): void;
  /** Records the member and tells where the controller is. */
  admit(peerId: NodeId, name: string, way: JoinWay): Extract<JoinControllerFrame, { type: 'admitted' }>;
  /** The conversation is over. `error`: why it was refused here; null: admitted, or the other side went away. */
  ended(outcome: JoinOutcome): void;
}

export interface JoinOutcome {
  readonly peerId: NodeId;
  /** As the machine calls itself; null before it has said so. */
  readonly name: string | null;
  readonly remoteAddress: string;
  readonly admitted: boolean;
  readonly error: CoveyError | null;
  /** Where it stood when it ended; of use when the other side went away. */
  readonly step: Step['name'];
  /** The request that it was about, when it was listed. */
  readonly request: PendingRequest | null;
}

type Step =
  | { readonly name: 'opening' }
  | { readonly name: 'challenged'; readonly commitment: string; readonly controllerNonce: string }
  | { readonly name: 'waiting'; readonly request: PendingRequest }
  | { readonly name: 'proving'; readonly expectedMac: string };

/** Past these the connection must live while people decide. */
const heldLongerMs = 10_000;

/**
 * The controller's end of one join, frame by frame:
 * 1. the first frame says which way; version, limits, and blocks are checked before anything is told;
 * 2. join string: its secret is spent, the machine is in;
 * 3. approval: commitment, our nonce, the opened commitment, then the request waits for both people;
 * 4. cluster secret: our proof first, then the machine's.
 * Anything else, in any order, ends the conversation with a refusal.
 */
export function serveJoin(conversation: JoinConversation, desk: JoinDesk): void {
  const { peerId, remoteAddress, binding } = conversation;
  let step: Step = { name: 'opening' };
  let name: string | null = null;
  let over = false;
  let giveChallengeBack = (): void => undefined;

  const send = (frame: JoinControllerFrame): void => conversation.send(JSON.stringify(frame));
  const finish = (admitted: boolean, error: CoveyError | null): void => {
    if (over) return;
    over = true;
    if (admitted) giveChallengeBack();
    const request = step.name === 'waiting' ? step.request : null;
    desk.ended({ peerId, name, remoteAddress, admitted, error, step: step.name, request });
  };
  const refuse = (error: CoveyError): void => {
    if (over) return;
    send({ type: 'refused', error: error.toBody() });
    finish(false, error);
    conversation.close();
  };
  const admit = (way: JoinWay): void => {
    const frame = desk.admit(peerId, name ?? '', way);
    send(frame);
    finish(true, null);
    conversation.close();
  };
  const transcript = (workerNonce: string, controllerNonce: string): PairingTranscript => ({
    binding,
    workerId: peerId,
    controllerId: desk.controllerId,
    workerNonce,
    controllerNonce,
  });

  const begin = (frame: { readonly protocol: number; readonly name: string }): void => {
    name = cleanName(frame.name, peerId);
    checkVersion(frame.protocol);
    if (peerId === desk.controllerId) {
      throw new CoveyError('invalid_request', 'A controller cannot join itself.');
    }
    desk.enter(peerId, remoteAddress);
  };
  const reveal = (
    workerNonce: string,
    { commitment, controllerNonce }: Extract<Step, { name: 'challenged' }>,
  ): void => {
    if (!equalSecrets(commitmentOf(workerNonce, peerId), commitment)) {
      throw new CoveyError(
        'join_code_mismatch',
        'The machine did not keep to the number that it had begun with.',
      );
    }
    const request: PendingRequest = {
      nodeId: peerId,
      name: name ?? '',
      remoteAddress,
      digits: pairingDigits(transcript(workerNonce, controllerNonce)),
      approved: () => send({ type: 'approved' }),
      admit: () => admit('approval'),
      end: refuse,
    };
    const { expiresInMs } = desk.wait(request);
    step = { name: 'waiting', request };
    if (!conversation.hold(expiresInMs + heldLongerMs)) {
      throw new CoveyError('join_busy', 'Too many machines are waiting to be approved. Try again.');
    }
    send({ type: 'waiting', expiresInMs });
  };
  const prove = (workerNonce: string): void => {
    const secret = desk.clusterSecret();
    if (secret === null) {
      throw new CoveyError(
        'cluster_secret_missing',
        'This controller has no cluster secret. Make one with "covey secret new" there, or join another way.',
      );
    }
    const controllerNonce = desk.nonce();
    const whole = transcript(workerNonce, controllerNonce);
    step = { name: 'proving', expectedMac: proofMac(secret, 'worker', whole) };
    send({
      type: 'proof',
      controllerName: desk.controllerName,
      nonce: controllerNonce,
      mac: proofMac(secret, 'controller', whole),
    });
  };

  const receive = (frame: JoinWorkerFrame): void => {
    switch (step.name) {
      case 'opening':
        if (frame.type === 'join-string') {
          begin(frame);
          return desk.redeem(frame.secret, peerId, () => admit('join-string'));
        }
        if (frame.type === 'ask') {
          begin(frame);
          giveChallengeBack = desk.challenge();
          const controllerNonce = desk.nonce();
          step = { name: 'challenged', commitment: frame.commitment, controllerNonce };
          return send({ type: 'challenge', controllerName: desk.controllerName, nonce: controllerNonce });
        }
        if (frame.type === 'prove') {
          begin(frame);
          return prove(frame.nonce);
        }
        break;
      case 'challenged':
        if (frame.type === 'reveal') return reveal(frame.nonce, step);
        break;
      case 'waiting':
        if (frame.type === 'confirm') return desk.confirm(step.request);
        break;
      case 'proving':
        if (frame.type === 'proof') {
          if (!equalSecrets(frame.mac, step.expectedMac)) {
            throw new CoveyError(
              'cluster_secret_wrong',
              'The machine does not hold the cluster secret of this covey, or only an old one.',
            );
          }
          return admit('cluster-secret');
        }
        break;
    }
    throw new CoveyError('invalid_request', `The machine sent "${frame.type}" where it has no place.`);
  };

  conversation.onMessage((text) => {
    if (over) return;
    try {
      receive(parseFrame(text));
    } catch (thrown) {
      refuse(CoveyError.from(thrown));
    }
  });
  conversation.onClose(() => finish(false, null));
}

/** Throws `invalid_request` for what is no frame, `protocol_version_mismatch` for one of another version. */
function parseFrame(text: string): JoinWorkerFrame {
  if (text.length > LIMITS.joinBytes) {
    throw new CoveyError('invalid_request', `A join frame may have at most ${LIMITS.joinBytes} bytes.`);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new CoveyError('invalid_request', 'A join frame must be JSON.');
  }
  const parsed = joinWorkerFrame.safeParse(value);
  if (parsed.success) return parsed.data;
  // Another version may have other frames, but each begins with its number.
  const protocol = (value as { protocol?: unknown } | null)?.protocol;
  if (typeof protocol === 'number') checkVersion(protocol);
  const [issue] = parsed.error.issues;
  const field = issue?.path.map(String).join('.').slice(0, 64) ?? '';
  throw new CoveyError(
    'invalid_request',
    `A join frame is not as it must be: ${field === '' ? '' : `${field}: `}${issue?.message.slice(0, 256) ?? 'invalid'}.`,
  );
}

function checkVersion(protocol: number): void {
  if (protocol === PROTOCOL_VERSION) return;
  throw new CoveyError(
    'protocol_version_mismatch',
    `The controller speaks protocol ${PROTOCOL_VERSION}, this machine ${protocol}: install the same version of Covey on both.`,
  );
}
