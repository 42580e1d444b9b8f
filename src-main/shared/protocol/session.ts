import { z } from 'zod';
import {
  artifactIdSchema,
  bootIdSchema,
  engineIdSchema,
  jobIdSchema,
  nodeIdSchema,
  taskIdSchema,
} from '../lib/ids.ts';
import { addressSchema, hardwareSchema, shortText, telemetrySchema } from '../domain/node.ts';
import { engineAssignmentSchema, engineObservationSchema, secretSchema } from '../domain/engine.ts';
import { artifactStakeSchema } from '../domain/artifact.ts';
import {
  computeFactsSchema,
  gangGoSchema,
  taskAssignmentSchema,
  taskObservationSchema,
  taskReportSchema,
  workSchema,
} from '../domain/task.ts';
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
  /** Every task that it has and that is not settled; absent: it runs none, ever (an older version). */
  tasks: z.array(taskObservationSchema).max(65_536).optional(),
  /** What it can compute; absent as for `tasks`. */
  compute: computeFactsSchema.optional(),
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
  /** What became of tasks, in order; ends are repeated until they are settled. At most 4 frames of progress a second. */
  z.object({ type: z.literal('tasks'), reports: z.array(taskReportSchema).max(1024) }),
  /** Sent when it has changed since hello. */
  z.object({ type: z.literal('compute'), compute: computeFactsSchema }),
  /** Needs this artifact for a task and has no source (left): answered by `artifact-sources`. */
  z.object({ type: z.literal('artifact-wanted'), artifact: artifactIdSchema }),
  /** Whole artifacts in its store. `whole`: `added` is all of them (first frame of a session). */
  z.object({
    type: z.literal('artifacts-held'),
    whole: z.boolean(),
    added: z.array(artifactIdSchema).max(4096),
    removed: z.array(artifactIdSchema).max(4096),
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
  /**
   * Work, as a difference; what both have is compared in hello. `works` has the work of every job in `start`.
   * `cancel`: end these, whole trees; answered by a report with outcome `cancelled` (or its end, if that came
   * first). `settled`: these ends are recorded, forget them.
   */
  z.object({
    type: z.literal('tasks'),
    works: z.array(z.object({ jobId: jobIdSchema, work: workSchema })).max(64),
    start: z.array(taskAssignmentSchema).max(1024),
    go: z.array(gangGoSchema).max(1024),
    cancel: z.array(taskIdSchema).max(1024),
    settled: z.array(taskIdSchema).max(1024),
  }),
  /** Where an artifact can be had, best first, each with the right to it; empty: nowhere now. */
  z.object({
    type: z.literal('artifact-sources'),
    artifact: artifactStakeSchema,
    sources: z
      .array(
        z.object({
          nodeId: nodeIdSchema,
          name: shortText,
          addresses: z.array(addressSchema).max(16),
          grant: secretSchema,
        }),
      )
      .max(16),
  }),
  /** `peer` may read this artifact here with this right, for so long. */
  z.object({
    type: z.literal('artifact-grant'),
    artifact: artifactIdSchema,
    peer: nodeIdSchema,
    grant: secretSchema,
    ttlMs: timerMs,
  }),
  /** No job needs these any more and they may go when space is wanted. */
  z.object({ type: z.literal('artifacts-free'), artifacts: z.array(artifactIdSchema).max(4096) }),
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
