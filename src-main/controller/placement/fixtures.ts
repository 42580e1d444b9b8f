import type { ModelInfo } from '#shared/domain/model-info.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { CandidateNode, PlanRequest } from './types.ts';

/** Models and nodes for the planner's tests. */

export const MIB = 1024 * 1024;
export const GIB = 1024 * MIB;

export function nodeId(letter: string): NodeId {
  return letter.repeat(64) as NodeId;
}

/** A node named by one letter: CPU only, 16 GiB free, eligible, with the usual engine, without the model. */
export function candidate(letter: string, changes: Partial<CandidateNode> = {}): CandidateNode {
  return {
    nodeId: nodeId(letter),
    name: letter,
    ineligibleReasons: [],
    ramAvailableBytes: 16 * GIB,
    ramTotalBytes: 16 * GIB,
    devices: [device('CPU', 'cpu', 16)],
    holdsModel: false,
    engineBuildId: 'build-1',
    ...changes,
  };
}

export function device(
  id: string,
  kind: 'cpu' | 'gpu',
  freeGib: number,
  backend = kind === 'cpu' ? 'CPU' : 'CUDA',
  pciId: string | null = null,
): CandidateNode['devices'][number] {
  return { id, kind, backend, name: id, totalBytes: freeGib * GIB, freeBytes: freeGib * GIB, pciId };
}

/** A plain transformer: equal layers, no cache unless asked for. */
export function model(changes: Partial<ModelInfo> & { layerBytes?: number } = {}): ModelInfo {
  const { layerBytes = 512 * MIB, ...rest } = changes;
  const layerCount = rest.layerCount ?? 16;
  return {
    name: 'test',
    architecture: 'llama',
    fileBytes: layerBytes * layerCount,
    layerCount,
    contextLength: 8192,
    embeddingLength: 1024,
    feedForwardLength: 4096,
    headCount: 16,
    headCountKv: 8,
    keyLength: 64,
    valueLength: 64,
    vocabSize: 1000,
    fileType: 'Q4_0',
    hasChatTemplate: true,
    tensorBytes: {
      embedding: 8 * MIB,
      output: 8 * MIB,
      layers: new Array<number>(layerCount).fill(layerBytes),
      other: 0,
    },
    tiedOutput: false,
    kvElements: new Array<number>(layerCount).fill(0),
    stateBytes: new Array<number>(layerCount).fill(0),
    pooling: null,
    embeddingOnly: false,
    split: null,
    ...rest,
  };
}

export function request(changes: Partial<PlanRequest> = {}): PlanRequest {
  return {
    model: model(),
    nodes: null,
    weights: null,
    leader: null,
    contextPerRequest: null,
    parallel: null,
    ...changes,
  };
}
