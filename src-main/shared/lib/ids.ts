import { z } from 'zod';

/**
 * Identifiers. They are branded so that one kind cannot be passed for another; the schemas bound their
 * length because every one of them also arrives from outside.
 */
const fingerprintPattern = /^[0-9a-f]{64}$/;

/** A machine: the lower-case hex SHA-256 of the DER SubjectPublicKeyInfo of its key (64 characters). */
export const nodeIdSchema = z
  .string()
  .regex(fingerprintPattern, 'must be 64 hexadecimal digits')
  .brand<'NodeId'>();
export type NodeId = z.infer<typeof nodeIdSchema>;

/** `d-` and 8 characters of [0-9a-z]. */
export const deploymentIdSchema = z
  .string()
  .regex(/^d-[0-9a-z]{8}$/, 'must look like d-1a2b3c4d')
  .brand<'DeploymentId'>();
export type DeploymentId = z.infer<typeof deploymentIdSchema>;

/** One engine instance, never reused: `<deployment>.<epoch>.<index>`; index 0 is the leader's llama-server. */
export const engineIdSchema = z
  .string()
  .regex(/^d-[0-9a-z]{8}\.\d{1,9}\.\d{1,3}$/, 'must look like d-1a2b3c4d.1.0')
  .brand<'EngineId'>();
export type EngineId = z.infer<typeof engineIdSchema>;

/** `j-` and 8 characters of [0-9a-z]. */
export const jobIdSchema = z
  .string()
  .regex(/^j-[0-9a-z]{8}$/, 'must look like j-1a2b3c4d')
  .brand<'JobId'>();
export type JobId = z.infer<typeof jobIdSchema>;

/** One attempt at a partition, never reused: `<job>.<partition index>.<attempt>`, attempts from 1. */
export const taskIdSchema = z
  .string()
  .regex(/^j-[0-9a-z]{8}\.\d{1,7}\.\d{1,4}$/, 'must look like j-1a2b3c4d.0.1')
  .brand<'TaskId'>();
export type TaskId = z.infer<typeof taskIdSchema>;

/** An immutable file or tree: the lower-case hex SHA-256 of the file's bytes, or of the tree's manifest. */
export const artifactIdSchema = z
  .string()
  .regex(fingerprintPattern, 'must be 64 hexadecimal digits')
  .brand<'ArtifactId'>();
export type ArtifactId = z.infer<typeof artifactIdSchema>;

/** One run of a worker's main process: 32 hex digits, new at every start. */
export const bootIdSchema = z
  .string()
  .regex(/^[0-9a-f]{32}$/)
  .brand<'BootId'>();
export type BootId = z.infer<typeof bootIdSchema>;

export function engineId(deploymentId: DeploymentId, epoch: number, index: number): EngineId {
  return `${deploymentId}.${epoch}.${index}` as EngineId;
}

export function taskId(jobId: JobId, partition: number, attempt: number): TaskId {
  return `${jobId}.${partition}.${attempt}` as TaskId;
}

/** The form for people: the first 12 digits. */
export function shortNodeId(id: NodeId): string {
  return id.slice(0, 12);
}
