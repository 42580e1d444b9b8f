import type { NodeId } from '#shared/lib/ids.ts';
import { timings } from '#shared/config.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { LIMITS, PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import {
  workerFrame,
  type ControllerFrame,
  type HelloFrame,
  type WorkerFrame,
} from '#shared/protocol/session.ts';
import type { WorkerMethod, WorkerParams, WorkerResult } from '#shared/protocol/requests.ts';
import type { PeerSession } from '../../nodejs/transport/transport.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { ControllerEvent, NotedKind } from '../state/events.ts';
import type { NodeFacts } from '../state/state.ts';
import { createContests, type ContestTimings } from './contests.ts';
import { pushDesiredState, type SendText } from './desired.ts';
import { claimOf, identityInUse, identityMoved, pairKey, type Claim } from './identity-claims.ts';
import { createRequestTracker, type RequestOptions, type RequestTracker } from './request-tracker.ts';
import { createTaskFrames } from './task-frames.ts';

export interface SessionRegistryOptions {
  readonly runtime: Runtime;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly controllerName: string;
  readonly controllerVersion: string;
  readonly onLog: (nodeId: NodeId, frame: Extract<WorkerFrame, { type: 'log' }>) => void;
  readonly onDialRequest: (nodeId: NodeId, frame: Extract<WorkerFrame, { type: 'dial-request' }>) => void;
  readonly onArtifacts: (
    nodeId: NodeId,
    frame: Extract<WorkerFrame, { type: 'artifact-wanted' | 'artifacts-held' }>,
  ) => void;
  /** The node has no session any more. */
  readonly onGone: (nodeId: NodeId) => void;
  /** A session was welcomed: what every worker is told then. */
  readonly greet: (nodeId: NodeId) => readonly ControllerFrame[];
  readonly contest?: ContestTimings;
}

/** The workers' sessions: frames in become facts, the desired state goes out whole whenever it changes. */
export interface SessionRegistry {
  accept(session: PeerSession): void;
  request<M extends WorkerMethod>(
    nodeId: NodeId,
    method: M,
    params: WorkerParams<M>,
    options: RequestOptions,
  ): Promise<WorkerResult<M>>;
  /** false: that node has no session. */
  send(nodeId: NodeId, frame: ControllerFrame): boolean;
  /** To every node that has a session. */
  broadcast(frame: ControllerFrame): void;
  close(nodeId: NodeId): void;
  closeAll(): void;
}

interface Connected {
  readonly id: number;
  readonly session: PeerSession;
  readonly claim: Claim;
  readonly requests: RequestTracker;
}

const helloMs = 10_000;
/** A worker has nothing to say before it is welcomed. */
const maxEarlyFrames = 16;
const sayAgainMs = 3_600_000;

