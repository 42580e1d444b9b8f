import { z } from 'zod';
import { jobIdSchema, nodeIdSchema, taskIdSchema } from '#shared/lib/ids.ts';
import { errorBodySchema } from '#shared/domain/error-body.ts';
import { jobSpecSchema } from '#shared/domain/job-spec.ts';
import { jobResultSchema, taskOutcomeSchema } from '#shared/domain/job.ts';
import { kernelNameSchema } from '#shared/domain/kernel-call.ts';
import {
  rangeSchema,
  seekSchema,
  taskResultSchema,
  taskUsageSchema,
  workSchema,
  type TaskResult,
} from '#shared/domain/task.ts';
import type { JobCourse, JobDefinition, PartitionRecord, TaskRecord } from '../job-state.ts';

/** Rows of jobs as SQLite has them, and their way to domain values. */

const at = z.number().nullable();

const definitionSchema: z.ZodType<JobDefinition> = z.object({
  id: jobIdSchema,
  submissionKey: z.string().optional(),
  name: z.string(),
  kind: z.enum(['kernel', 'command', 'map', 'inference', 'gang']),
  spec: jobSpecSchema,
  work: workSchema,
  index: z
    .custom<Exclude<JobDefinition['index'], null>>(
      (value) => workSchema.safeParse(value).data?.kind === 'index',
    )
    .nullable(),
  total: z.number().nullable(),
  unit: z.enum(['elements', 'records', 'items', 'ranks']),
  division: z.discriminatedUnion('mode', [
    z.object({ mode: z.literal('counted'), count: z.number().int().positive(), ranged: z.boolean() }),
    z.object({ mode: z.literal('auto'), smallest: z.number(), largest: z.number() }),
  ]),
  demand: z.object({ cpus: z.number(), memoryBytes: z.number(), wholeNode: z.boolean() }),
  place: z.object({
    nodes: z.array(nodeIdSchema).nullable(),
    os: z.enum(['linux', 'darwin', 'win32']).nullable(),
    arch: z.enum(['x64', 'arm64']).nullable(),
    kernel: kernelNameSchema.nullable(),
    commands: z.boolean(),
    network: z.boolean(),
  }),
  retry: z.object({
    attempts: z.number(),
    backoffMs: z.number(),
    exitCodes: z.array(z.number()).nullable(),
  }),
  timeoutMs: z.number(),
  exclusive: z.boolean(),
  speculative: z.boolean(),
  priority: z.number(),
  gang: z.object({ perNode: z.number().nullable(), restarts: z.number() }).nullable(),
  notes: z.array(z.string()),
  createdAt: z.number(),
});

const courseSchema: z.ZodType<JobCourse> = z.object({
  phase: z.enum([
    'preparing',
    'queued',
    'running',
    'collecting',
    'cancelling',
    'done',
    'failed',
    'cancelled',
  ]),
  startedAt: at,
  finishedAt: at,
  ending: z.object({ at: z.number(), as: z.enum(['cancelled', 'failed']) }).nullable(),
  total: z.number().nullable(),
  seeks: z.array(seekSchema),
  distribution: z.discriminatedUnion('mode', [
    z.object({ mode: z.literal('auto') }),
    z.object({
      mode: z.literal('manual'),
      shares: z.array(z.object({ nodeId: nodeIdSchema, weight: z.number().positive() })),
    }),
  ]),
  error: errorBodySchema.nullable(),
  result: jobResultSchema.nullable(),
  gang: z
    .object({
      start: z.number(),
      goAt: at,
      incomplete: z.number(),
      stopping: z
        .object({
          at: z.number(),
          error: errorBodySchema,
          lost: z.boolean(),
          rank: z.number().optional(),
        })
        .nullable(),
    })
    .nullable(),
});

const taskSchema: z.ZodType<TaskRecord> = z.object({
  id: taskIdSchema,
  attempt: z.number(),
  epoch: z.number(),
  nodeId: nodeIdSchema,
  speculative: z.boolean(),
  outcome: taskOutcomeSchema,
  assignedAt: z.number(),
  startedAt: at,
  progress: z.number(),
  endedAt: at,
  error: errorBodySchema.nullable(),
  exitCode: z.number().nullable(),
  usage: taskUsageSchema.nullable(),
  reach: z.object({ host: z.string(), ports: z.array(z.number()) }).nullable(),
});

const partitionSchema: z.ZodType<PartitionRecord> = z.object({
  index: z.number(),
  range: rangeSchema.nullable(),
  phase: z.enum(['waiting', 'active', 'fetching', 'done', 'failed', 'cancelled']),
  epoch: z.number(),
  attempt: z.number(),
  failures: z.number(),
  losses: z.number(),
  owner: nodeIdSchema.nullable(),
  nextAttemptAt: at,
  error: errorBodySchema.nullable(),
  finishedAt: at,
  tasks: z.array(taskSchema),
});

export interface JobRow {
  readonly no: number;
  readonly id: string;
  readonly definition: string;
  readonly course: string;
}

export function jobFromRow(row: JobRow): { definition: JobDefinition; course: JobCourse } {
  return {
    definition: definitionSchema.parse(JSON.parse(row.definition)),
    course: courseSchema.parse(JSON.parse(row.course)),
  };
}

export function partitionFromText(text: string): PartitionRecord {
  return partitionSchema.parse(JSON.parse(text));
}

export function resultFromText(text: string): TaskResult {
  return taskResultSchema.parse(JSON.parse(text));
}
