/**
 * How llama.cpp gives layers to devices, and which arguments make it give the ones we want.
 *
 * It counts units: the repeating layers 0..layerCount-1, then the output layer as unit `layerCount`. The input
 * embedding is never one of them, it stays in the leader's RAM. With `-ngl N` the last N units go to devices and
 * the others stay on the leader's CPU, so CPU layers always come first; `-ts` says where the units change device.
 */
export interface UnitRange {
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
}

/** Units of a model: its repeating layers and the output. */
export function unitCount(layerCount: number): number {
  return layerCount + 1;
}

export const CPU = -1;

/**
 * The device of each unit, as an index into `tensorSplit`, or CPU: the arithmetic of `load_tensors` in
 * llama-model.cpp, in single precision as there. A split of only zeros is not covered: the engine then divides by
 * free memory.
 */
export function engineAssignment(
  layerCount: number,
  gpuLayers: number,
  tensorSplit: readonly number[],
): number[] {
  const units = unitCount(layerCount);
  let sum = 0;
  const sums = tensorSplit.map((share) => (sum = Math.fround(sum + Math.fround(share))));
  const points = sums.map((partial) => Math.fround(partial / sum));
  const active = tensorSplit.length === 0 ? 0 : Math.min(gpuLayers, units);
  const start = Math.max(units - gpuLayers, 0);
  return Array.from({ length: units }, (_, unit) => {
    if (unit < start || unit - start >= active) return CPU;
    const place = Math.fround((unit - start) / active);
    return points.findIndex((point) => point > place);
  });
}

/**
 * Shares `total` whole units out by weight: each gets the whole part of its share, what is left goes one by one
 * to the largest fractions (the earlier one among equals). The counts add up to `total`.
 * @param weights finite, not negative, not all zero
 * @param caps the most each may get; those who would get more leave it to the others
 * @returns null when the caps leave units over
 */
export function largestRemainder(
  total: number,
  weights: readonly number[],
  caps: readonly number[] = weights.map(() => Infinity),
): number[] | null {
  const counts = weights.map(() => 0);
  const open = new Set(weights.keys());
  let left = total;
  for (;;) {
    const scale = Math.max(...[...open].map((index) => weights[index] ?? 0));
    if (left === 0) return counts;
    if (open.size === 0 || !(scale > 0)) return null;
    // Dividing by the largest first keeps huge and tiny weights within range.
    const relative = (index: number): number => (weights[index] ?? 0) / scale;
    const sum = [...open].reduce((partial, index) => partial + relative(index), 0);
    const exact = (index: number): number => (left * relative(index)) / sum;
    const full = [...open].filter((index) => exact(index) > (caps[index] ?? 0));
    if (full.length > 0) {
      // Cap the ones over and share again among the rest.
      for (const index of full) {
        counts[index] = Math.min(left, caps[index] ?? 0);
        open.delete(index);
      }
      left = total - counts.reduce((partial, count) => partial + count, 0);
      continue;
    }
    for (const index of open) counts[index] = Math.floor(exact(index));
    let rest = total - counts.reduce((partial, count) => partial + count, 0);
    const byFraction = [...open].sort(
      (a, b) => exact(b) - Math.floor(exact(b)) - (exact(a) - Math.floor(exact(a))) || a - b,
    );
    for (const index of byFraction) {
      if (rest === 0) break;
      if ((counts[index] ?? 0) >= (caps[index] ?? 0)) continue;
      counts[index] = (counts[index] ?? 0) + 1;
      rest--;
    }
    return rest === 0 ? counts : null;
  }
}

/** Consecutive ranges of the given lengths, from unit `from` on. */
export function consecutive(counts: readonly number[], from = 0): UnitRange[] {
  let next = from;
  return counts.map((count) => {
    const start = next;
    next += count;
    return { from: start, to: next };
  });
}

/** The units each weight gets, in order; empty ranges for those that get none. */
export function assignLayers(layerCount: number, weights: readonly number[]): UnitRange[] {
  return consecutive(largestRemainder(unitCount(layerCount), weights) ?? weights.map(() => 0));
}

export interface SplitLayout {
  /** Units on the leader's own CPU, the first ones. */
  readonly leaderCpu: number;
  /** The leader's own accelerators that are used, in order. */
  readonly leaderDevices: readonly { readonly id: string; readonly units: number }[];
  /** Remote devices, in order. */
  readonly stages: readonly { readonly units: number }[];
}

export interface EngineSplit {
  /** `-ngl`; 0 with no devices means all on the leader's CPU. */
  readonly gpuLayers: number;
  /** `--device`: these, then one RPC device per stage; none at all: `--device none`. */
  readonly localDevices: readonly string[];
  /** `-ts`, local devices first, then stages. */
  readonly tensorSplit: readonly number[];
}

/**
 * The arguments that make llama.cpp place exactly this layout. Passing the unit counts themselves as the split is
 * exact: the points where it changes device and the places it compares them with are then quotients of the same
 * two whole numbers.
 */
export function engineSplitArguments(layout: SplitLayout): EngineSplit {
  const tensorSplit = [...layout.leaderDevices, ...layout.stages].map((part) => part.units);
  return {
    gpuLayers: tensorSplit.reduce((sum, units) => sum + units, 0),
    localDevices: layout.leaderDevices.map((device) => device.id),
    tensorSplit,
  };
}