export function createSessionRegistry(options: SessionRegistryOptions): SessionRegistry {
  const { runtime, clock, logger } = options;
  const connected = new Map<NodeId, Connected>();
  const contests = createContests(options.contest);
  /** By node and pair of machines: when it was last written into the event list. */
  const conflictsNoted = new Map<string, number>();
  let lastSessionId = 0;

  const sendText: SendText = (nodeId, text) => connected.get(nodeId)?.session.send(text);
  const desired = pushDesiredState(runtime, sendText);
  const tasks = createTaskFrames({ runtime, clock, leaseMs: timings.taskLeaseMs, send: sendText });
  // Who is lost has no session by the state: if it lives it has to come anew.
  runtime.onTurn(({ events }) => {
    for (const event of events) {
      if (event.type === 'node-lost') connected.get(event.nodeId)?.session.close();
    }
  });

  const refuse = (session: PeerSession, error: CoveyError): void => {
    logger.warn('session refused', { node: session.peerId.slice(0, 12), code: error.code });
    send(session, { type: 'refused', error: error.toBody() });
    session.close();
  };

  /** Into the event list, for the same pair once an hour. */
  const noteConflict = (nodeId: NodeId, key: string, error: CoveyError, kind: NotedKind): void => {
    const at = clock.now();
    for (const [noted, notedAt] of conflictsNoted)
      if (at - notedAt >= sayAgainMs) conflictsNoted.delete(noted);
    if (conflictsNoted.has(`${nodeId} ${key}`)) return;
    conflictsNoted.set(`${nodeId} ${key}`, at);
    runtime.dispatch({ type: 'noted', at, kind, level: 'warn', message: error.message, nodeId });
  };

  /** Makes this the node's one session; an earlier one ends. null: it was refused, by name. */
  const open = (session: PeerSession, hello: HelloFrame): Connected | null => {
    const nodeId = session.peerId;
    const node = runtime.state.nodes.get(nodeId);
    if (!node) {
      refuse(session, new CoveyError('not_a_member', 'This machine is not a member of the covey.'));
      return null;
    }
    if (hello.protocol !== PROTOCOL_VERSION) {
      refuse(
        session,
        new CoveyError(
          'protocol_version_mismatch',
          `The controller speaks protocol ${PROTOCOL_VERSION}, this worker ${hello.protocol}: install the same version of Covey on both.`,
        ),
      );
      return null;
    }
    const earlier = connected.get(nodeId);
    const id = (lastSessionId += 1);
    const claim = claimOf(session, hello);
    const entry: Connected = {
      id,
      session,
      claim,
      requests: createRequestTracker(node.durable.name, (frame) => send(session, frame)),
    };
    connected.set(nodeId, entry);
    earlier?.requests.closeAll({
      code: 'session_replaced',
      message: `${node.durable.name} opened a new session.`,
    });
    earlier?.session.close();
    send(session, {
      type: 'welcome',
      protocol: PROTOCOL_VERSION,
      controllerName: options.controllerName,
      controllerVersion: options.controllerVersion,
      name: node.durable.name,
      heartbeatMs: timings.heartbeatMs,
      silenceMs: timings.silenceMs,
      leaseMs: timings.engineLeaseMs,
      at: clock.now(),
    });
    for (const frame of options.greet(nodeId)) send(session, frame);
    const moved = identityMoved(node.durable.facts, claim);
    if (moved) send(session, { type: 'notice', error: moved.toBody() });
    const observed = hello.tasks ?? [];
    const reconciled = tasks.reconcile(nodeId, observed);
    const opened: ControllerEvent = {
      type: 'session-opened',
      at: clock.now(),
      nodeId,
      sessionId: id,
      remoteAddress: session.remoteAddress,
      bootId: hello.bootId,
      name: hello.name,
      facts: factsOf(hello),
      telemetry: hello.telemetry,
      lend: hello.lend ?? null,
      compute: hello.compute ?? null,
      engines: hello.engines,
    };
    runtime.dispatch(opened, ...reconciled);
    tasks.opened(nodeId, observed);
    if (moved) noteConflict(nodeId, `moved ${claim.machine}`, moved, 'security-identity-moved');
    return entry;
  };

  /** Both run: the one that was here first stays, and both are told who the other is. */
  const refuseDuplicate = (session: PeerSession, hello: HelloFrame): void => {
    const first = connected.get(session.peerId);
    const claim = claimOf(session, hello);
    const error = identityInUse(first?.claim ?? claim, claim);
    refuse(session, error);
    if (!first) return;
    send(first.session, { type: 'notice', error: error.toBody() });
    noteConflict(session.peerId, pairKey(first.claim, claim), error, 'security-identity-duplicate');
  };

  const receive = (nodeId: NodeId, entry: Connected, frame: WorkerFrame): boolean => {
    const at = clock.now();
    switch (frame.type) {
      case 'hello':
        return false;
      case 'heartbeat':
        send(entry.session, { type: 'ack', seq: frame.seq, at });
        runtime.dispatch({
          type: 'heartbeat-received',
          at,
          nodeId,
          telemetry: frame.telemetry,
          problems: frame.problems,
          lend: frame.lend ?? null,
        });
        return true;
      case 'observed':
        runtime.dispatch({ type: 'engines-observed', at, nodeId, engines: frame.engines });
        return true;
      case 'hardware':
        runtime.dispatch({
          type: 'hardware-observed',
          at,
          nodeId,
          hardware: frame.hardware,
          addresses: frame.addresses,
        });
        return true;
      case 'response':
        entry.requests.answered(frame);
        return true;
      case 'progress':
        entry.requests.progressed(frame);
        return true;
      case 'log':
        options.onLog(nodeId, frame);
        return true;
      case 'tasks':
        tasks.reported(nodeId, frame.reports);
        return true;
      case 'compute':
        runtime.dispatch({ type: 'compute-observed', at, nodeId, compute: frame.compute });
        return true;
      case 'dial-request':
        options.onDialRequest(nodeId, frame);
        return true;
      case 'artifact-wanted':
      case 'artifacts-held':
        options.onArtifacts(nodeId, frame);
        return true;
      case 'goodbye':
        closed(nodeId, entry, true);
        entry.session.close();
        return true;
    }
  };

  const closed = (nodeId: NodeId, entry: Connected, goodbye: boolean): void => {
    const name = runtime.state.nodes.get(nodeId)?.durable.name ?? nodeId.slice(0, 12);
    entry.requests.closeAll({ code: 'node_not_ready', message: `${name} closed its connection.` });
    const current = connected.get(nodeId) === entry;
    if (current) {
      connected.delete(nodeId);
      desired.closed(nodeId);
      tasks.closed(nodeId);
      options.onGone(nodeId);
    }
    runtime.dispatch({ type: 'session-closed', at: clock.now(), nodeId, sessionId: entry.id, goodbye });
    if (current) contests.ended(nodeId);
  };

  return {
    accept(session) {
      const nodeId = session.peerId;
      let entry: Connected | null = null;
      /** What came while another session of the node was open. */
      let early: WorkerFrame[] | null = null;
      let over = false;
      const helloTimer = setTimeout(() => {
        logger.warn('no hello in time', { node: nodeId.slice(0, 12) });
        session.close();
      }, helloMs);
      let stopWaiting = (): void => clearTimeout(helloTimer);

      const enter = (hello: HelloFrame): void => {
        const waited = early ?? [];
        early = null;
        entry = open(session, hello);
        over = entry === null;
        waited.every(take);
      };
      const greet = (hello: HelloFrame): void => {
        stopWaiting();
        const holder = connected.get(nodeId);
        if (!holder || holder.claim.bootId === hello.bootId) return enter(hello);
        early = [];
        stopWaiting = contests.challenge(nodeId, {
          admit: () => enter(hello),
          refuse() {
            over = true;
            refuseDuplicate(session, hello);
          },
        });
      };
      /** false: not what may come now. */
      const take = (frame: WorkerFrame): boolean => {
        if (entry) {
          // Replaced: what it still says is about a node that another session is now.
          if (connected.get(nodeId) !== entry) return true;
          if (frame.type !== 'goodbye') contests.heard(nodeId);
          return receive(nodeId, entry, frame);
        }
        if (early) return frame.type !== 'hello' && early.push(frame) <= maxEarlyFrames;
        if (frame.type === 'hello') greet(frame);
        return frame.type === 'hello';
      };

      session.onMessage((text) => {
        if (over) return;
        const frame = parseFrame(text);
        if (frame.ok && take(frame.value)) return;
        over = true;
        stopWaiting();
        const detail = frame.ok ? `a frame of type ${frame.value.type} was not expected` : frame.error;
        refuse(
          session,
          new CoveyError('invalid_request', `The session sent something that is not understood: ${detail}.`),
        );
      });
      session.onClose(() => {
        over = true;
        stopWaiting();
        if (entry) closed(nodeId, entry, false);
      });
    },
    request(nodeId, method, params, requestOptions) {
      const entry = connected.get(nodeId);
      if (entry) return entry.requests.request(method, params, requestOptions);
      const name = runtime.state.nodes.get(nodeId)?.durable.name ?? nodeId.slice(0, 12);
      return Promise.reject(new CoveyError('node_not_ready', `${name} is not connected.`));
    },
    send(nodeId, frame) {
      const entry = connected.get(nodeId);
      if (entry) send(entry.session, frame);
      return entry !== undefined;
    },
    broadcast(frame) {
      for (const entry of connected.values()) send(entry.session, frame);
    },
    close(nodeId) {
      connected.get(nodeId)?.session.close();
    },
    closeAll() {
      desired.stop();
      tasks.stop();
      contests.clear();
      for (const entry of connected.values()) entry.session.close();
    },
  };
}

function send(session: PeerSession, frame: ControllerFrame): void {
  session.send(JSON.stringify(frame));
}

function parseFrame(text: string): { ok: true; value: WorkerFrame } | { ok: false; error: string } {
  if (text.length > LIMITS.frameBytes) return { ok: false, error: `a frame of ${text.length} characters` };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { ok: false, error: 'not JSON' };
  }
  const parsed = workerFrame.safeParse(value);
  if (parsed.success) return { ok: true, value: parsed.data };
  const [issue] = parsed.error.issues;
  return { ok: false, error: `${issue?.path.join('.') ?? 'frame'}: ${issue?.message ?? 'invalid'}` };
}

function factsOf(hello: HelloFrame): NodeFacts {
  const { engine } = hello;
  return {
    version: hello.version,
    engineBuildId: engine.buildId,
    engineProblem: engine.buildId === null ? engine.reason : null,
    hardware: hello.hardware,
    addresses: hello.addresses,
    machine: hello.machine,
  };
}
