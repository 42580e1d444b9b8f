import { z } from 'zod';
import { artifactNameSchema, artifactViewSchema } from '../domain/artifact.ts';
import { distributionSchema, jobSpecSchema } from '../domain/job-spec.ts';
import {
  jobStatusSchema,
  jobSummarySchema,
  jobViewSchema,
  partitionStatusSchema,
  partitionViewSchema,
  taskOutcomeSchema,
  taskViewSchema,
} from '../domain/job.ts';
import { artifactIdSchema, jobIdSchema, taskIdSchema } from '../lib/ids.ts';
import { oneOf } from './query.ts';

/**
 * `job` in a path: an id, or a name that only one unfinished job has. The list is newest first; `status` and `kind`
 * may name several (`status=queued,running`), `text` is looked for in names, without regard to case, and at the
 * beginning of ids.
 */
export const jobListQuerySchema = z.strictObject({
  status: oneOf.pipe(z.array(jobStatusSchema)).optional(),
  kind: oneOf.pipe(z.array(jobViewSchema.shape.kind)).optional(),
  text: z.string().min(1).max(128).optional(),
  /** Those created before this job: the next page, whatever has come since. */
  before: jobIdSchema.optional(),
  /** So many of them are left out: a page of a list that is scrolled. */
  from: z.coerce.number().int().nonnegative().default(0),
  limit: z.coerce.number().int().min(1).max(1_000).default(100),
});
export const partitionListQuerySchema = z.strictObject({
  status: partitionStatusSchema.optional(),
  /** From this index on. */
  from: z.coerce.number().int().nonnegative().default(0),
  limit: z.coerce.number().int().min(1).max(1_000).default(200),
});
export const taskListQuerySchema = z.strictObject({
  job: jobIdSchema.optional(),
  node: z.string().max(256).optional(),
  index: z.coerce.number().int().nonnegative().optional(),
  outcome: taskOutcomeSchema.optional(),
  limit: z.coerce.number().int().min(1).max(1_000).default(200),
});
export const jobLogQuerySchema = z.strictObject({
  index: z.coerce.number().int().nonnegative().default(0),
  /** Default: the newest attempt. */
  attempt: z.coerce.number().int().positive().optional(),
});

export const jobLogSchema = z.object({
  taskId: taskIdSchema,
  /** The end of what it printed, at most 64 KiB. */
  output: z.string(),
  /** There was more before. */
  truncated: z.boolean(),
  running: z.boolean(),
});
export type JobLog = z.infer<typeof jobLogSchema>;

export const jobStatsSchema = z.object({
  jobId: jobIdSchema,
  wallMs: z.number(),
  cpuMs: z.number().nullable(),
  tasks: z.record(z.string(), z.number()),
  /** Of partitions that are done. */
  partitionMs: z.object({ p50: z.number(), p90: z.number(), p99: z.number(), max: z.number() }).nullable(),
  stagedBytes: z.number(),
  peakBytes: z.number().nullable(),
});
export type JobStats = z.infer<typeof jobStatsSchema>;

/**
 * An upload: `POST /api/artifacts/uploads` says what is coming; the answer names the chunks that are needed;
 * each is put (`PUT /api/artifacts/uploads/:id/chunks/:sha256`, its bytes as the body); `POST .../finish` verifies
 * and makes the artifact. An upload that was broken off goes on by asking again with the same content.
 */
export const uploadFileSchema = z.strictObject({
  path: z.string().min(1).max(1024),
  executable: z.boolean().default(false),
  bytes: z
    .number()
    .int()
    .nonnegative()
    .max(2 ** 46),
  sha256: artifactIdSchema,
  /** SHA-256 of each 4 MiB chunk, in order. */
  chunks: z.array(artifactIdSchema).max(1_000_000),
});
export const uploadBodySchema = z.strictObject({
  kind: z.enum(['file', 'tree']),
  name: artifactNameSchema,
  files: z.array(uploadFileSchema).max(100_000),
  directories: z.array(z.string().min(1).max(1024)).max(100_000).default([]),
});
export const uploadViewSchema = z.object({
  id: z.string(),
  /** Chunks that are not here yet, each once. */
  needed: z.array(artifactIdSchema),
  expiresAt: z.number(),
});

/**
 * Of artifacts: `text` is looked for in titles (`artifactTitle`), without regard to case, and at the beginning of ids.
 * `partial=0` leaves out what is no one's: partial results of jobs, and what goes with one of the next collections.
 */
