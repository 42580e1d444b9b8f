import { z } from 'zod';
import { deploymentIdSchema, engineIdSchema, jobIdSchema, nodeIdSchema } from '../lib/ids.ts';
import { hardwareSchema, nodeStatusSchema, telemetrySchema, unknownable } from '../domain/node.ts';
import { deploymentViewSchema } from '../domain/deployment.ts';
import { engineObservationSchema, enginePhaseSchema, engineProgressSchema } from '../domain/engine.ts';
import { errorBodySchema } from '../domain/error-body.ts';
import { lendStateSchema } from '../domain/lend.ts';
import { computeFactsSchema } from '../domain/task.ts';
import { transferViewSchema } from '../domain/transfer.ts';
import { libraryModelSchema } from '../protocol/requests.ts';
import { accessRoutes } from './access.ts';
import { liveSchema, nodeHistorySchema, previewSchema, renameBodySchema } from './dashboard.ts';
import { jobRoutes } from './jobs.ts';
import { joiningRoutes } from './joining.ts';
import { oneOf } from './query.ts';
import { selfRoutes } from './self.ts';

/**
 * The HTTP contract of `/api`. Bodies are JSON; errors are `{"error": ErrorBody}`. The CLI, the dashboard and
 * scripts use these schemas and nothing else. Node references in requests are a node id, a prefix of one of at
 * least 6 digits, or a name that is unique.
 */
/** Shown in lists and terminals: no control or invisible characters. */
const modelNameSchema = z
  .string()
  .min(1)
  .max(256)
  .regex(/^[^\p{C}]+$/u, 'must not contain control characters');

export { transferViewSchema, type TransferView } from '../domain/transfer.ts';

export const nodeRef = z.string().min(1).max(256);

export const nodeViewSchema = z.object({
  id: nodeIdSchema,
  name: z.string(),
  status: nodeStatusSchema,
  /** May get new work now; when not, the reasons. */
  eligible: z.boolean(),
  ineligibleReasons: z.array(z.string()),
  connected: z.boolean(),
  lastSeenAt: z.number().nullable(),
  joinedAt: z.number(),
  version: z.string().nullable(),
  engineBuildId: z.string().nullable(),
  address: z.string().nullable(),
  hardware: hardwareSchema.nullable(),
  telemetry: telemetrySchema.nullable(),
  drain: z
    .object({ startedAt: z.number(), deadlineAt: z.number(), completedAt: z.number().nullable() })
    .nullable(),
  /** Since when it is paused by a person at the controller; null: it is not. */
  pausedAt: z.number().nullable(),
  /** Whether its owner's rules lend it now, as it last said; null: it is not connected or says nothing of it. */
  lend: lendStateSchema.nullable(),
  /** What it computes for jobs; null: it is not connected or has not said. */
  compute: computeFactsSchema.nullable(),
  deployments: z.array(deploymentIdSchema),
  /** Engines observed there, without their secrets. */
  engines: z.array(engineObservationSchema.omit({ endpoint: true })),
});
export type NodeView = z.infer<typeof nodeViewSchema>;

export const pingViewSchema = z.object({ nodeId: nodeIdSchema, nodeName: z.string(), rttMs: z.number() });
export type PingView = z.infer<typeof pingViewSchema>;

export const statusViewSchema = z.object({
  version: z.string(),
  protocol: z.number(),
  nodeId: nodeIdSchema,
  name: z.string(),
  startedAt: z.number(),
  engineBuildId: unknownable(z.string()),
  apiAddress: z.string(),
  clusterAddress: z.string().nullable(),
  nodes: z.object({ total: z.number(), ready: z.number() }),
  deployments: z.object({ total: z.number(), ready: z.number() }),
  requestsRunning: z.number(),
});
export type StatusView = z.infer<typeof statusViewSchema>;

/** `POST /api/deployments`. Shares: `split` by node reference; percentages or any positive weights. */
export const loadBodySchema = z.strictObject({
  model: z.string().min(1).max(4096),
  nodes: z.array(nodeRef).min(1).max(64).optional(),
  split: z.record(nodeRef, z.number()).optional(),
  leader: nodeRef.optional(),
  contextPerRequest: z.number().int().min(16).max(16_777_216).optional(),
  parallel: z.number().int().min(1).max(64).optional(),
  /** The name for `/v1`; default: the model's own. */
  name: modelNameSchema.optional(),
});
export type LoadBody = z.infer<typeof loadBodySchema>;

