import type { LlamaAssignment, RpcAssignment } from '#shared/domain/engine.ts';

/**
 * How many threads a stage's rpc-server gets. Waiting threads cost nothing there (the server sleeps in
 * `recv`), but computing ones spin on one another at every barrier, so more threads than cores is worse than
 * fewer. Engines that already run here leave their share.
 */
export function stageThreads(
  assignment: RpcAssignment,
  physicalCores: number,
  otherCpuEngines: number,
): number {
  if (assignment.threads !== null) return assignment.threads;
  // A stage on an accelerator only copies and launches kernels.
  if (assignment.device !== 'CPU') return 1;
  return Math.max(1, Math.floor(physicalCores / (1 + otherCpuEngines)));
}

/** The leader's threads: as many as its own layers deserve. */
export function leaderThreads(
  assignment: LlamaAssignment,
  physicalCores: number,
  otherCpuEngines: number,
): number {
  // Everything is computed elsewhere: one thread looks up embeddings.
  if (assignment.cpuLayers === 0) return 1;
  return Math.max(1, Math.floor(physicalCores / (1 + otherCpuEngines)));
}

/**
 * `--poll`: spinning between graphs is worth it only where the next one comes at once and nobody else wants
 * the core: a model that one machine computes alone, with no other engine on it.
 */
export function leaderPoll(assignment: LlamaAssignment, otherEngines: number): number {
  return assignment.stages.length === 0 && assignment.cpuLayers > 0 && otherEngines === 0 ? 50 : 0;
}

const gib = 1024 ** 3;

/**
 * `-b` and `-ub` in tokens. The engine looks for cancelled requests between batches only, so one batch should
 * take about 5 s at most; it is also the longest input an embedding may have. The engine is not told its batch
 * again after the load, so the model's size stands for a rate nobody has measured yet: desktop CPUs process
 * prompts at some 60 tokens/s for 4 GiB of Q4 weights.
 */
export function batchTokens(modelBytes: number): number {
  if (modelBytes <= gib) return 512;
  if (modelBytes <= 6 * gib) return 256;
  return 128;
}
