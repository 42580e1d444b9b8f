import { z } from 'zod';
import { doctorCheckSchema } from '../domain/doctor.ts';
import { modelInfoSchema } from '../domain/model-info.ts';
import { pathProbeSchema } from '../domain/network.ts';
import { addressSchema, shortText } from '../domain/node.ts';
import { nodeIdSchema, taskIdSchema } from '../lib/ids.ts';

/** A model as a worker resolves it: an absolute path on that node or a name in its library. */
export const modelRefSchema = z.string().min(1).max(4096);

export const libraryModelSchema = z.object({
  name: z.string().min(1).max(256),
  path: z.string().min(1).max(4096),
  fileBytes: z.number().int().nonnegative(),
  addedAt: z.number().int().nonnegative(),
  source: z.string().max(1024),
  info: modelInfoSchema.nullable(),
});
export type LibraryModel = z.infer<typeof libraryModelSchema>;

export const resolvedModelSchema = z.object({
  path: z.string().min(1).max(4096),
  info: modelInfoSchema,
  /** Cheap identity of the file's content (see worker/models/inspect). */
  hash: z.string().max(128),
});
export type ResolvedModel = z.infer<typeof resolvedModelSchema>;

export const transferProgressSchema = z.object({
  doneBytes: z.number().nonnegative(),
  totalBytes: z.number().nonnegative().nullable(),
  bytesPerS: z.number().nonnegative().nullable(),
});
export type TransferProgress = z.infer<typeof transferProgressSchema>;

/**
 * Requests from the controller to a worker inside a session: method name -> parameters, result, progress.
 * Every one has a deadline and may be cancelled.
 */
export const workerRequests = {
  /** Find a model on this node and read its header. Errors: the `model_*` codes. */
  'model.resolve': {
    params: z.object({ model: modelRefSchema }),
    result: resolvedModelSchema,
    progress: z.never(),
  },
  'model.list': {
    params: z.object({}),
    result: z.object({ models: z.array(libraryModelSchema).max(4096) }),
    progress: z.never(),
  },
  /** Copy a file of this node into its library. */
  'model.import': {
    params: z.object({ path: z.string().min(1).max(4096), name: z.string().min(1).max(256).optional() }),
    result: libraryModelSchema,
    progress: transferProgressSchema,
  },
  /** Download `hf:owner/repo[/file.gguf]` into the library; a file that is there and verified is not fetched again. */
  'model.pull': {
    params: z.object({
      source: z.string().min(4).max(1024),
      deadlineMs: z.number().int().positive().optional(),
    }),
    result: libraryModelSchema,
    progress: transferProgressSchema,
  },
  'model.remove': {
    params: z.object({ name: z.string().min(1).max(256) }),
    result: z.object({}),
    progress: z.never(),
  },
  /** Measure the way to another member, by whatever path there is. Errors: `stage_unreachable`. */
  'network.probe': {
    params: z.object({
      peer: nodeIdSchema,
      peerName: shortText,
      addresses: z.array(addressSchema).max(16),
      /** How much to send each way at most. */
      bytes: z
        .number()
        .int()
        .min(0)
        .max(64 * 1024 * 1024),
    }),
    result: pathProbeSchema,
    progress: z.never(),
  },
  /** The end of what a task has printed so far. Errors: `task_not_found`. */
  'task.log': {
    params: z.object({ taskId: taskIdSchema }),
    result: z.object({ output: z.string().max(65_536), truncated: z.boolean() }),
    progress: z.never(),
  },
  /** Answered at once: how far away this worker is. */
  'node.ping': { params: z.object({}), result: z.object({}), progress: z.never() },
  /** This node's own checks. */
  'doctor.run': {
    params: z.object({}),
    result: z.object({ checks: z.array(doctorCheckSchema).max(64), at: z.number().int().nonnegative() }),
    progress: z.never(),
  },
} as const;
export type WorkerMethod = keyof typeof workerRequests;
export type WorkerParams<M extends WorkerMethod> = z.infer<(typeof workerRequests)[M]['params']>;
export type WorkerResult<M extends WorkerMethod> = z.infer<(typeof workerRequests)[M]['result']>;
