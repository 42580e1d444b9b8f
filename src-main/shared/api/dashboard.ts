import { z } from 'zod';
import { deploymentIdSchema, nodeIdSchema } from '../lib/ids.ts';
import { errorBodySchema } from '../domain/error-body.ts';
import { nodeStatusSchema } from '../domain/node.ts';
import { lendStateSchema } from '../domain/lend.ts';
import { transferViewSchema } from '../domain/transfer.ts';
import { jobViewSchema } from '../domain/job.ts';

/** What dashboards need beside the lists: live figures, history, a look at a placement before it is made. */
export const nodeLiveSchema = z.object({
  id: nodeIdSchema,
  status: nodeStatusSchema,
  cpuLoad: z.number().nullable(),
  ramAvailableBytes: z.number().nullable(),
  /** Received and sent by all real adapters, bytes/s. */
  receiveBytesPerS: z.number().nullable(),
  sendBytesPerS: z.number().nullable(),
  /** Per device: free memory and, where it can be had, load 0..1 and temperature. */
  devices: z.array(
    z.object({
      id: z.string(),
      freeBytes: z.number(),
      load: z.number().nullable(),
      celsius: z.number().nullable(),
    }),
  ),
  celsius: z.number().nullable(),
  lend: lendStateSchema.nullable(),
});
export type NodeLive = z.infer<typeof nodeLiveSchema>;

export const deploymentLiveSchema = z.object({
  id: deploymentIdSchema,
  requestsRunning: z.number(),
  /** Tokens generated per second over the last 5 s. */
  tokensPerS: z.number(),
  slotsBusy: z.number().nullable(),
  slotsTotal: z.number().nullable(),
});
export type DeploymentLive = z.infer<typeof deploymentLiveSchema>;

/** How far a job is that is not finished. */
export const jobLiveSchema = jobViewSchema.pick({
  id: true,
  status: true,
  units: true,
  partitions: true,
  unitsPerS: true,
  remainingMs: true,
});
export type JobLive = z.infer<typeof jobLiveSchema>;

/**
 * Event kind `live` of `GET /api/events?live=1`: everything at first, then about once a second what has changed
 * since the last; nothing while nothing has. Not stored. What is gone (a removed machine, an unloaded model) is
 * told by its event, not here.
 */
export const liveSchema = z.object({
  at: z.number(),
  nodes: z.array(nodeLiveSchema),
  deployments: z.array(deploymentLiveSchema),
  transfers: z.array(transferViewSchema),
  jobs: z.array(jobLiveSchema),
});
export type Live = z.infer<typeof liveSchema>;

/** The last ten minutes of a node, one sample every 2 s at most, oldest first. */
export const nodeHistorySchema = z.object({
  samples: z.array(nodeLiveSchema.omit({ id: true, status: true, lend: true }).extend({ at: z.number() })),
});
export type NodeHistory = z.infer<typeof nodeHistorySchema>;

export const previewStageSchema = z.object({
  nodeId: nodeIdSchema,
  nodeName: z.string(),
  role: z.enum(['leader', 'stage']),
  /** A leader's devices are one line, with commas: the CPU holds what the others do not. */
  device: z.string(),
  layers: z.number(),
  percent: z.number(),
  neededBytes: z.number(),
  /** What a plan may use there: free memory without the part that is kept back. */
  availableBytes: z.number(),
});
export type PreviewStage = z.infer<typeof previewStageSchema>;
/**
 * What `load` with the same body would do now. Nothing is started or kept. When memory is what is missing, `stages`
 * still has the split that was tried, with more needed than available somewhere.
 */
export const previewSchema = z.object({
  ok: z.boolean(),
  layersTotal: z.number().nullable(),
  contextPerRequest: z.number().nullable(),
  parallel: z.number().nullable(),
  stages: z.array(previewStageSchema),
  /** Why not, when not ok; the same error that `load` would answer. */
  error: errorBodySchema.nullable(),
});
export type Preview = z.infer<typeof previewSchema>;

export const renameBodySchema = z.strictObject({
  name: z
    .string()
    .regex(
      /^[\p{L}\p{N}][\p{L}\p{N}._-]{0,63}$/u,
      'must be 1 to 64 letters, digits, dots, dashes or underscores',
    ),
});
