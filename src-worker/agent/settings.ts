import type { LlamaAssignment, RpcAssignment } from '#shared/domain/engine.ts';

/**
 * Weights that give one thread enough to do. Threads that share a small product wait for one another longer than
 * they compute: on two cores a second thread makes 0.5 GB of weights half as fast again, 50 MB a fifth, and 5 MB
 * ten to forty times slower.
 */
const bytesPerThread = 32 * 1024 ** 2;

/** How many threads a stage's rpc-server gets. */
export function stageThreads(
  assignment: RpcAssignment,
  physicalCores: number,
  otherCpuEngines: number,
): number {
  if (assignment.threads !== null) return assignment.threads;
  // A stage on an accelerator only copies and launches kernels.
  if (assignment.device !== 'CPU') return 1;
  return threadsFor(assignment.weightBytes, besideTunnels(physicalCores), otherCpuEngines);
}

/** The leader's threads: as many as its own layers deserve. */
export function leaderThreads(
  assignment: LlamaAssignment,
  physicalCores: number,
  otherCpuEngines: number,
): number {
  // Everything is computed elsewhere: one thread looks up embeddings.
  if (assignment.cpuLayers === 0) return 1;
  const elsewhereBytes = assignment.stageBytes.reduce((sum, bytes) => sum + bytes, 0);
  const cores = assignment.stages.length > 0 ? besideTunnels(physicalCores) : physicalCores;
  return threadsFor(assignment.modelBytes - elsewhereBytes, cores, otherCpuEngines);
}

function threadsFor(weightBytes: number, cores: number, otherCpuEngines: number): number {
  const share = Math.floor(cores / (1 + otherCpuEngines));
  return Math.max(1, Math.min(share, Math.ceil(weightBytes / bytesPerThread)));
}

/** The tunnels' cipher runs while the stages compute; a machine with cores to spare leaves it one. */
function besideTunnels(cores: number): number {
  return cores >= 4 ? cores - 1 : cores;
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
 * take about 5 s at most; it is also the longest input an embedding may have. It is fixed with the load, before
 * any rate is known, so the model's size stands for it: two fast cores were seen to process 160 tokens/s of
 * 0.5 GiB of Q4 weights, and the rate falls with the size. Below 128 accelerators would idle.
 */
export function batchTokens(modelBytes: number): number {
  if (modelBytes <= gib) return 512;
  if (modelBytes <= 6 * gib) return 256;
  return 128;
}
