import type { JobId } from '#shared/lib/ids.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { jobSpecSchema } from '#shared/domain/job-spec.ts';
import type { Work } from '#shared/domain/task.ts';
import type { JobDefinition } from './job-state.ts';

/** For tests: a sum over so many elements, cut by speed. */
export const jobId = 'j-00000001' as JobId;

const input = { id: 'a'.repeat(64) as ArtifactId, kind: 'file' as const, bytes: 8_000 };

export const indexWork: Extract<Work, { kind: 'index' }> = {
  kind: 'index',
  dataset: { artifact: input, format: 'text', recordBytes: null, header: false },
};

export function definition(overrides: Partial<JobDefinition> = {}): JobDefinition {
  return {
    id: jobId,
    name: 'job',
    kind: 'kernel',
    spec: jobSpecSchema.parse({ kind: 'kernel', kernel: 'sum', type: 'f64', input: 'data' }),
    work: { kind: 'kernel', call: { kernel: 'sum', type: 'f64' }, input, second: null },
    index: null,
    total: 1_000,
    unit: 'elements',
    division: { mode: 'auto', smallest: 1, largest: 1_000_000 },
    demand: { cpus: 1, memoryBytes: 0, wholeNode: false },
    place: { nodes: null, os: null, arch: null, kernel: null, commands: false, network: false },
    retry: { attempts: 3, backoffMs: 100, exitCodes: null },
    timeoutMs: 60_000,
    exclusive: false,
    speculative: false,
    priority: 0,
    gang: null,
    notes: [],
    createdAt: 0,
    ...overrides,
  };
}

/** Work whose tasks take one processor each. */
export const commandWork: Work = {
  kind: 'command',
  program: {
    command: ['/bin/true'],
    script: null,
    interpreter: [],
    env: {},
    secrets: {},
    inputs: [],
    limits: { memoryBytes: 2 ** 30, processes: 16, outputBytes: 2 ** 20 },
    network: 'none',
    cpus: 1,
  },
  outputs: [],
};
