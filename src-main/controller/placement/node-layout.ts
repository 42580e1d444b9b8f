import type { Device } from '#shared/domain/node.ts';
import type { ModelInfo } from '#shared/domain/model-info.ts';
import { deviceMemory, leaderMemory, stageProcessBytes, type Shape } from './estimate.ts';
import { consecutive, largestRemainder, type UnitRange } from './split.ts';
import type { CandidateNode, PlacementPolicy } from './types.ts';

/** llama_max_devices is 16 and counts the CPU (GGML_SCHED_MAX_BACKENDS). */
const MAX_DEVICES = 15;

/** When one card shows up under two backends, the earlier here is used. */
const backendOrder = ['CUDA', 'ROCm', 'HIP', 'MTL', 'Metal', 'SYCL', 'Vulkan'];

interface Budget {
  readonly ramBytes: number;
  readonly accelerators: readonly { readonly id: string; readonly bytes: number }[];
}

export interface DeviceShare {
  readonly device: string;
  readonly range: UnitRange;
  /** Tensors that must get there. */
  readonly weightBytes: number;
  readonly bytes: number;
}

/** How a node's units lie on its devices: the CPU's first, as the engine wants it on the leader. */
export interface NodeLayout {
  /** On a leader also the part that is there without any unit: embeddings, buffers, the process. */
  readonly cpu: DeviceShare;
  /** Those that got units. */
  readonly accelerators: readonly DeviceShare[];
  readonly fits: boolean;
  readonly neededBytes: number;
  readonly availableBytes: number;
}

export function cpuDevice(node: CandidateNode): string {
  return node.devices.find((device) => device.kind === 'cpu')?.id ?? 'CPU';
}

/** Accelerators of a node, one card once. */
export function accelerators(node: CandidateNode): readonly Device[] {
  const rank = (device: Device): number => {
    const place = backendOrder.findIndex((name) =>
      device.backend.toLowerCase().startsWith(name.toLowerCase()),
    );
    return place === -1 ? backendOrder.length : place;
  };
  const gpus = node.devices.filter((device) => device.kind === 'gpu');
  return gpus.filter(
    (device, index) =>
      device.pciId === null ||
      !gpus.some(
        (other, place) =>
          other.pciId === device.pciId &&
          place !== index &&
          (rank(other) < rank(device) || (rank(other) === rank(device) && place < index)),
      ),
  );
}

/** How many devices a leader's engine can have besides its CPU and other built-in backends (BLAS). */
export function deviceLimit(leader: CandidateNode): number {
  const others = leader.devices.filter(
    (device) => device.kind === 'cpu' && device.id !== cpuDevice(leader),
  ).length;
  return MAX_DEVICES - others;
}

function budget(node: CandidateNode, policy: PlacementPolicy): Budget {
  const usable = (bytes: number): number => Math.floor(bytes * (1 - policy.headroomFraction));
  return {
    ramBytes: usable(node.ramAvailableBytes),
    accelerators: accelerators(node).map((device) => ({ id: device.id, bytes: usable(device.freeBytes) })),
  };
}

/**
 * What a node's share goes by when nobody names shares: its accelerators' memory, its RAM if it has none or none of
 * theirs is free (its owner may not lend them).
 */
export function usableBytes(node: CandidateNode, policy: PlacementPolicy): number {
  const { ramBytes, accelerators: cards } = budget(node, policy);
  return cards.reduce((sum, card) => sum + card.bytes, 0) || ramBytes;
}

/**
 * Puts consecutive units on a node: on its accelerators by their memory, on the CPU only what they cannot take.
 * `fits` is false when the CPU cannot take that either; the layout then shows what it would need.
 */
export function layOutNode(
  node: CandidateNode,
  role: 'leader' | 'stage',
  range: UnitRange,
  model: ModelInfo,
  shape: Shape,
  policy: PlacementPolicy,
): NodeLayout {
  const { ramBytes, accelerators: cards } = budget(node, policy);
  const units = range.to - range.from;
  const memory = cards.map((card) => card.bytes);

  const attempt = (cpuUnits: number): NodeLayout | null => {
    const counts = memory.some((bytes) => bytes > 0) ? largestRemainder(units - cpuUnits, memory) : null;
    if (counts === null && cpuUnits < units) return null;
    const ranges = consecutive(counts ?? [], range.from + cpuUnits);
    const shares: DeviceShare[] = [];
    for (const [index, card] of cards.entries()) {
      const part = ranges[index];
      if (part === undefined || part.to === part.from) continue;
      const use = deviceMemory(model, part, shape);
      if (use.totalBytes > card.bytes) return null;
      shares.push({ device: card.id, range: part, weightBytes: use.weightBytes, bytes: use.totalBytes });
    }
    const cpuRange = { from: range.from, to: range.from + cpuUnits };
    const cpu = cpuShare(cpuRange, shares.length);
    return {
      cpu,
      accelerators: shares,
      fits: cpu.bytes <= ramBytes,
      neededBytes: shares.reduce((sum, share) => sum + share.bytes, cpu.bytes),
      availableBytes: memory.reduce((sum, bytes) => sum + bytes, ramBytes),
    };
  };

  const cpuShare = (cpuRange: UnitRange, processes: number): DeviceShare => {
    const device = cpuDevice(node);
    if (role === 'leader') {
      const use = leaderMemory(model, cpuRange, shape);
      return { device, range: cpuRange, weightBytes: use.weightBytes, bytes: use.totalBytes };
    }
    const alone = cpuRange.to === cpuRange.from;
    const use = alone ? { weightBytes: 0, totalBytes: 0 } : deviceMemory(model, cpuRange, shape);
    const bytes = use.totalBytes + stageProcessBytes * (processes + (alone ? 0 : 1));
    return { device, range: cpuRange, weightBytes: use.weightBytes, bytes };
  };

  for (let cpuUnits = 0; cpuUnits < units; cpuUnits++) {
    const layout = attempt(cpuUnits);
    // More units on the CPU only need more of its memory: the first layout that the accelerators take is the best.
    if (layout !== null) return layout;
  }
  return attempt(units) as NodeLayout;
}
