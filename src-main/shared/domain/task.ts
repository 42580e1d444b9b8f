import { z } from 'zod';
import { artifactIdSchema, jobIdSchema, nodeIdSchema, taskIdSchema } from '../lib/ids.ts';
import { artifactNameSchema, artifactStakeSchema, treePathSchema } from './artifact.ts';
import { errorBodySchema } from './error-body.ts';
import { limitsSchema } from './job-spec.ts';
import { kernelCallSchema, kernelNameSchema } from './kernel-call.ts';

/** A partition's share of the input, [from, to) in the job's unit (elements, records or items). */
export const rangeSchema = z.object({
  from: z.number().int().nonnegative(),
  to: z.number().int().nonnegative(),
});
export type Range = z.infer<typeof rangeSchema>;

/** Where record `record` of a dataset begins: the nearest known place at or before a partition's first one. */
export const seekSchema = z.object({
  record: z.number().int().nonnegative(),
  byte: z.number().int().nonnegative(),
});
export type Seek = z.infer<typeof seekSchema>;

const variableName = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/);

const programSchema = z.object({
  command: z.array(z.string()).max(1024).nullable(),
  script: z.string().nullable(),
  interpreter: z.array(z.string()).max(16),
  env: z.record(variableName, z.string()),
  /** Names of files too. */
  secrets: z.record(variableName, z.string()),
  inputs: z.array(z.object({ artifact: artifactStakeSchema, path: treePathSchema })).max(64),
  limits: limitsSchema,
  network: z.enum(['none', 'lan']),
  /** Processors that its attempts may use. */
  cpus: z.number().positive(),
});
export type Program = z.infer<typeof programSchema>;

const datasetWorkSchema = z.object({
  artifact: artifactStakeSchema,
  format: z.enum(['csv', 'jsonl', 'text', 'binary']),
  recordBytes: z.number().int().positive().nullable(),
  header: z.boolean(),
});
export type DatasetWork = z.infer<typeof datasetWorkSchema>;
const outputsSchema = z.array(z.object({ path: treePathSchema, optional: z.boolean() })).max(64);

/** What all tasks of a job have in common, resolved; sent once in each frame that starts some of them. */
export const workSchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('kernel'),
    call: kernelCallSchema,
    input: artifactStakeSchema,
    second: artifactStakeSchema.nullable(),
  }),
  z.object({ kind: z.literal('command'), program: programSchema, outputs: outputsSchema }),
  z.object({
    kind: z.literal('map'),
    program: programSchema,
    dataset: datasetWorkSchema,
    per: z.enum(['chunk', 'record']),
  }),
  z.object({
    kind: z.literal('inference'),
    model: z.string(),
    task: z.enum(['chat', 'completion', 'embedding']),
    dataset: datasetWorkSchema,
    prompt: z.string().nullable(),
    system: z.string().nullable(),
    parameters: z.record(z.string(), z.json()),
    concurrency: z.number().int().positive(),
  }),
  z.object({
    kind: z.literal('gang'),
    program: programSchema,
    outputs: outputsSchema,
    ports: z.number().int(),
  }),
  /** Reads a dataset once: how many records, and where some of them begin (at most 4,096 places, in order). */
  z.object({ kind: z.literal('index'), dataset: datasetWorkSchema }),
]);
export type Work = z.infer<typeof workSchema>;

export const taskAssignmentSchema = z.object({
  taskId: taskIdSchema,
  jobId: jobIdSchema,
  /** The partition. */
  index: z.number().int().nonnegative(),
  /** How many partitions there are, where that is fixed; null: it is not. */
  count: z.number().int().positive().nullable(),
  attempt: z.number().int().positive(),
  /** Fences: the controller takes a report only with the epoch of the newest assignment of this partition. */
  epoch: z.number().int().positive(),
  range: rangeSchema.nullable(),
  seek: seekSchema.nullable(),
  timeoutMs: z.number().int().positive(),
  /** How long it may run on without word from the controller. */
  leaseMs: z.number().int().positive(),
  gang: z
    .object({
      rank: z.number().int().nonnegative(),
      worldSize: z.number().int().positive(),
      /** The start of the gang: all its ranks have the same. */
      start: z.number().int().positive(),
    })
    .nullable(),
});
export type TaskAssignment = z.infer<typeof taskAssignmentSchema>;

