import { z } from 'zod';
import { deploymentIdSchema, engineIdSchema, nodeIdSchema } from '../lib/ids.ts';
import { addressSchema } from './node.ts';
import { errorBodySchema } from './error-body.ts';

/** A one-time random right or key: 32 bytes as 64 hex digits. Never logged. */
export const secretSchema = z.string().regex(/^[0-9a-f]{64}$/);

/**
 * Where an engine is on its way. Only forward, and `failed` and `stopped` are final: an engine id is never
 * started twice.
 */
export const enginePhaseSchema = z.enum([
  'starting',
  'connecting',
  'loading',
  'canary',
  'ready',
  'stopping',
  'stopped',
  'failed',
]);
export type EnginePhase = z.infer<typeof enginePhaseSchema>;

export const engineProgressSchema = z.object({
  /** What is being done, for people: "loading tensors". */
  step: z.string().max(128),
  doneBytes: z.number().nonnegative().nullable(),
  totalBytes: z.number().nonnegative().nullable(),
  /** 0..100, null when unknown. */
  percent: z.number().min(0).max(100).nullable(),
});
export type EngineProgress = z.infer<typeof engineProgressSchema>;

/** A stage: one `ggml-rpc-server` on one device of one node, for one leader. */
export const rpcAssignmentSchema = z.object({
  kind: z.literal('rpc'),
  engineId: engineIdSchema,
  deploymentId: deploymentIdSchema,
  epoch: z.number().int().positive(),
  /** The engine's device name: `CPU`, `CUDA0`, ... */
  device: z.string().min(1).max(64),
  /** Weights that the leader will put here: more threads than they are worth only wait for one another. */
  weightBytes: z.number().nonnegative(),
  /** null: the worker chooses from its cores, the weights and what else it runs. */
  threads: z.number().int().positive().max(1024).nullable(),
  /** The only node whose key the grant is good for. */
  clientNodeId: nodeIdSchema,
});
export type RpcAssignment = z.infer<typeof rpcAssignmentSchema>;

export const stageTargetSchema = z.object({
  engineId: engineIdSchema,
  nodeId: nodeIdSchema,
  nodeName: z.string().max(256),
  /** In the order to try. */
  addresses: z.array(addressSchema).min(1).max(16),
  grant: secretSchema,
  /** Layers given to this stage (as llama.cpp counts them). */
  layers: z.number().int().positive(),
});
export type StageTarget = z.infer<typeof stageTargetSchema>;

/** The leader's llama-server. */
export const llamaAssignmentSchema = z.object({
  kind: z.literal('llama'),
  engineId: engineIdSchema,
  deploymentId: deploymentIdSchema,
  epoch: z.number().int().positive(),
  modelPath: z.string().min(1).max(4096),
  modelName: z.string().min(1).max(256),
  /** Identity of the file, for the canary's record. */
  modelHash: z.string().max(128),
  modelBytes: z.number().int().positive(),
  /** Tokens of context per parallel request. */
  contextPerRequest: z.number().int().positive(),
  parallel: z.number().int().positive().max(256),
  /** `-ngl`. */
  gpuLayers: z.number().int().nonnegative(),
  /** Layers that the leader's own CPU computes (total - gpuLayers): decides its threads. */
  cpuLayers: z.number().int().nonnegative(),
  /** Local devices first, then one entry per stage in order; empty: CPU only. */
  localDevices: z.array(z.string().min(1).max(64)).max(16),
  /** `-ts`, same order as localDevices then stages. */
  tensorSplit: z.array(z.number().nonnegative()).max(16),
  /** Bytes of weights that go to each stage, for progress; same order as stages. */
  stageBytes: z.array(z.number().nonnegative()).max(16),
  stages: z.array(stageTargetSchema).max(15),
  /** How long a load may take without any progress before it is failed. */
  loadStallMs: z.number().int().positive(),
});
export type LlamaAssignment = z.infer<typeof llamaAssignmentSchema>;

export const engineAssignmentSchema = z.discriminatedUnion('kind', [
  rpcAssignmentSchema,
  llamaAssignmentSchema,
]);
export type EngineAssignment = z.infer<typeof engineAssignmentSchema>;

/**
 * The path bytes between two nodes take. `direct`: dialled by the one that needs it; `reverse`: dialled by the
 * other when asked; `relay`: both dialled the controller, which passes ciphertext on; `local`: one machine.
 */
export const linkPathSchema = z.enum(['direct', 'reverse', 'relay', 'local']);
export type LinkPath = z.infer<typeof linkPathSchema>;

/** What a leader sees of one stage. */
export const linkObservationSchema = z.object({
  stageEngineId: engineIdSchema,
  path: linkPathSchema,
  connected: z.boolean(),
  sentBytes: z.number().nonnegative(),
  receivedBytes: z.number().nonnegative(),
  /** ms since the last byte either way; null before the first. */
  idleMs: z.number().nonnegative().nullable(),
  /** Who sent last: when `leader`, the stage owes the answer. */
  lastSender: z.enum(['leader', 'stage']).nullable(),
  rttMs: z.number().nonnegative().nullable(),
  /** The most bytes that went over it in one second, either way; null before the first second with traffic. */
  bytesPerS: z.number().nonnegative().nullable(),
});
export type LinkObservation = z.infer<typeof linkObservationSchema>;

/** What a worker reports of one engine. Secrets in `endpoint` travel over the session only. */
export const engineObservationSchema = z.object({
  engineId: engineIdSchema,
  deploymentId: deploymentIdSchema,
  epoch: z.number().int().positive(),
  kind: z.enum(['rpc', 'llama']),
  phase: enginePhaseSchema,
  progress: engineProgressSchema.nullable(),
  error: errorBodySchema.nullable(),
  /** Set once the engine can be reached; `apiKey` for llama only. */
  endpoint: z
    .object({
      port: z.number().int().min(1).max(65535),
      grant: secretSchema,
      apiKey: secretSchema.nullable(),
    })
    .nullable(),
  pid: z.number().int().positive().nullable(),
  rssBytes: z.number().nonnegative().nullable(),
  /** CPU time used so far, user and system. */
  cpuMs: z.number().nonnegative().nullable(),
  /** The process exists but is stopped (SIGSTOP, debugger). */
  suspended: z.boolean(),
  /** llama only: slots computing now, and slots in all. */
  busySlots: z.number().int().nonnegative().nullable(),
  links: z.array(linkObservationSchema).max(15),
  startedAt: z.number().int().nonnegative(),
});
export type EngineObservation = z.infer<typeof engineObservationSchema>;
