import { z } from 'zod';
import { deploymentIdSchema, engineIdSchema } from '../lib/ids.ts';
import { enginePhaseSchema, engineProgressSchema, secretSchema } from '../domain/engine.ts';
import { errorBodySchema } from '../domain/error-body.ts';

/**
 * Parent <-> engine host. One host process per engine instance, the same entry file as an Electron utility
 * process or a Node.js child. The host starts one native program through the launcher, watches it, and ends
 * it with its tree on `stop`, when the parent goes away, and when it dies itself. It never restarts it.
 */
export const engineHostInit = z.object({
  type: z.literal('init'),
  engineId: engineIdSchema,
  deploymentId: deploymentIdSchema,
  engineDirectory: z.string(),
  /** The engine directory's RPC protocol, `major.minor.patch`: a stage that speaks another is refused. */
  rpcProtocol: z.string().max(32),
  /** Where the host records pid and start time of what it starts, for the sweep after a crash. */
  journalDirectory: z.string(),
  program: z.discriminatedUnion('kind', [
    z.object({
      kind: z.literal('rpc'),
      device: z.string(),
      threads: z.number().int().positive(),
      /** How long it may take until it answers. */
      startMs: z.number().int().positive(),
    }),
    z.object({
      kind: z.literal('llama'),
      modelPath: z.string(),
      modelName: z.string(),
      /** Size of the weights, for progress in bytes. */
      modelBytes: z.number().int().positive(),
      apiKey: secretSchema,
      contextPerRequest: z.number().int().positive(),
      parallel: z.number().int().positive(),
      gpuLayers: z.number().int().nonnegative(),
      localDevices: z.array(z.string()),
      tensorSplit: z.array(z.number()),
      /** Loopback listeners of the tunnels, in stage order. */
      rpcEndpoints: z.array(z.string()),
      threads: z.number().int().positive(),
      /** Spin level of waiting threads, 0..100. */
      poll: z.number().int().min(0).max(100),
      batch: z.number().int().positive(),
      loadStallMs: z.number().int().positive(),
      canaryMs: z.number().int().positive(),
    }),
  ]),
});
export type EngineHostInit = z.infer<typeof engineHostInit>;

export const engineHostCommand = z.discriminatedUnion('type', [
  engineHostInit,
  z.object({ type: z.literal('stop'), graceMs: z.number().int().nonnegative() }),
]);
export type EngineHostCommand = z.infer<typeof engineHostCommand>;

export const engineHostEvent = z.discriminatedUnion('type', [
  /** The host process runs and waits for `init`. */
  z.object({ type: z.literal('hello') }),
  z.object({ type: z.literal('phase'), phase: enginePhaseSchema, error: errorBodySchema.nullable() }),
  z.object({ type: z.literal('progress'), progress: engineProgressSchema }),
  /** The native program answers on this loopback port. */
  z.object({ type: z.literal('listening'), port: z.number().int(), pid: z.number().int() }),
  z.object({
    type: z.literal('log'),
    level: z.enum(['debug', 'info', 'warn', 'error']),
    message: z.string().max(4096),
  }),
  /** Every second while the program lives. */
  z.object({
    type: z.literal('beat'),
    pid: z.number().int(),
    rssBytes: z.number().nullable(),
    cpuMs: z.number().nullable(),
    suspended: z.boolean(),
    busySlots: z.number().int().nullable(),
  }),
  /**
   * The canary's answer, sent before `ready`: its tokens, and how far the first led the second in nats, for the
   * comparison with what this model answered here before.
   */
  z.object({
    type: z.literal('canary'),
    tokenIds: z.array(z.number().int()).max(64),
    firstMargin: z.number().nullable(),
  }),
]);
export type EngineHostEvent = z.infer<typeof engineHostEvent>;