export const importBodySchema = z.strictObject({
  node: nodeRef,
  path: z.string().min(1).max(4096),
  name: modelNameSchema.optional(),
});
export const pullBodySchema = z.strictObject({
  node: nodeRef.optional(),
  source: z.string().min(4).max(1024),
});
export const drainBodySchema = z.strictObject({
  deadlineMs: z.number().int().min(0).max(86_400_000).optional(),
});

export const modelViewSchema = libraryModelSchema.extend({ nodeId: nodeIdSchema, nodeName: z.string() });
export type ModelView = z.infer<typeof modelViewSchema>;

export const logLineSchema = z.object({
  at: z.number(),
  nodeId: nodeIdSchema,
  nodeName: z.string(),
  level: z.enum(['debug', 'info', 'warn', 'error']),
  source: z.string(),
  message: z.string(),
});
export type LogLine = z.infer<typeof logLineSchema>;

/**
 * Server-sent events of `GET /api/events`. `id` is a sequence number for `Last-Event-ID`; null for progress and
 * live figures, which are not stored and not repeated after a reconnect. `?live=1` asks for the latter: the first
 * has everything, those after it only what has changed. `?logs=1` asks for log lines in place of events.
 */
export const apiEventSchema = z.object({
  id: z.number().int().positive().nullable(),
  at: z.number(),
  kind: z.string().max(64),
  level: z.enum(['info', 'warn', 'error']),
  message: z.string(),
  nodeId: nodeIdSchema.optional(),
  deploymentId: deploymentIdSchema.optional(),
  jobId: jobIdSchema.optional(),
  /** Kind `load-progress` only: how far each engine of the deployment is. */
  stages: z
    .array(
      z.object({
        engineId: engineIdSchema,
        nodeName: z.string(),
        phase: enginePhaseSchema.nullable(),
        progress: engineProgressSchema.nullable(),
      }),
    )
    .optional(),
  /** Kind `live` only. */
  live: liveSchema.optional(),
  /** Kind `logs` only: those that are kept come first, in parts, then what is added. */
  lines: z.array(logLineSchema).optional(),
});
export type ApiEvent = z.infer<typeof apiEventSchema>;

export const EVENTS_PER_PAGE = 1_000;

/**
 * The query of `GET /api/events/history`: stored events, newest first, 100,000 are kept. Every filter narrows.
 * `before` is the `id` of the oldest event that the caller has. `job` is an id, also of one that is gone, or a name. `level` and `kind` may name several
 * (`level=warn,error`). `text` is looked for in the message, without regard to the case of ASCII letters.
 */
export const eventHistoryQuerySchema = z.strictObject({
  before: z.coerce.number().int().min(1).max(Number.MAX_SAFE_INTEGER).optional(),
  limit: z.coerce.number().int().min(1).max(EVENTS_PER_PAGE).default(200),
  node: nodeRef.optional(),
  deployment: deploymentIdSchema.optional(),
  job: z.string().min(1).max(256).optional(),
  level: oneOf.pipe(z.array(z.enum(['info', 'warn', 'error']))).optional(),
  kind: oneOf.pipe(z.array(z.string().min(1).max(64)).max(32)).optional(),
  text: z.string().min(1).max(256).optional(),
});
export type EventHistoryQuery = z.infer<typeof eventHistoryQuerySchema>;
export const eventHistorySchema = z.object({
  events: z.array(apiEventSchema),
  /** There are older ones that the filters let through. */
  more: z.boolean(),
});
export type EventHistory = z.infer<typeof eventHistorySchema>;

export const errorResponseSchema = z.object({ error: errorBodySchema });

