import { z } from 'zod';
import { bootIdSchema, engineIdSchema, nodeIdSchema } from '../lib/ids.ts';
import { addressSchema, hardwareSchema, shortText, telemetrySchema } from '../domain/node.ts';
import { engineAssignmentSchema, engineObservationSchema, secretSchema } from '../domain/engine.ts';
import { errorBodySchema } from '../domain/error-body.ts';
import { lendStateSchema } from '../domain/lend.ts';
import { clusterSecretSchema } from '../domain/cluster-secret.ts';

/**
 * Session frames: one JSON object per WebSocket text message over ALPN `covey-session`. The worker dials and
 * speaks first (hello); the controller answers `welcome` or `refused`.
 */
export const helloFrame = z.object({
  type: z.literal('hello'),
  protocol: z.number().int(),
  bootId: bootIdSchema,
  name: shortText,
  version: z.string().max(64),
  /** This machine's clock, epoch ms. */
  at: z.number().int().nonnegative(),
  /** Names the installation of the system (hashed with the node id), to notice a copied data directory. */
  machine: secretSchema.nullable(),
  /** null with the reason when this node has no usable engine directory. */
  engine: z.union([
    z.object({ buildId: z.string().max(128), rpcProtocol: z.string().max(32) }),
    z.object({ buildId: z.null(), reason: z.string().max(1024) }),
  ]),
  hardware: hardwareSchema,
  /** Where this node's own cluster port can be dialled, best first. */
  addresses: z.array(addressSchema).max(32),
  telemetry: telemetrySchema,
  /** As in heartbeats: without it a machine that does not lend now would be given work first. */
  lend: lendStateSchema.optional(),
  /** Everything this worker runs now: the controller reconciles against it. */
  engines: z.array(engineObservationSchema).max(256),
});
export type HelloFrame = z.infer<typeof helloFrame>;

export const workerFrame = z.discriminatedUnion('type', [
  helloFrame,
  /** Every `heartbeatMs`, and at once when `lend` has changed; answered by `ack`, which renews the lease. */
  z.object({
    type: z.literal('heartbeat'),
    seq: z.number().int().nonnegative(),
    telemetry: telemetrySchema,
    /** Reasons why this node must not get work; empty: healthy. */
    problems: z.array(z.string().max(512)).max(16),
    /** Absent: this worker knows no rules (an older version) and lends. */
    lend: lendStateSchema.optional(),
  }),
  /** The full observed set, sent when anything in it changed (at most 4 a second). */
  z.object({
    type: z.literal('observed'),
    /** The last assignments generation that this worker has acted on. */
    generation: z.number().int().nonnegative(),
    engines: z.array(engineObservationSchema).max(256),
  }),
  z.object({
    type: z.literal('hardware'),
    hardware: hardwareSchema,
    addresses: z.array(addressSchema).max(32),
  }),
  z.object({
    type: z.literal('response'),
    id: z.number().int().positive(),
    result: z.discriminatedUnion('ok', [
      z.object({ ok: z.literal(true), value: z.unknown() }),
      z.object({ ok: z.literal(false), error: errorBodySchema }),
    ]),
  }),
  /** Progress of a request that is still open. */
  z.object({ type: z.literal('progress'), id: z.number().int().positive(), value: z.unknown() }),
  z.object({
    type: z.literal('log'),
    /** Lines dropped by the rate limit since the last frame. */
    dropped: z.number().int().nonnegative(),
    lines: z
      .array(
        z.object({
          at: z.number().int(),
          level: z.enum(['debug', 'info', 'warn', 'error']),
          source: z.string().max(128),
          message: z.string().max(2048),
        }),
      )
      .max(200),
  }),
  /**
   * This node cannot dial `peer` and asks for a connection the other way: `reverse`, dialled by the peer to us,
   * or `relay`, dialled by both to the controller. Answered by the connection itself; refused in silence.
   */
  z.object({
    type: z.literal('dial-request'),
    peer: nodeIdSchema,
    token: secretSchema,
    route: z.enum(['reverse', 'relay']),
  }),
  /** Going away on purpose: the node becomes `offline`, not `lost`. */
  z.object({ type: z.literal('goodbye'), reason: z.string().max(256) }),
]);
export type WorkerFrame = z.infer<typeof workerFrame>;

/** More would overflow a timer, which then fires at once and for ever. */
const timerMs = z
  .number()
  .int()
  .positive()
  .max(2 ** 31 - 1);

export const memberSchema = z.object({ nodeId: nodeIdSchema, name: shortText });

export const controllerFrame = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('welcome'),
    protocol: z.number().int(),
    controllerName: shortText,
    /** Of the program, for people and for the order of updates; absent: it has not said. */
    controllerVersion: z.string().max(64).optional(),
    /** The name by which the covey knows this node. */
    name: shortText,
    heartbeatMs: timerMs,
    /** Without an ack for this long the worker drops the session and dials again. */
    silenceMs: timerMs,
    /** How long loaded engines may run on without a controller. */
    leaseMs: timerMs,
    /** The controller's clock, epoch ms. */
    at: z.number().int().nonnegative(),
  }),
  /** Where the controller can be dialled now, best first; the worker keeps them for the next time. */
  z.object({ type: z.literal('controller-addresses'), addresses: z.array(addressSchema).max(16) }),
  /** The cluster secret as it is now, null: there is none. Sent when it has changed. */
  z.object({ type: z.literal('cluster-secret'), secret: clusterSecretSchema.nullable() }),
  /** Dial `from` (route `reverse`, at its addresses) or the controller (route `relay`) with this token. */
  z.object({
    type: z.literal('dial-order'),
    from: nodeIdSchema,
    fromName: shortText,
    token: secretSchema,
    route: z.enum(['reverse', 'relay']),
    addresses: z.array(addressSchema).max(16),
  }),
  /** Something that the people at this machine should know. */
  z.object({ type: z.literal('notice'), error: errorBodySchema }),
  z.object({ type: z.literal('refused'), error: errorBodySchema }),
  z.object({
    type: z.literal('ack'),
    seq: z.number().int().nonnegative(),
    /** The controller's clock, epoch ms. */
    at: z.number().int().nonnegative(),
  }),
  /**
   * Desired state, whole: engines to run. `keep` names engines that go on if they run (the controller has
   * restarted and cannot repeat their assignment yet) and are not started if they do not.
   */
  z.object({
    type: z.literal('assignments'),
    generation: z.number().int().positive(),
    engines: z.array(engineAssignmentSchema).max(256),
    keep: z.array(engineIdSchema).max(256),
  }),
  /** The other members, whole: the only keys that this worker's cluster port knows besides the controller's. */
  z.object({
    type: z.literal('members'),
    /** The name by which the covey knows this node now; absent: as in the welcome (an older controller). */
    name: shortText.optional(),
    members: z.array(memberSchema).max(4096),
  }),
  z.object({
    type: z.literal('request'),
    id: z.number().int().positive(),
    method: z.string().max(64),
    params: z.unknown(),
    deadlineMs: z.number().int().positive(),
  }),
  z.object({ type: z.literal('cancel'), id: z.number().int().positive() }),
]);
export type ControllerFrame = z.infer<typeof controllerFrame>;
