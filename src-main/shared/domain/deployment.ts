import { z } from 'zod';
import { deploymentIdSchema, engineIdSchema, nodeIdSchema } from '../lib/ids.ts';
import { errorBodySchema } from './error-body.ts';
import { enginePhaseSchema, engineProgressSchema, linkPathSchema } from './engine.ts';
import { modelInfoSchema } from './model-info.ts';

/** What a user asked for. `weights` are relative shares by node (positive); percentages are one way to write them. */
export const deploymentRequestSchema = z.object({
  /** As given: an absolute path, a library name, or `hf:...`. */
  model: z.string().min(1).max(4096),
  nodes: z.array(nodeIdSchema).min(1).max(64).nullable(),
  weights: z.record(nodeIdSchema, z.number().positive()).nullable(),
  leader: nodeIdSchema.nullable(),
  contextPerRequest: z.number().int().min(16).max(16_777_216).nullable(),
  parallel: z.number().int().min(1).max(64).nullable(),
});
export type DeploymentRequest = z.infer<typeof deploymentRequestSchema>;

/**
 * `waiting`: cannot be placed now, the reason says why. `loading`: engines start. `ready`: serves.
 * `recovering`: ready before, its leader is being waited for. `draining`: finishes what runs, takes nothing new.
 * `unloading`: engines end. `failed`: needs a person or another set of nodes. An unloaded one is gone.
 */
export const deploymentStatusSchema = z.enum([
  'waiting',
  'loading',
  'ready',
  'recovering',
  'draining',
  'unloading',
  'failed',
]);
export type DeploymentStatus = z.infer<typeof deploymentStatusSchema>;

export const stageViewSchema = z.object({
  engineId: engineIdSchema,
  nodeId: nodeIdSchema,
  nodeName: z.string(),
  role: z.enum(['leader', 'stage']),
  device: z.string(),
  /** Layers computed here, of `layersTotal` (repeating layers plus the output). */
  layers: z.number().int().nonnegative(),
  /** layers / layersTotal in percent. */
  percent: z.number(),
  estimatedBytes: z.number().nonnegative(),
  phase: enginePhaseSchema.nullable(),
  progress: engineProgressSchema.nullable(),
  rssBytes: z.number().nullable(),
  path: linkPathSchema.nullable(),
  rttMs: z.number().nullable(),
  error: errorBodySchema.nullable(),
});
export type StageView = z.infer<typeof stageViewSchema>;

/** A deployment as `/api` shows it. */
export const deploymentViewSchema = z.object({
  id: deploymentIdSchema,
  /** The name clients use in `/v1`. */
  model: z.string(),
  source: z.string(),
  info: modelInfoSchema,
  status: deploymentStatusSchema,
  /** Why it is waiting, recovering, draining or failed. */
  reason: errorBodySchema.nullable(),
  epoch: z.number().int().nonnegative(),
  contextPerRequest: z.number().int(),
  parallel: z.number().int(),
  layersTotal: z.number().int(),
  stages: z.array(stageViewSchema),
  /** Of the load that runs now. */
  progress: engineProgressSchema.nullable(),
  requestsRunning: z.number().int().nonnegative(),
  failures: z.array(z.object({ at: z.number(), error: errorBodySchema })),
  createdAt: z.number(),
  readyAt: z.number().nullable(),
  nextAttemptAt: z.number().nullable(),
});
export type DeploymentView = z.infer<typeof deploymentViewSchema>;