export const artifactListQuerySchema = z.strictObject({
  text: z.string().min(1).max(256).optional(),
  sort: z.enum(['name', 'size', 'files', 'holders', 'jobs', 'used']).default('used'),
  descending: z.enum(['0', '1']).default('1'),
  partial: z.enum(['0', '1']).default('1'),
  from: z.coerce.number().int().nonnegative().default(0),
  /** Default: all. */
  limit: z.coerce.number().int().min(1).max(1_000).optional(),
});
export const artifactListSchema = z.object({
  artifacts: z.array(artifactViewSchema),
  /** How many `text` lets through, with those on other pages. */
  total: z.number().int(),
  /** Those that `partial=0` has left out; absent: none. */
  leftOut: z.object({ count: z.number().int(), bytes: z.number() }).optional(),
  usedBytes: z.number(),
  quotaBytes: z.number(),
  /** Of all: what nothing needs and a collection now would take, and what one could later, from `nextAt` on. */
  unneeded: z.object({
    due: z.number().int(),
    dueBytes: z.number(),
    later: z.number().int(),
    laterBytes: z.number(),
    nextAt: z.number().nullable(),
  }),
});

export const gcResultSchema = z.object({ removed: z.number().int(), freedBytes: z.number() });

const admin = { access: 'admin' } as const;
export const jobRoutes = {
  submitJob: { method: 'POST', path: '/api/jobs', ...admin, body: jobSpecSchema, response: jobViewSchema },
  jobs: {
    method: 'GET',
    path: '/api/jobs',
    ...admin,
    query: jobListQuerySchema,
    /** `total`: how many the filters let through, with those on other pages. `more`: there are older ones. */
    response: z.object({ jobs: z.array(jobSummarySchema), total: z.number().int(), more: z.boolean() }),
  },
  jobSchema: { method: 'GET', path: '/api/jobs/schema', ...admin, response: z.json() },
  job: { method: 'GET', path: '/api/jobs/:job', ...admin, response: jobViewSchema },
  jobSpec: { method: 'GET', path: '/api/jobs/:job/spec', ...admin, response: z.json() },
  jobStats: { method: 'GET', path: '/api/jobs/:job/stats', ...admin, response: jobStatsSchema },
  jobPartitions: {
    method: 'GET',
    path: '/api/jobs/:job/partitions',
    ...admin,
    query: partitionListQuerySchema,
    response: z.object({ partitions: z.array(partitionViewSchema), total: z.number().int() }),
  },
  jobLog: {
    method: 'GET',
    path: '/api/jobs/:job/log',
    ...admin,
    query: jobLogQuerySchema,
    response: jobLogSchema,
  },
  cancelJob: { method: 'POST', path: '/api/jobs/:job/cancel', ...admin, response: jobViewSchema },
  /** Failed partitions are tried again, with their attempts counted anew. */
  retryJob: { method: 'POST', path: '/api/jobs/:job/retry', ...admin, response: jobViewSchema },
  /** A finished job's record and results. */
  removeJob: { method: 'DELETE', path: '/api/jobs/:job', ...admin, response: z.object({}) },
  setDistribution: {
    method: 'PUT',
    path: '/api/jobs/:job/distribution',
    ...admin,
    body: distributionSchema,
    response: jobViewSchema,
  },
  tasks: {
    method: 'GET',
    path: '/api/tasks',
    ...admin,
    query: taskListQuerySchema,
    response: z.object({ tasks: z.array(taskViewSchema) }),
  },
  artifacts: {
    method: 'GET',
    path: '/api/artifacts',
    ...admin,
    query: artifactListQuerySchema,
    response: artifactListSchema,
  },
  artifact: { method: 'GET', path: '/api/artifacts/:artifact', ...admin, response: artifactViewSchema },
  startUpload: {
    method: 'POST',
    path: '/api/artifacts/uploads',
    ...admin,
    body: uploadBodySchema,
    response: uploadViewSchema,
  },
  finishUpload: {
    method: 'POST',
    path: '/api/artifacts/uploads/:id/finish',
    ...admin,
    response: artifactViewSchema,
  },
  /** Unpins it; it goes with the next collection when no job needs it. */
  removeArtifact: { method: 'DELETE', path: '/api/artifacts/:artifact', ...admin, response: z.object({}) },
  collectArtifacts: { method: 'POST', path: '/api/artifacts/gc', ...admin, response: gcResultSchema },
} as const;
