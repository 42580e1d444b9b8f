import type { ErrorReason } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { Device } from '#shared/domain/node.ts';
import type { ModelInfo } from '#shared/domain/model-info.ts';

/** Settings of the planner. */
export interface PlacementPolicy {
  /** Share of a node's free memory that a plan leaves alone, 0..1. */
  readonly headroomFraction: number;
}

/** One reason why a request cannot be placed; fits `reasons` of an error body. */
export interface Refusal extends ErrorReason {
  readonly code:
    | 'context_invalid'
    | 'parallel_invalid'
    | 'node_unknown'
    | 'node_repeated'
    | 'no_nodes'
    | 'weight_invalid'
    | 'node_not_eligible'
    | 'engine_missing'
    | 'engine_build_mismatch'
    | 'model_not_held'
    | 'share_too_small'
    | 'too_many_stages'
    | 'too_many_devices'
    | 'insufficient_memory';
  readonly field: string;
}

/** The planner's contract with the scheduler (`scheduler/placing.ts`). */
export interface PlanRequest {
  readonly model: ModelInfo;
  readonly nodes: readonly NodeId[] | null;
  /** Relative shares; a node that is not named in them but is the leader has none. */
  readonly weights: Readonly<Partial<Record<NodeId, number>>> | null;
  readonly leader: NodeId | null;
  readonly contextPerRequest: number | null;
  readonly parallel: number | null;
}

export interface CandidateNode {
  readonly nodeId: NodeId;
  readonly name: string;
  /** Why it may not get work now ("is draining"); empty: it may. */
  readonly ineligibleReasons: readonly string[];
  readonly ramAvailableBytes: number;
  readonly ramTotalBytes: number;
  readonly devices: readonly Device[];
  readonly holdsModel: boolean;
  readonly engineBuildId: string | null;
}

/** Written into SQLite with the replica: plain JSON. */
export interface ReplicaPlan {
  readonly contextPerRequest: number;
  readonly parallel: number;
  /** Repeating layers plus the output layer, as llama.cpp counts. */
  readonly layersTotal: number;
  /** `localLayers` on all of the leader's devices, `cpuLayers` of them on its CPU. */
  readonly leader: {
    readonly nodeId: NodeId;
    readonly localLayers: number;
    readonly cpuLayers: number;
    readonly estimatedBytes: number;
  };
  /** Remote stages in pipeline order. */
  readonly stages: readonly {
    readonly nodeId: NodeId;
    readonly device: string;
    readonly layers: number;
    /** Weights that travel there. */
    readonly weightBytes: number;
    readonly estimatedBytes: number;
  }[];
  /** llama-server's `-ngl`, `--device` (local ones, before the stages) and `-ts`. */
  readonly engine: {
    readonly gpuLayers: number;
    readonly localDevices: readonly string[];
    readonly tensorSplit: readonly number[];
  };
}
