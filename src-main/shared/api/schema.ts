import { z } from 'zod';
import { deploymentIdSchema, engineIdSchema, nodeIdSchema } from '../lib/ids.ts';
import { hardwareSchema, nodeStatusSchema, telemetrySchema, unknownable } from '../domain/node.ts';
import { deploymentViewSchema } from '../domain/deployment.ts';
import { engineObservationSchema, enginePhaseSchema, engineProgressSchema } from '../domain/engine.ts';
import { errorBodySchema } from '../domain/error-body.ts';
import { libraryModelSchema } from '../protocol/requests.ts';
import { accessRoutes } from './access.ts';
import { joiningRoutes } from './joining.ts';
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
  deployments: z.array(deploymentIdSchema),
  /** Engines observed there, without their secrets. */
  engines: z.array(engineObservationSchema.omit({ endpoint: true })),
});
export type NodeView = z.infer<typeof nodeViewSchema>;

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

/** A running import or download. */
export const transferViewSchema = z.object({
  id: z.string(),
  kind: z.enum(['import', 'pull']),
  nodeId: nodeIdSchema,
  source: z.string(),
  status: z.enum(['running', 'done', 'failed', 'cancelled']),
  doneBytes: z.number(),
  totalBytes: z.number().nullable(),
  bytesPerS: z.number().nullable(),
  model: z.string().nullable(),
  error: errorBodySchema.nullable(),
});
export type TransferView = z.infer<typeof transferViewSchema>;

/**
 * Server-sent events of `GET /api/events`. `id` is a sequence number for `Last-Event-ID`; null for progress,
 * which is live only: it is not stored and not repeated after a reconnect.
 */
export const apiEventSchema = z.object({
  id: z.number().int().positive().nullable(),
  at: z.number(),
  kind: z.string().max(64),
  level: z.enum(['info', 'warn', 'error']),
  message: z.string(),
  nodeId: nodeIdSchema.optional(),
  deploymentId: deploymentIdSchema.optional(),
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
});
export type ApiEvent = z.infer<typeof apiEventSchema>;

export const logLineSchema = z.object({
  at: z.number(),
  nodeId: nodeIdSchema,
  nodeName: z.string(),
  level: z.enum(['debug', 'info', 'warn', 'error']),
  source: z.string(),
  message: z.string(),
});
export type LogLine = z.infer<typeof logLineSchema>;

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
  resume: { method: 'POST', path: '/api/nodes/:node/resume', access: 'admin', response: nodeViewSchema },
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
  unload: { method: 'DELETE', path: '/api/deployments/:id', access: 'admin', response: deploymentViewSchema },
  retry: {
    method: 'POST',
    path: '/api/deployments/:id/retry',
    access: 'admin',
    response: deploymentViewSchema,
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
export const apiRoutes = { ...coreRoutes, ...joiningRoutes, ...accessRoutes, ...selfRoutes } as const;
export type ApiRoute = keyof typeof apiRoutes;
