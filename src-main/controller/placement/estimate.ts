import type { ModelInfo } from '#shared/domain/model-info.ts';
import { unitCount, type UnitRange } from './split.ts';

/** What the memory depends on besides the model. */
export interface Shape {
  /** Tokens of context of one request. */
  readonly contextPerRequest: number;
  readonly parallel: number;
  /**
   * Every unit is on a device and there are several: the engine then keeps four copies of a batch's inputs
   * (GGML_SCHED_MAX_COPIES). A plan that does not know yet assumes it.
   */
  readonly pipelined?: boolean;
}

export interface MemoryUse {
  readonly weightBytes: number;
  /** KV cache and recurrent state. */
  readonly cacheBytes: number;
  /** Buffers for one batch, and the process itself. */
  readonly workBytes: number;
  readonly totalBytes: number;
}

/** Tokens of a batch: the most that workers use for `-b` and `-ub`. */
const BATCH = 512;
const COPIES = 4;
const F16 = 2;
const F32 = 4;
/** The engine rounds a request's context up to this (GGML_PAD in llama-context.cpp). */
const CONTEXT_STEP = 256;
const MIB = 1024 * 1024;
/** Positions, the pooling matrix of `--embeddings`, alignment. */
const SMALL_BYTES = 2 * MIB;

/** An rpc-server without a model; measured 11 to 15 MiB. */
export const stageProcessBytes = 16 * MIB;
/** A llama-server without a model; measured 19 MiB. */
const LEADER_PROCESS_BYTES = 24 * MIB;
/** The vocabulary in a llama-server; measured 290 bytes a token without merges. */
const TOKEN_BYTES = 600;

/**
 * Memory of a device that computes the units `range` of a model: an rpc-server's, or an accelerator of the leader.
 *
 * - weights: the bytes of the layers as in the file; with the output unit also the head, which for a model with
 *   tied embeddings is a second copy of them.
 * - cache: `kvElements` x F16 for each token of context of each parallel request, and recurrent states.
 * - work: scratch for one batch, by the widest thing computed (four feed-forward rows, or the logits of every
 *   token, which `--embeddings` asks for), the attention mask (F16, context x batch) and the batch's input.
 *
 * Against the buffer sizes that the engine prints (v0.4.0, made models of 5 to 549 MB, whole and split, contexts
 * of 1024 to 8192, 1 to 4 requests; estimate.test.ts holds the figures): weights and cache are exact to 0.01 MiB;
 * work is never less than printed and at most 25% or 4 MiB more.
 */
export function deviceMemory(model: ModelInfo, range: UnitRange, shape: Shape): MemoryUse {
  if (range.to === range.from) return sum(0, 0, 0);
  const output = range.to === unitCount(model.layerCount);
  const copies = (shape.pipelined ?? true) ? COPIES : 1;
  const inputs = copies * (maskBytes(shape) + rowBytes(model.embeddingLength));
  const work = scratch(model, range, output) + inputs + SMALL_BYTES;
  return sum(weightBytes(model, range), cacheBytes(model, range, shape), work);
}

/**
 * RAM of the leader's llama-server: the embeddings, the units `cpu` on its own CPU, the buffers that are always
 * there, the results of a batch, the vocabulary and the program.
 *
 * Weights on the CPU count once. Those the engine repacks for speed lie in its own memory (`CPU_REPACK`), and the
 * mapped file they came from is clean page cache, which the system takes back when it is short; the others are
 * used in the mapped file. Measured for 549 MB of Q4_0, 4 requests of 4096: 1112 MiB of its own after a full
 * batch (522 repacked, 512 cache, 68 work, the program), 510 MiB of mapped file; estimated: 1137 MiB.
 */
export function leaderMemory(model: ModelInfo, cpu: UnitRange, shape: Shape): MemoryUse {
  const copies = (shape.pipelined ?? true) && cpu.to === cpu.from ? COPIES : 1;
  const some = cpu.to > cpu.from;
  const output = cpu.to === unitCount(model.layerCount);
  const work =
    (some ? scratch(model, cpu, output) : rowBytes(model.embeddingLength)) +
    copies * maskBytes(shape) +
    rowBytes(model.embeddingLength) +
    rowBytes(model.vocabSize + model.embeddingLength) +
    model.vocabSize * TOKEN_BYTES +
    LEADER_PROCESS_BYTES;
  const weights = model.tensorBytes.embedding + (some ? weightBytes(model, cpu) : 0);
  return sum(weights, cacheBytes(model, cpu, shape), work);
}

export interface SplitMemory {
  readonly leader: MemoryUse;
  readonly leaderDevices: readonly MemoryUse[];
  readonly stages: readonly MemoryUse[];
  readonly totalBytes: number;
}

/** Memory of a whole split: on the leader, on each of its devices, and on each stage with its process. */
export function estimateMemory(
  model: ModelInfo,
  shape: Omit<Shape, 'pipelined'>,
  split: {
    readonly leaderCpu: UnitRange;
    readonly leaderDevices: readonly UnitRange[];
    readonly stages: readonly UnitRange[];
  },
): SplitMemory {
  const devices = split.leaderDevices.length + split.stages.length;
  const whole = { ...shape, pipelined: devices > 1 && split.leaderCpu.to === split.leaderCpu.from };
  const leader = leaderMemory(model, split.leaderCpu, whole);
  const leaderDevices = split.leaderDevices.map((range) => deviceMemory(model, range, whole));
  const stages = split.stages.map((range) => {
    const use = deviceMemory(model, range, whole);
    return sum(use.weightBytes, use.cacheBytes, use.workBytes + stageProcessBytes);
  });
  const totalBytes = [leader, ...leaderDevices, ...stages].reduce((total, use) => total + use.totalBytes, 0);
  return { leader, leaderDevices, stages, totalBytes };
}

function weightBytes(model: ModelInfo, range: UnitRange): number {
  const { embedding, output, layers, other } = model.tensorBytes;
  const own = layers.slice(range.from, range.to).reduce((total, bytes) => total + bytes, 0);
  const head = range.to === unitCount(model.layerCount) ? output + (model.tiedOutput ? embedding : 0) : 0;
  return own + head + other;
}

function cacheBytes(model: ModelInfo, range: UnitRange, shape: Shape): number {
  const total = (values: readonly number[]): number =>
    values.slice(range.from, range.to).reduce((partial, value) => partial + value, 0);
  const kv = total(model.kvElements) * F16 * paddedContext(shape);
  return (kv + total(model.stateBytes)) * shape.parallel;
}

/** The widest intermediate results of one batch. */
function scratch(model: ModelInfo, range: UnitRange, output: boolean): number {
  const attention = Math.max(model.embeddingLength, model.headCount * model.keyLength);
  const layer = range.from < model.layerCount ? 4 * Math.max(model.feedForwardLength, 1.5 * attention) : 0;
  return rowBytes(Math.max(layer, output ? model.vocabSize + model.embeddingLength : 0));
}

/** F32 rows of `elements`, one for each token of a batch. */
function rowBytes(elements: number): number {
  return BATCH * F32 * elements;
}

function maskBytes(shape: Shape): number {
  return BATCH * F16 * paddedContext(shape);
}

function paddedContext(shape: Shape): number {
  return Math.ceil(shape.contextPerRequest / CONTEXT_STEP) * CONTEXT_STEP;
}

function sum(weights: number, cache: number, work: number): MemoryUse {
  return {
    weightBytes: weights,
    cacheBytes: cache,
    workBytes: Math.ceil(work),
    totalBytes: weights + cache + Math.ceil(work),
  };
}
