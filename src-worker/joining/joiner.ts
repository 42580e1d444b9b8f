import { setTimeout as delay } from 'node:timers/promises';
import type { JoinView, StartJoinBody } from '#shared/api/joining.ts';
import { timings } from '#shared/config.ts';
import { CoveyError } from '#shared/errors.ts';
import { backoffMs } from '#shared/lib/backoff.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { decodeJoinString } from '../../src-main/nodejs/join-string.ts';
import { writeMembership, type Membership } from '../../src-main/nodejs/membership.ts';
import type { JoinConversation, Transport } from '../../src-main/nodejs/transport/transport.ts';
import {
  ambiguous,
  controllersOf,
  findController,
  kinOf,
  sameAddress,
  type Announced,
  type ControllerTarget,
} from './controllers.ts';
import { joinByApproval, joinBySecret, joinByString, type Admitted, type JoinSelf } from './conversations.ts';

/** A machine's way to membership; one attempt at a time. */
export interface Joiner {
  view(): JoinView;
  /**
   * Begins an attempt in place of the one that runs; how it goes on shows in `view`. Rejects with
   * `join_string_invalid`, `controllers_ambiguous`, `controller_not_found`, `already_member` (admitted this very
   * moment), and then nothing has changed.
   */
  start(body: StartJoinBody): Promise<JoinView>;
  /** The person here says that the controller has taken the number. Throws `join_not_running`. */
  confirm(): JoinView;
  /** Ends the attempt that runs. One by cluster secret is not made again before the secret is set once more. */
  cancel(): JoinView;
  /**
   * For a machine that is no member. With a secret, and whenever no person's attempt runs: joins the one controller
   * that announces its mark. Two of them: `controllers_ambiguous` is shown and nothing is done. null: waits for people.
   */
  setAutomatic(secret: string | null): void;
  /** Fires when the membership is on disk. */
  onJoined(listener: (membership: Membership) => void): void;
  /** The membership is over: idle again. */
  reset(): void;
  close(): void;
}

export interface JoinerOptions {
  readonly transport: Pick<Transport, 'dialJoin'>;
  readonly nodeId: NodeId;
  readonly name: string;
  /** null: there is none, controllers are named by people. */
  readonly discovery: JoinDiscovery | null;
  /** The membership is written there. */
  readonly dataDirectory: string;
  /** Writes down the secret that a person has given, before it is used. */
  readonly keepClusterSecret: (secret: string) => Promise<void>;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Spreads repeated attempts; [0, 1). */
  readonly random?: () => number;
}

export interface JoinDiscovery {
  peers(): readonly Announced[];
  onChange(listener: () => void): () => void;
  refresh(): void;
}

const idle: JoinView = {
  phase: 'idle',
  by: null,
  controller: null,
  code: null,
  confirmed: false,
  expiresAt: null,
  error: null,
};

/** How long to look for a controller that nobody has named, and then for a second one. */
const findMs = 3_000;
const secondMs = 500;
const automaticBackoff = { firstMs: 2_000, maxMs: 60_000, factor: 2, jitter: 0.3 };

interface Attempt {
  readonly abort: AbortController;
  readonly confirm: () => void;
  /** Admitted: what is left cannot be cancelled. */
  settled: boolean;
}

