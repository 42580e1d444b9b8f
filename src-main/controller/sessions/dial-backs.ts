import type { Address } from '#shared/domain/node.ts';
import type { DialBack } from '#shared/host/transport.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { ControllerFrame } from '#shared/protocol/session.ts';
import type { Transport } from '../../nodejs/transport/transport.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { dialAddresses } from '../scheduler/assignments.ts';
import type { ControllerState } from '../state/state.ts';
import type { SessionRegistry } from './session-registry.ts';

/**
 * Connections the other way round: a member that cannot dial another asks here, and the other is ordered to dial
 * it, or to meet it at this controller's relay. Only who has business with the other is served: its leader in a
 * replica that is placed, or a measurement that the controller ordered.
 */
export interface DialBacks {
  /** A member asks. Refusals are silent to it (the connection does not come) and show in the event list. */
  onDialRequest(from: NodeId, request: DialBack): void;
  /** This machine's own transport asks: for the gateway, for a lent machine, for a measurement. */
  requestFromController(request: DialBack): void;
  /** `from` was told to measure the way to `to`, and may ask for a connection for so long. */
  expectProbe(from: NodeId, to: NodeId, ttlMs: number): void;
}

export interface DialBackOptions {
  readonly runtime: Pick<Runtime, 'state' | 'dispatch'>;
  readonly sessions: Pick<SessionRegistry, 'send'>;
  readonly transport: Pick<Transport, 'allowRelay'>;
  readonly selfId: NodeId;
  readonly selfName: string;
  /** Where this controller can be dialled. */
  readonly addresses: () => readonly Address[];
  readonly clock: Clock;
}

/** A leader opens a pulse and a few streams for each of its stages at once, each of them by two routes at most. */
const requestBurst = 128;
const requestsPerS = 16;
/** Refusals of one member that are told; the rest is its own noise. */
const toldBurst = 5;
const toldPerS = 0.05;
/** As long as the one that asked waits. */
const relayPassMs = 10_000;
const maxAddresses = 16;
const maxProbes = 4_096;

interface Allowance {
  requests: Bucket;
  told: Bucket;
}

interface Bucket {
  tokens: number;
  at: number;
}

export function createDialBacks(options: DialBackOptions): DialBacks {
  const { runtime, clock } = options;
  const allowances = new Map<NodeId, Allowance>();
  /** Until when, by pair. */
  const probes = new Map<string, number>();

  const allowanceOf = (nodeId: NodeId): Allowance => {
    const at = clock.now();
    const known = allowances.get(nodeId);
    if (known) return known;
    for (const forgotten of allowances.keys()) {
      if (!runtime.state.nodes.has(forgotten)) allowances.delete(forgotten);
    }
    const fresh = { requests: { tokens: requestBurst, at }, told: { tokens: toldBurst, at } };
    allowances.set(nodeId, fresh);
    return fresh;
  };

  const nameOf = (nodeId: NodeId): string => {
    if (nodeId === options.selfId) return options.selfName;
    return runtime.state.nodes.get(nodeId)?.durable.name ?? nodeId.slice(0, 12);
  };

  const order = (from: NodeId, { peer, token, route }: DialBack): void => {
    const fromNode = runtime.state.nodes.get(from) ?? null;
    const own = route === 'relay' || from === options.selfId || !fromNode;
    const addresses = own
      ? options.addresses()
      : dialAddresses(fromNode, runtime.state.nodes.get(peer) ?? null);
    if (route === 'relay') {
      options.transport.allowRelay({ token, between: [from, peer], ttlMs: relayPassMs });
    }
    const frame: ControllerFrame = {
      type: 'dial-order',
      from,
      fromName: nameOf(from),
      token,
      route,
      addresses: addresses.slice(0, maxAddresses),
    };
    // A peer without a session cannot be reached at all: whoever asked hears it by its own deadline.
    options.sessions.send(peer, frame);
  };

  /** Why `from` may not have a connection to `peer`; null: it may. */
  const objection = (from: NodeId, { peer, route }: DialBack): string | null => {
    const { state } = runtime;
    if (!state.nodes.has(from)) return 'it is no member';
    if (!state.nodes.has(peer)) return 'that machine is no member';
    if (from === peer) return 'it asked for itself';
    if (route === 'relay' && (from === options.selfId || peer === options.selfId)) {
      return 'the controller needs no relay';
    }
    if (leadsStageOn(state, from, peer)) return null;
    const expectedUntil = probes.get(pairOf(from, peer));
    if (expectedUntil !== undefined && expectedUntil > clock.now()) return null;
    return 'it leads no replica with a stage there';
  };

  return {
    onDialRequest(from, request) {
      const allowance = allowanceOf(from);
      const tooMany = !take(allowance.requests, clock.now(), requestBurst, requestsPerS);
      const reason = tooMany ? 'it asks too often' : objection(from, request);
      if (reason === null) return order(from, request);
      if (!take(allowance.told, clock.now(), toldBurst, toldPerS)) return;
      runtime.dispatch({
        type: 'noted',
        at: clock.now(),
        kind: 'security-refused',
        level: 'warn',
        message: `${nameOf(from)} asked for a connection to ${nameOf(request.peer)} and was refused: ${reason}.`,
        nodeId: from,
      });
    },
    requestFromController(request) {
      if (request.route === 'reverse' && runtime.state.nodes.has(request.peer)) {
        order(options.selfId, request);
      }
    },
    expectProbe(from, to, ttlMs) {
      const now = clock.now();
      for (const [pair, until] of probes) {
        if (until <= now || probes.size >= maxProbes) probes.delete(pair);
      }
      probes.set(pairOf(from, to), now + ttlMs);
    },
  };
}

function leadsStageOn(state: ControllerState, leader: NodeId, stageNode: NodeId): boolean {
  for (const { replica } of state.deployments.values()) {
    if (replica?.leader.nodeId !== leader) continue;
    if (replica.stages.some(({ nodeId }) => nodeId === stageNode)) return true;
  }
  return false;
}

function pairOf(from: NodeId, to: NodeId): string {
  return `${from} ${to}`;
}

function take(bucket: Bucket, now: number, burst: number, perS: number): boolean {
  bucket.tokens = Math.min(burst, bucket.tokens + (Math.max(0, now - bucket.at) / 1_000) * perS);
  bucket.at = now;
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}
