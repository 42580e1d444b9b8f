/**
 * How the layers of a model lie over machines, as the strip in the load dialog edits them: whole layers per
 * machine in pipeline order that always add up to the model's. `mins` is the fewest that each may have: 1, or 0
 * for a leader, which may lead without computing.
 */
export type Layers = readonly number[];

const at = (list: Layers, index: number): number => list[index] ?? 0;
const sum = (list: Layers): number => list.reduce((total, value) => total + value, 0);

/** Where one machine's layers end and the next one's begin; one fewer than machines. */
export function boundaries(layers: Layers): number[] {
  let position = 0;
  return layers.slice(0, -1).map((count) => (position += count));
}

/** How far boundary `index` may go: the machines beside it keep their least. */
export function boundaryLimits(layers: Layers, mins: Layers, index: number): { from: number; to: number } {
  const start = sum(layers.slice(0, index));
  const end = start + at(layers, index) + at(layers, index + 1);
  return { from: start + at(mins, index), to: end - at(mins, index + 1) };
}

/** Moves a boundary to a position counted in layers from the start; only the two machines beside it change. */
export function moveBoundary(layers: Layers, mins: Layers, index: number, to: number): number[] {
  if (index < 0 || index >= layers.length - 1) return [...layers];
  const limits = boundaryLimits(layers, mins, index);
  const position = Math.min(Math.max(Math.round(to), limits.from), Math.max(limits.from, limits.to));
  const start = sum(layers.slice(0, index));
  const both = at(layers, index) + at(layers, index + 1);
  return layers.map((count, place) => {
    if (place === index) return position - start;
    return place === index + 1 ? both - (position - start) : count;
  });
}

/**
 * Gives one machine `count` layers, or as near as the others allow. They are taken from and given to the machines
 * after it first, the nearest first, then those before it.
 */
export function setLayers(layers: Layers, mins: Layers, index: number, count: number): number[] {
  if (!Number.isFinite(count) || index < 0 || index >= layers.length || layers.length < 2) return [...layers];
  const result = [...layers];
  const places = [...layers.keys()];
  const others = [...places.slice(index + 1), ...places.slice(0, index).reverse()];
  const spare = others.reduce((total, place) => total + at(layers, place) - at(mins, place), 0);
  const most = at(layers, index) + spare;
  let change = Math.min(Math.max(Math.round(count), at(mins, index)), most) - at(layers, index);
  result[index] = at(layers, index) + change;
  for (const place of others) {
    // Whoever is nearest takes all that is given away, but gives no more than it can spare.
    const part = Math.min(change, at(layers, place) - at(mins, place));
    result[place] = at(layers, place) - part;
    change -= part;
  }
  return result;
}

/** Where a key moves a boundary to, or null for keys that do not. */
export function boundaryAfterKey(key: string, layers: Layers, mins: Layers, index: number): number | null {
  const position = boundaries(layers)[index];
  if (position === undefined) return null;
  const limits = boundaryLimits(layers, mins, index);
  const stride = Math.max(1, Math.round(sum(layers) / 10));
  switch (key) {
    case 'ArrowLeft':
    case 'ArrowDown':
      return position - 1;
    case 'ArrowRight':
    case 'ArrowUp':
      return position + 1;
    case 'PageDown':
      return position - stride;
    case 'PageUp':
      return position + stride;
    case 'Home':
      return limits.from;
    case 'End':
      return limits.to;
    default:
      return null;
  }
}

/**
 * Shares `total` layers out by weight, each machine its least first, whole layers by largest remainder. Weights
 * that are all zero count as equal. With fewer layers than the least of all, the last machines get none.
 */
export function shareOut(total: number, weights: Layers, mins: Layers): number[] {
  let left = total;
  const result = mins.map((least) => {
    const given = Math.min(least, left);
    left -= given;
    return given;
  });
  const usable = weights.map((weight) => (Number.isFinite(weight) && weight > 0 ? weight : 0));
  const shares = usable.some((weight) => weight > 0) ? usable : usable.map(() => 1);
  const scale = Math.max(...shares, 0);
  if (left <= 0 || scale === 0) return result;
  const all = shares.reduce((partial, share) => partial + share / scale, 0);
  // What each is still owed of its exact share beyond its least.
  const owed = shares.map((share, index) => Math.max(0, (total * (share / scale)) / all - at(result, index)));
  const owedSum = sum(owed) || 1;
  const exact = owed.map((part) => (left * part) / owedSum);
  exact.forEach((part, index) => (result[index] = at(result, index) + Math.floor(part)));
  let rest = total - sum(result);
  const byFraction = [...exact.keys()].sort(
    (a, b) => (at(exact, b) % 1) - (at(exact, a) % 1) || at(shares, b) - at(shares, a) || a - b,
  );
  for (let turn = 0; rest > 0; turn = (turn + 1) % byFraction.length, rest--) {
    const place = byFraction[turn] ?? 0;
    result[place] = at(result, place) + 1;
  }
  return result;
}

/** Percent of the whole for each machine, one decimal. */
export function percentages(layers: Layers): number[] {
  const total = sum(layers);
  return layers.map((count) => (total === 0 ? 0 : Math.round((count / total) * 1000) / 10));
}