/** A gang's ranks wait, staged and with their ports reserved, until all are there; then each gets this. */
export const gangGoSchema = z.object({
  taskId: taskIdSchema,
  ranks: z
    .array(
      z.object({
        rank: z.number().int().nonnegative(),
        nodeId: nodeIdSchema,
        host: z.string().max(256),
        ports: z.array(z.number().int().min(1).max(65_535)).max(16),
      }),
    )
    .max(1024),
});
export type GangGo = z.infer<typeof gangGoSchema>;

/** Integers above 2^53 are strings; see kernel-results.ts for how partial results combine. */
export const taskResultSchema = z.object({
  /** Small results: a kernel's partial result, an index. At most 64 KiB of JSON. */
  value: z.json().nullable(),
  /** What it made; their bytes are on this node until the controller has fetched them. */
  artifacts: z.array(artifactStakeSchema.extend({ name: artifactNameSchema })).max(64),
});
export type TaskResult = z.infer<typeof taskResultSchema>;

export const taskUsageSchema = z.object({
  wallMs: z.number().nonnegative(),
  cpuMs: z.number().nonnegative().nullable(),
  peakBytes: z.number().nonnegative().nullable(),
  /** Time for fetching inputs, part of wallMs. */
  stagingMs: z.number().nonnegative(),
});
export type TaskUsage = z.infer<typeof taskUsageSchema>;

/** The end of what a program printed, control characters kept: whoever shows it makes it safe. */
const outputTail = z.string().max(65_536);

export const taskReportSchema = z.discriminatedUnion('type', [
  /** Taken in and waiting for its turn; sent once for all that came in one frame only if it cannot start at once. */
  z.object({
    type: z.literal('staging'),
    taskId: taskIdSchema,
    epoch: z.number().int().positive(),
  }),
  z.object({
    type: z.literal('started'),
    taskId: taskIdSchema,
    epoch: z.number().int().positive(),
    /** gang: where this rank can be reached, ports reserved; it waits for `go`. */
    host: z.string().max(256).optional(),
    ports: z.array(z.number().int()).max(16).optional(),
  }),
  z.object({
    type: z.literal('progress'),
    taskId: taskIdSchema,
    epoch: z.number().int().positive(),
    /** 0..1 of the partition. */
    fraction: z.number().min(0).max(1),
  }),
  z.object({
    type: z.literal('done'),
    taskId: taskIdSchema,
    epoch: z.number().int().positive(),
    result: taskResultSchema,
    usage: taskUsageSchema,
    output: outputTail,
  }),
  z.object({
    type: z.literal('failed'),
    taskId: taskIdSchema,
    epoch: z.number().int().positive(),
    /**
     * `failed`: the work itself said no (exit code, bad input). `crashed`: its process died (signal, memory).
     * `lost`: nothing to do with the work: this node gives way, shuts down, could not fetch its input.
     * `refused`: this node will not run it, ever. `cancelled`: as told.
     */
    outcome: z.enum(['failed', 'crashed', 'lost', 'refused', 'cancelled']),
    error: errorBodySchema,
    exitCode: z.number().int().nullable(),
    usage: taskUsageSchema.nullable(),
    output: outputTail,
  }),
]);
export type TaskReport = z.infer<typeof taskReportSchema>;

/** What a worker says of a task that it has, in hello: running, or ended and not yet settled. */
export const taskObservationSchema = z.object({
  taskId: taskIdSchema,
  epoch: z.number().int().positive(),
  phase: z.enum(['waiting', 'running', 'ended']),
});
export type TaskObservation = z.infer<typeof taskObservationSchema>;

/** What a machine can compute for others; null parts with the reason beside them in `problems`. */
export const computeFactsSchema = z.object({
  /** Of kernels, best instruction set first; null: no kernel library here. */
  kernels: z.object({ isa: z.string().max(32), kernels: z.array(kernelNameSchema).max(16) }).nullable(),
  commands: z.object({
    /** Its owner allows them and this machine can keep them apart well enough. */
    allowed: z.boolean(),
    sandbox: z.enum(['bubblewrap', 'none']),
    limits: z.enum(['cgroup2', 'cgroup1', 'rlimits', 'job-object', 'none']),
    /** Its owner lets them see the network, and it is there. */
    network: z.boolean(),
    /** Why it is not, though its owner lets them, as a sentence without its subject. */
    networkProblem: z.string().max(512).optional(),
  }),
  /** Lent to work of others, after the owner's limits. */
  cpus: z.number().nonnegative(),
  memoryBytes: z.number().nonnegative(),
  problems: z.array(z.string().max(512)).max(16),
});
export type ComputeFacts = z.infer<typeof computeFactsSchema>;

export const artifactSourceSchema = z.object({
  nodeId: nodeIdSchema,
  artifact: artifactIdSchema,
});