export function createJoiner(options: JoinerOptions): Joiner {
  const { transport, discovery, clock, logger } = options;
  const random = options.random ?? Math.random;
  const joinedListeners: Array<(membership: Membership) => void> = [];
  let view: JoinView = idle;
  let attempt: Attempt | null = null;
  let secret: string | null = null;
  let automaticFailures = 0;
  let retry: NodeJS.Timeout | undefined;
  let closed = false;

  const found = (): ControllerTarget[] => controllersOf(discovery?.peers() ?? []);
  const stop = (reason: CoveyError): void => {
    attempt?.abort.abort(reason);
    attempt = null;
  };

  /** @param converse dials and talks until this machine is admitted, showing how far it is by `show` */
  const run = (
    by: NonNullable<JoinView['by']>,
    target: ControllerTarget,
    converse: (tools: AttemptTools) => Promise<{ frame: Admitted; conversation: JoinConversation }>,
    onFailed: () => void,
  ): JoinView => {
    if (attempt?.settled) {
      throw new CoveyError('already_member', 'This machine has just been admitted to a covey.');
    }
    clearTimeout(retry);
    stop(new CoveyError('cancelled', 'Another attempt to join was begun.'));
    let confirm = (): void => undefined;
    const confirmed = new Promise<void>((resolve) => {
      confirm = resolve;
    });
    const mine: Attempt = { abort: new AbortController(), confirm: () => confirm(), settled: false };
    attempt = mine;
    const [address] = target.addresses;
    view = {
      ...idle,
      phase: 'connecting',
      by,
      controller: { nodeId: target.nodeId, name: target.name, address: address ?? null },
    };
    const show = (change: Partial<JoinView>): void => {
      if (attempt === mine) view = { ...view, ...change };
    };
    const work = async (): Promise<void> => {
      const { frame, conversation } = await converse({ signal: mine.abort.signal, confirmed, show });
      mine.settled = true;
      const membership = membershipOf(frame, conversation, target);
      await writeMembership(options.dataDirectory, membership);
      conversation.close();
      const { controllerId, controllerName } = membership;
      const reached = membership.addresses[0] ?? null;
      show({
        phase: 'joined',
        code: null,
        expiresAt: null,
        controller: { nodeId: controllerId, name: controllerName, address: reached },
      });
      if (attempt === mine) attempt = null;
      automaticFailures = 0;
      logger.info('joined', { controller: controllerName, by: view.by });
      if (closed) return;
      for (const listener of joinedListeners) listener(membership);
    };
    work().catch((thrown: unknown) => {
      if (attempt !== mine) return;
      const error = CoveyError.from(thrown);
      logger.warn('not joined', { by, code: error.code, reason: error.message });
      show({ phase: 'failed', code: null, expiresAt: null, error: error.toBody() });
      attempt = null;
      onFailed();
    });
    return view;
  };

  /** Dials, and closes the conversation when what is done with it fails. */
  const converseAt = async (
    target: ControllerTarget,
    { signal, show }: AttemptTools,
    talk: (conversation: JoinConversation, self: JoinSelf) => Promise<Admitted>,
  ): Promise<{ frame: Admitted; conversation: JoinConversation }> => {
    const conversation = await transport.dialJoin({
      addresses: target.addresses,
      expectedNodeId: target.nodeId,
      timeoutMs: timings.connectMs,
      signal,
    });
    try {
      signal.throwIfAborted();
      const address = conversation.dialledAddress ?? target.addresses[0] ?? null;
      show({ controller: { nodeId: conversation.peerId, name: target.name, address } });
      const frame = await talk(conversation, { nodeId: options.nodeId, name: options.name, signal });
      return { frame, conversation };
    } catch (error) {
      conversation.close();
      throw error;
    }
  };

  const bySecret = (target: ControllerTarget, held: string, tools: AttemptTools) =>
    converseAt(target, tools, (conversation, self) =>
      joinBySecret(conversation, self, held, () => undefined),
    );

  const byApproval = (target: ControllerTarget, tools: AttemptTools) =>
    converseAt(target, tools, (conversation, self) => {
      const address = conversation.dialledAddress ?? target.addresses[0] ?? null;
      return joinByApproval(conversation, self, {
        onController: (name) => tools.show({ controller: { nodeId: conversation.peerId, name, address } }),
        onCode: (code, expiresInMs) =>
          tools.show({ phase: 'comparing', code, expiresAt: clock.now() + expiresInMs }),
        onApproved: () => tools.show({ phase: 'approved' }),
        confirmed: tools.confirmed,
      });
    });

  /** By the secret that this machine holds, where that is the controller's; else people decide. */
  const ask = (target: ControllerTarget): JoinView => {
    const held = secret;
    return run(
      'approval',
      target,
      async (tools) => {
        if (held !== null) {
          try {
            const done = await bySecret(target, held, tools);
            tools.show({ by: 'cluster-secret' });
            return done;
          } catch (thrown) {
            const error = CoveyError.from(thrown);
            if (error.code !== 'cluster_secret_missing' && error.code !== 'cluster_secret_wrong') throw error;
            logger.warn('the controller has another cluster secret, or none: people decide', {
              code: error.code,
            });
          }
        }
        return byApproval(target, tools);
      },
      tryAgainLater,
    );
  };

  function tryAgainLater(): void {
    if (closed || secret === null) return;
    clearTimeout(retry);
    const waitMs = Math.max(5_000, backoffMs(automaticBackoff, automaticFailures, random()));
    retry = setTimeout(joinKin, waitMs).unref();
  }

  /** One step of the automatic way; called whenever something may have changed. */
  function joinKin(): void {
    if (closed || secret === null || attempt || view.phase === 'joined') return;
    const held = secret;
    const kin = kinOf(discovery?.peers() ?? [], held);
    const [target] = kin;
    if (!target) {
      view = { ...idle, phase: 'connecting', by: 'cluster-secret' };
      return;
    }
    if (kin.length > 1) {
      const error = ambiguous(
        'Several controllers announce the cluster secret that this machine holds, so it joins none of them.',
        kin,
      );
      view = { ...idle, phase: 'failed', by: 'cluster-secret', error: error.toBody() };
      return;
    }
    run(
      'cluster-secret',
      target,
      (tools) => bySecret(target, held, tools),
      () => {
        automaticFailures += 1;
        tryAgainLater();
      },
    );
  }

  /** The only controller in sight; looks a moment longer when there is none, or one that just came. */
  const onlyController = async (): Promise<ControllerTarget> => {
    if (discovery && found().length === 0) {
      const deadline = AbortSignal.timeout(findMs);
      discovery.refresh();
      await new Promise<void>((resolve) => {
        const done = (): void => {
          stopListening();
          resolve();
        };
        const stopListening = discovery.onChange(() => void (found().length > 0 && done()));
        deadline.addEventListener('abort', done, { once: true });
      });
      if (found().length > 0) await delay(secondMs);
    }
    const controllers = found();
    const [only] = controllers;
    if (controllers.length > 1) throw ambiguous('There are several controllers here.', controllers);
    if (only) return only;
    throw new CoveyError(
      'controller_not_found',
      discovery
        ? 'No controller was found on this network. Name its address ("covey join HOST"), or use a join string from "covey invite" there.'
        : 'Discovery is off on this machine. Name the controller\'s address ("covey join HOST"), or use a join string.',
    );
  };

  const setAutomatic = (next: string | null): void => {
    if (next === secret) return;
    secret = next;
    automaticFailures = 0;
    clearTimeout(retry);
    if (view.by === 'cluster-secret' && view.phase !== 'joined') {
      stop(new CoveyError('cancelled', 'The cluster secret of this machine has changed.'));
      view = idle;
    }
    joinKin();
  };

  const stopListening = discovery?.onChange(() => {
    // A failed attempt waits for its time, an ambiguity for the change that this may be.
    if (view.phase !== 'failed' || view.error?.code === 'controllers_ambiguous') joinKin();
  });

  return {
    view: () => view,
    async start({ joinString, clusterSecret, controller }) {
      if (joinString !== undefined) {
        const content = decodeJoinString(joinString);
        if (!content.ok) throw content.error;
        const { controllerId, addresses, secret: once } = content.value;
        // Where people know better how it is reached from here than it did itself; its key is pinned all the same.
        const known = controller === undefined ? [] : findController(controller, []).addresses;
        const others = addresses.filter((one) => !known.some((other) => sameAddress(one, other)));
        const target = { nodeId: controllerId, name: null, addresses: [...known, ...others] };
        return run(
          'join-string',
          target,
          (tools) =>
            converseAt(target, tools, (conversation, self) => joinByString(conversation, self, once)),
          tryAgainLater,
        );
      }
      if (clusterSecret !== undefined) {
        await options.keepClusterSecret(clusterSecret);
        stop(new CoveyError('cancelled', 'Another attempt to join was begun.'));
        view = idle;
        secret = null;
        setAutomatic(clusterSecret);
        discovery?.refresh();
        return view;
      }
      return ask(controller === undefined ? await onlyController() : findController(controller, found()));
    },
    confirm() {
      if (!attempt || (view.phase !== 'comparing' && view.phase !== 'approved')) {
        throw new CoveyError('join_not_running', 'There is no request to join that could be confirmed.');
      }
      view = { ...view, confirmed: true };
      attempt.confirm();
      return view;
    },
    cancel() {
      if (attempt?.settled) return view;
      if (view.by === 'cluster-secret') secret = null;
      clearTimeout(retry);
      stop(new CoveyError('cancelled', 'The request to join was taken back.'));
      if (view.phase !== 'joined') view = idle;
      return view;
    },
    setAutomatic,
    onJoined: (listener) => void joinedListeners.push(listener),
    reset() {
      if (view.phase !== 'joined') return;
      view = idle;
      joinKin();
    },
    close() {
      closed = true;
      clearTimeout(retry);
      stopListening?.();
      stop(new CoveyError('shutting_down', 'This machine is stopping.'));
    },
  };
}

interface AttemptTools {
  readonly signal: AbortSignal;
  /** Resolves when the person here confirms. */
  readonly confirmed: Promise<void>;
  readonly show: (change: Partial<JoinView>) => void;
}

/** The address that worked comes first. */
function membershipOf(frame: Admitted, conversation: JoinConversation, target: ControllerTarget): Membership {
  const tried = conversation.dialledAddress ? [conversation.dialledAddress] : target.addresses;
  const others = frame.addresses.filter((one) => !tried.some((other) => sameAddress(one, other)));
  return {
    controllerId: conversation.peerId,
    controllerName: frame.controllerName,
    addresses: [...tried, ...others].slice(0, 16),
  };
}
