import { z } from 'zod';
import {
  bootIdSchema,
  deploymentIdSchema,
  engineIdSchema,
  jobIdSchema,
  nodeIdSchema,
  type NodeId,
} from '#shared/lib/ids.ts';
import type { ApiEvent } from '#shared/api/schema.ts';
import { addressSchema, hardwareSchema } from '#shared/domain/node.ts';
import { deploymentRequestSchema } from '#shared/domain/deployment.ts';
import { errorBodySchema } from '#shared/domain/error-body.ts';
import { modelInfoSchema } from '#shared/domain/model-info.ts';
import type { ReplicaPlan } from '../../placement/types.ts';
import type { DeploymentRecord, DurableNode, NodeFacts, RemovedNode, Replica } from '../state.ts';

/** Rows as SQLite has them, and their way to domain values and back. */

const json = <T extends z.ZodType>(schema: T) =>
  z.string().transform((text, context): z.infer<T> => {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      context.addIssue({ code: 'custom', message: 'is not JSON' });
      return z.NEVER;
    }
    const parsed = schema.safeParse(value);
    if (parsed.success) return parsed.data;
    context.addIssue({ code: 'custom', message: parsed.error.message });
    return z.NEVER;
  });

const factsSchema: z.ZodType<NodeFacts> = z.object({
  version: z.string(),
  engineBuildId: z.string().nullable(),
  engineProblem: z.string().nullable(),
  hardware: hardwareSchema,
  addresses: z.array(addressSchema),
  // Rows of the first version have none.
  machine: z.string().nullable().default(null),
});

const drainSchema = z.object({
  startedAt: z.number(),
  deadlineAt: z.number(),
  completedAt: z.number().nullable(),
});

const planSchema: z.ZodType<ReplicaPlan> = z.object({
  contextPerRequest: z.number().int().positive(),
  parallel: z.number().int().positive(),
  layersTotal: z.number().int().positive(),
  leader: z.object({
    nodeId: nodeIdSchema,
    localLayers: z.number(),
    cpuLayers: z.number(),
    estimatedBytes: z.number(),
  }),
  stages: z.array(
    z.object({
      nodeId: nodeIdSchema,
      device: z.string(),
      layers: z.number(),
      weightBytes: z.number(),
      estimatedBytes: z.number(),
    }),
  ),
  engine: z.object({
    gpuLayers: z.number(),
    localDevices: z.array(z.string()),
    tensorSplit: z.array(z.number()),
  }),
});

const member = { nodeId: nodeIdSchema, engineId: engineIdSchema, bootId: bootIdSchema };
const replicaSchema: z.ZodType<Replica> = z.object({
  epoch: z.number().int().positive(),
  plan: planSchema,
  leader: z.object(member),
  stages: z.array(
    z.object({ ...member, device: z.string(), layers: z.number(), estimatedBytes: z.number() }),
  ),
  placedAt: z.number(),
  leaderAssignedAt: z.number().nullable(),
  readyAt: z.number().nullable(),
});

const nodeRow = z.object({
  id: nodeIdSchema,
  name: z.string(),
  joined_at: z.number(),
  drain: json(drainSchema).nullable(),
  paused_at: z.number().nullable(),
  boot_id: bootIdSchema.nullable(),
  facts: json(factsSchema).nullable(),
  said_goodbye: z.number(),
  last_contact_at: z.number().nullable(),
});

export function nodeFromRow(row: unknown): DurableNode {
  const parsed = nodeRow.parse(row);
  return {
    id: parsed.id,
    name: parsed.name,
    joinedAt: parsed.joined_at,
    drain: parsed.drain,
    pausedAt: parsed.paused_at,
    bootId: parsed.boot_id,
    facts: parsed.facts,
    saidGoodbye: parsed.said_goodbye !== 0,
    lastContactAt: parsed.last_contact_at,
  };
}

export function nodeToRow(node: DurableNode): Record<string, unknown> {
  return {
    id: node.id,
    name: node.name,
    joined_at: node.joinedAt,
    drain: node.drain && JSON.stringify(node.drain),
    paused_at: node.pausedAt,
    boot_id: node.bootId,
    facts: node.facts && JSON.stringify(node.facts),
    said_goodbye: node.saidGoodbye ? 1 : 0,
    last_contact_at: node.lastContactAt,
  };
}

export function removedFromRow(row: unknown): RemovedNode {
  const parsed = z.object({ id: nodeIdSchema, name: z.string(), removed_at: z.number() }).parse(row);
  return { id: parsed.id, name: parsed.name, removedAt: parsed.removed_at };
}

const fileSchema = z.object({ path: z.string(), hash: z.string() });

const deploymentRow = z.object({
  id: deploymentIdSchema,
  model: z.string(),
  info: json(modelInfoSchema),
  files: json(z.array(z.tuple([nodeIdSchema, fileSchema]))),
  request: json(deploymentRequestSchema),
  created_at: z.number(),
  wanted: z.number(),
  phase: z.enum(['waiting', 'loading', 'ready', 'draining', 'unloading', 'failed']),
  reason: json(errorBodySchema).nullable(),
  epoch: z.number(),
  replica: json(replicaSchema).nullable(),
  failures: json(z.array(z.object({ at: z.number(), error: errorBodySchema }))),
  next_attempt_at: z.number().nullable(),
  failed_with: json(z.array(nodeIdSchema)),
});

export function deploymentFromRow(row: unknown): DeploymentRecord {
  const parsed = deploymentRow.parse(row);
  return {
    id: parsed.id,
    model: parsed.model,
    info: parsed.info,
    files: new Map<NodeId, { path: string; hash: string }>(parsed.files),
    request: parsed.request,
    createdAt: parsed.created_at,
    wanted: parsed.wanted !== 0,
    phase: parsed.phase,
    reason: parsed.reason,
    epoch: parsed.epoch,
    replica: parsed.replica,
    failures: parsed.failures,
    nextAttemptAt: parsed.next_attempt_at,
    failedWith: parsed.failed_with,
  };
}

export function deploymentToRow(deployment: DeploymentRecord): Record<string, unknown> {
  return {
    id: deployment.id,
    model: deployment.model,
    info: JSON.stringify(deployment.info),
    files: JSON.stringify([...deployment.files]),
    request: JSON.stringify(deployment.request),
    created_at: deployment.createdAt,
    wanted: deployment.wanted ? 1 : 0,
    phase: deployment.phase,
    reason: deployment.reason && JSON.stringify(deployment.reason),
    epoch: deployment.epoch,
    replica: deployment.replica && JSON.stringify(deployment.replica),
    failures: JSON.stringify(deployment.failures),
    next_attempt_at: deployment.nextAttemptAt,
    failed_with: JSON.stringify(deployment.failedWith),
  };
}

const eventRow = z.object({
  id: z.number(),
  at: z.number(),
  kind: z.string(),
  level: z.enum(['info', 'warn', 'error']),
  message: z.string(),
  node_id: nodeIdSchema.nullable(),
  deployment_id: deploymentIdSchema.nullable(),
  job_id: jobIdSchema.nullable(),
});

export function eventFromRow(row: unknown): ApiEvent {
  const parsed = eventRow.parse(row);
  return {
    id: parsed.id,
    at: parsed.at,
    kind: parsed.kind,
    level: parsed.level,
    message: parsed.message,
    ...(parsed.node_id === null ? {} : { nodeId: parsed.node_id }),
    ...(parsed.deployment_id === null ? {} : { deploymentId: parsed.deployment_id }),
    ...(parsed.job_id === null ? {} : { jobId: parsed.job_id }),
  };
}
