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
import type { NodeFacts } from '../state/state.ts';
import { pushDesiredState } from './desired.ts';
import { createRequestTracker, type RequestOptions, type RequestTracker } from './request-tracker.ts';

export interface SessionRegistryOptions {
  readonly runtime: Runtime;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly controllerName: string;
  readonly onLog: (nodeId: NodeId, frame: Extract<WorkerFrame, { type: 'log' }>) => void;
  readonly onDialRequest: (nodeId: NodeId, frame: Extract<WorkerFrame, { type: 'dial-request' }>) => void;
  /** A session was welcomed: what every worker is told then. */
  readonly greet: (nodeId: NodeId) => readonly ControllerFrame[];
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
  readonly requests: RequestTracker;
}

const helloMs = 10_000;

export function createSessionRegistry(options: SessionRegistryOptions): SessionRegistry {
  const { runtime, clock, logger } = options;
  const connected = new Map<NodeId, Connected>();
  let lastSessionId = 0;

  const desired = pushDesiredState(runtime, (nodeId, text) => connected.get(nodeId)?.session.send(text));

  const refuse = (session: PeerSession, error: CoveyError): void => {
    logger.warn('session refused', { node: session.peerId.slice(0, 12), code: error.code });
    send(session, { type: 'refused', error: error.toBody() });
    session.close();
  };

  const open = (session: PeerSession, hello: HelloFrame): Connected | null => {
    const node = runtime.state.nodes.get(session.peerId);
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
    const earlier = connected.get(session.peerId);
    const id = (lastSessionId += 1);
    const entry: Connected = {
      id,
      session,
      requests: createRequestTracker(node.durable.name, (frame) => send(session, frame)),
    };
    connected.set(session.peerId, entry);
    earlier?.requests.closeAll({
      code: 'session_replaced',
      message: `${node.durable.name} opened a new session.`,
    });
    earlier?.session.close();
    send(session, {
      type: 'welcome',
      protocol: PROTOCOL_VERSION,
      controllerName: options.controllerName,
      name: node.durable.name,
      heartbeatMs: timings.heartbeatMs,
      silenceMs: timings.silenceMs,
      leaseMs: timings.engineLeaseMs,
      at: clock.now(),
    });
    for (const frame of options.greet(session.peerId)) send(session, frame);
    runtime.dispatch({
      type: 'session-opened',
      at: clock.now(),
      nodeId: session.peerId,
      sessionId: id,
      remoteAddress: session.remoteAddress,
      bootId: hello.bootId,
      name: hello.name,
      facts: factsOf(hello),
      telemetry: hello.telemetry,
      engines: hello.engines,
    });
    return entry;
  };

  const receive = (nodeId: NodeId, entry: Connected, frame: WorkerFrame): boolean => {
    const at = clock.now();
    switch (frame.type) {
      case 'hello':
        return false;
      case 'heartbeat':
        send(entry.session, { type: 'ack', seq: frame.seq });
        runtime.dispatch({
          type: 'heartbeat-received',
          at,
          nodeId,
          telemetry: frame.telemetry,
          problems: frame.problems,
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
      case 'dial-request':
        options.onDialRequest(nodeId, frame);
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
    if (connected.get(nodeId) === entry) {
      connected.delete(nodeId);
      desired.closed(nodeId);
    }
    runtime.dispatch({ type: 'session-closed', at: clock.now(), nodeId, sessionId: entry.id, goodbye });
  };

  return {
    accept(session) {
      let entry: Connected | null = null;
      let over = false;
      const helloTimer = setTimeout(() => {
        logger.warn('no hello in time', { node: session.peerId.slice(0, 12) });
        session.close();
      }, helloMs);
      session.onMessage((text) => {
        if (over) return;
        const frame = parseFrame(text);
        const accepted = frame.ok
          ? entry
            ? receive(session.peerId, entry, frame.value)
            : frame.value.type === 'hello' &&
              (clearTimeout(helloTimer), (entry = open(session, frame.value)), true)
          : false;
        if (accepted) return;
        over = true;
        const detail = frame.ok ? `a frame of type ${frame.value.type} was not expected` : frame.error;
        refuse(
          session,
          new CoveyError('invalid_request', `The session sent something that is not understood: ${detail}.`),
        );
      });
      session.onClose(() => {
        clearTimeout(helloTimer);
        if (entry) closed(session.peerId, entry, false);
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
  };
}
