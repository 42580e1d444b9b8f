import { z } from 'zod';
import { artifactIdSchema, jobIdSchema, nodeIdSchema, taskIdSchema } from '../lib/ids.ts';
import { artifactStakeSchema } from './artifact.ts';
import { errorBodySchema } from './error-body.ts';
import { rangeSchema, taskUsageSchema } from './task.ts';

/**
 * `preparing`: its dataset is being read. `queued`: nothing of it has started. `cancelling`: told to end.
 * `done`: every partition has its result. `failed`: finished with partitions that failed for good, or could not be.
 */
export const jobStatusSchema = z.enum([
  'preparing',
  'queued',
  'running',
  'cancelling',
  'done',
  'failed',
  'cancelled',
]);
export type JobStatus = z.infer<typeof jobStatusSchema>;

export const partitionStatusSchema = z.enum([
  'waiting',
  'assigned',
  'running',
  'done',
  'failed',
  'cancelled',
]);
export type PartitionStatus = z.infer<typeof partitionStatusSchema>;

export const taskOutcomeSchema = z.enum([
  'running',
  'done',
  'failed',
  'crashed',
  'lost',
  'refused',
  'cancelled',
  /** Another copy of the same partition was first. */
  'superseded',
]);

export const taskViewSchema = z.object({
  id: taskIdSchema,
  jobId: jobIdSchema,
  jobName: z.string(),
  index: z.number().int(),
  attempt: z.number().int(),
  nodeId: nodeIdSchema,
  nodeName: z.string(),
  outcome: taskOutcomeSchema,
  /** A second copy of a slow partition. */
  speculative: z.boolean(),
  assignedAt: z.number(),
  startedAt: z.number().nullable(),
  endedAt: z.number().nullable(),
  error: errorBodySchema.nullable(),
  exitCode: z.number().int().nullable(),
  usage: taskUsageSchema.nullable(),
});
export type TaskView = z.infer<typeof taskViewSchema>;

export const partitionViewSchema = z.object({
  index: z.number().int().nonnegative(),
  /** null: the job cannot be divided, or counts its partitions. */
  range: rangeSchema.nullable(),
  status: partitionStatusSchema,
  /** 0..1 */
  progress: z.number().min(0).max(1),
  attempts: z.number().int().nonnegative(),
  nodeId: nodeIdSchema.nullable(),
  nodeName: z.string().nullable(),
  startedAt: z.number().nullable(),
  finishedAt: z.number().nullable(),
  error: errorBodySchema.nullable(),
  /** When a failed one is tried again. */
  nextAttemptAt: z.number().nullable(),
});
export type PartitionView = z.infer<typeof partitionViewSchema>;

/** What one machine does for a job. */
export const shareViewSchema = z.object({
  nodeId: nodeIdSchema,
  nodeName: z.string(),
  /** What it is meant to do of the whole, percent: set by hand, or by its measured speed; null: not known yet. */
  targetPercent: z.number().nullable(),
  /** What it has done of the whole, percent. */
  donePercent: z.number(),
  doneUnits: z.number(),
  running: z.number().int(),
  unitsPerS: z.number().nullable(),
  /** Why it gets nothing of this job, a sentence without its subject; null: it does. */
  whyNot: z.string().nullable(),
});
export type ShareView = z.infer<typeof shareViewSchema>;

export const jobResultSchema = z.object({
  /** Kernels: the combined value. Integers above 2^53 are strings. */
  value: z.json().nullable(),
  /** In the order of partitions, named `<output>` or `<index>/<output>`. */
  artifacts: z.array(artifactStakeSchema.extend({ name: z.string() })),
  /** Partitions that have no result: it is incomplete. */
  missing: z.number().int().nonnegative(),
  /** inference: records that have an error in place of an answer; absent: none. */
  refused: z.number().int().positive().optional(),
});
export type JobResult = z.infer<typeof jobResultSchema>;

export const jobViewSchema = z.object({
  id: jobIdSchema,
  name: z.string(),
  kind: z.enum(['kernel', 'command', 'map', 'inference', 'gang']),
  status: jobStatusSchema,
  createdAt: z.number(),
  startedAt: z.number().nullable(),
  finishedAt: z.number().nullable(),
  /** `total` null: still being read. */
  units: z.object({
    unit: z.enum(['elements', 'records', 'items', 'ranks']),
    total: z.number().nullable(),
    done: z.number(),
  }),
  partitions: z.object({
    /** Those that exist; with `auto` more come as they are cut off. */
    total: z.number().int(),
    waiting: z.number().int(),
    running: z.number().int(),
    done: z.number().int(),
    failed: z.number().int(),
    /** They will not get a result: the job has ended. Not begun, ended with it, or the other ranks of a gang. */
    cancelled: z.number().int(),
  }),
  distribution: z.enum(['auto', 'manual']),
  shares: z.array(shareViewSchema),
  /** Things to know: that it cannot be divided, why it waits. */
  notes: z.array(z.string()),
  /** The first failure that counts. */
  error: errorBodySchema.nullable(),
  /** Once finished. */
  result: jobResultSchema.nullable(),
  unitsPerS: z.number().nullable(),
  /** Estimated; null: not running or not known. */
  remainingMs: z.number().nullable(),
});
export type JobView = z.infer<typeof jobViewSchema>;

/** A job in a list: without what grows with machines, partitions and results. */
export const jobSummarySchema = jobViewSchema.omit({ shares: true, notes: true, result: true });
export type JobSummary = z.infer<typeof jobSummarySchema>;
export const jobArtifactIdSchema = artifactIdSchema;