/** What the controller knows and does. `:x` is one path segment. */
export const coreRoutes = {
  status: { method: 'GET', path: '/api/status', access: 'admin', response: statusViewSchema },
  nodes: {
    method: 'GET',
    path: '/api/nodes',
    access: 'admin',
    response: z.object({ nodes: z.array(nodeViewSchema) }),
  },
  node: { method: 'GET', path: '/api/nodes/:node', access: 'admin', response: nodeViewSchema },
  drain: {
    method: 'POST',
    path: '/api/nodes/:node/drain',
    access: 'admin',
    body: drainBodySchema,
    response: nodeViewSchema,
  },
  /** Ends a drain and a pause. */
  resume: { method: 'POST', path: '/api/nodes/:node/resume', access: 'admin', response: nodeViewSchema },
  /** From now on no new work; what runs there goes on. */
  pause: { method: 'POST', path: '/api/nodes/:node/pause', access: 'admin', response: nodeViewSchema },
  renameNode: {
    method: 'PATCH',
    path: '/api/nodes/:node',
    access: 'admin',
    body: renameBodySchema,
    response: nodeViewSchema,
  },
  nodeHistory: {
    method: 'GET',
    path: '/api/nodes/:node/history',
    access: 'admin',
    response: nodeHistorySchema,
  },
  /** Asks the machine and waits for its answer, over the session. */
  pingNode: {
    method: 'POST',
    path: '/api/nodes/:node/ping',
    access: 'admin',
    response: pingViewSchema,
  },
  removeNode: { method: 'DELETE', path: '/api/nodes/:node', access: 'admin', response: z.object({}) },
  models: {
    method: 'GET',
    path: '/api/models',
    access: 'admin',
    response: z.object({ models: z.array(modelViewSchema) }),
  },
  importModel: {
    method: 'POST',
    path: '/api/models/import',
    access: 'admin',
    body: importBodySchema,
    response: transferViewSchema,
  },
  pullModel: {
    method: 'POST',
    path: '/api/models/pull',
    access: 'admin',
    body: pullBodySchema,
    response: transferViewSchema,
  },
  /** From the library of one machine, with its files. `:name` is escaped as a path segment. */
  removeModel: {
    method: 'DELETE',
    path: '/api/nodes/:node/models/:name',
    access: 'admin',
    response: z.object({}),
  },
  /** Running ones and the last that ended, newest first. */
  transfers: {
    method: 'GET',
    path: '/api/transfers',
    access: 'admin',
    response: z.object({ transfers: z.array(transferViewSchema) }),
  },
  transfer: { method: 'GET', path: '/api/transfers/:id', access: 'admin', response: transferViewSchema },
  cancelTransfer: {
    method: 'DELETE',
    path: '/api/transfers/:id',
    access: 'admin',
    response: transferViewSchema,
  },
  deployments: {
    method: 'GET',
    path: '/api/deployments',
    access: 'admin',
    response: z.object({ deployments: z.array(deploymentViewSchema) }),
  },
  deployment: {
    method: 'GET',
    path: '/api/deployments/:id',
    access: 'admin',
    response: deploymentViewSchema,
  },
  load: {
    method: 'POST',
    path: '/api/deployments',
    access: 'admin',
    body: loadBodySchema,
    response: deploymentViewSchema,
  },
  /** What `load` would do with this body. Always 200 for a body of the right shape: a refusal is in `error`. */
  previewLoad: {
    method: 'POST',
    path: '/api/deployments/preview',
    access: 'admin',
    body: loadBodySchema,
    response: previewSchema,
  },
  unload: { method: 'DELETE', path: '/api/deployments/:id', access: 'admin', response: deploymentViewSchema },
  retry: {
    method: 'POST',
    path: '/api/deployments/:id/retry',
    access: 'admin',
    response: deploymentViewSchema,
  },
  /** See eventHistoryQuerySchema for the query. */
  eventHistory: {
    method: 'GET',
    path: '/api/events/history',
    access: 'admin',
    response: eventHistorySchema,
  },
  /** Server-sent events, see apiEventSchema. */
  events: { method: 'GET', path: '/api/events', access: 'admin', response: z.never() },
  logs: {
    method: 'GET',
    path: '/api/logs',
    access: 'admin',
    response: z.object({ lines: z.array(logLineSchema) }),
  },
} as const;

/** Method, path, who may call it, and the schemas of body and answer. */
export const apiRoutes = {
  ...coreRoutes,
  ...jobRoutes,
  ...joiningRoutes,
  ...accessRoutes,
  ...selfRoutes,
} as const;
export type ApiRoute = keyof typeof apiRoutes;
