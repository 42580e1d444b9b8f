import { z } from 'zod';
import { artifactRefSchema, treePathSchema } from './artifact.ts';
import { kernelCallSchema } from './kernel-call.ts';
import { isBoundedJson } from '../lib/bounded-json.ts';

/**
 * What a user asks for. One JSON or YAML document; published as JSON Schema. Everything that is left out has the
 * default that is given here. References to nodes and artifacts are what people type (name, id, prefix of an id):
 * they are resolved when the job is submitted.
 */
const MiB = 1024 * 1024;
const name = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[^\p{C}]+$/u, 'must not contain control characters');
const nodeRef = z.string().min(1).max(256);

export const distributionSchema = z.discriminatedUnion('mode', [
  /** Shares follow the measured speed of this kind of work on each machine. */
  z.strictObject({ mode: z.literal('auto') }),
  /** Shares are positive weights, normalised to 100 %; machines that are not named get nothing. */
  z.strictObject({
    mode: z.literal('manual'),
    shares: z
      .array(z.strictObject({ node: nodeRef, percent: z.number().positive().max(1_000_000) }))
      .min(1)
      .max(1024),
  }),
]);
export type Distribution = z.infer<typeof distributionSchema>;

const commonFields = {
  name: name.optional(),
  distribution: distributionSchema.prefault({ mode: 'auto' }),
  retry: z
    .strictObject({
      /** Attempts at one partition that may fail or crash; those that were lost with a machine do not count. */
      attempts: z.number().int().min(1).max(100).default(3),
      /** Before the second attempt; doubled each time, at most a minute. */
      backoffMs: z.number().int().min(0).max(60_000).default(1_000),
      /** Exit codes that are worth another attempt; absent: every one but 0. */
      exitCodes: z.array(z.number().int().min(1).max(255)).max(255).optional(),
    })
    .prefault({}),
  /** Of one attempt at a partition. */
  timeoutMs: z
    .number()
    .int()
    .min(1_000)
    .max(7 * 86_400_000)
    .default(86_400_000),
  /** A partition that was lost with its machine waits until that machine's lease is certainly over. */
  exclusive: z.boolean().default(false),
  /** A second copy of the slowest partitions near the end; absent: for kinds that only read their input. */
  speculative: z.boolean().optional(),
  /** Higher goes first among waiting jobs. */
  priority: z.number().int().min(-100).max(100).default(0),
  /** Where it may run. */
  requires: z
    .strictObject({
      nodes: z.array(nodeRef).min(1).max(1024).optional(),
      os: z.enum(['linux', 'darwin', 'win32']).optional(),
      arch: z.enum(['x64', 'arm64']).optional(),
      /** Per partition. */
      cpus: z.number().positive().max(4096).default(1),
      memoryBytes: z
        .number()
        .int()
        .min(0)
        .max(2 ** 50)
        .default(256 * MiB),
    })
    .prefault({}),
} as const;

/** Whole number: exactly so many; `auto`: by speed, smaller toward the end. */
const partitionsSchema = z.union([z.literal('auto'), z.number().int().min(1).max(100_000)], {
  error: 'must be "auto" or a whole number from 1 to 100000',
});

export const limitsSchema = z
  .strictObject({
    memoryBytes: z
      .number()
      .int()
      .min(16 * MiB)
      .max(2 ** 50)
      .default(1024 * MiB),
    processes: z.number().int().min(1).max(100_000).default(256),
    /** Standard output, standard error and output files, together. */
    outputBytes: z
      .number()
      .int()
      .min(0)
      .max(2 ** 46)
      .default(1024 * MiB),
  })
  .prefault({});
export type Limits = z.infer<typeof limitsSchema>;

/** Of variables. What is wrong with a name is said, not only that something is. */
function byName(longest: number) {
  const rule = 'must be a name of letters, digits and _, at most 128, not beginning with a digit';
  return z
    .record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/), z.string().max(longest), {
      error: (issue) => (issue.code === 'invalid_key' ? rule : undefined),
    })
    .default({});
}

/**
 * What is run. Arguments, environment and paths may hold `{index}` `{count}` `{attempt}` `{cpus}`, for ranges of
 * items `{from}` `{to}`, `{input}` (the first input's path) and `{input.NAME}`, `{output}` (the directory that
 * outputs are taken from); `{{` is a brace.
 */
const programFields = {
  /** The program and its arguments, run without a shell. */
  command: z.array(z.string().max(32_768)).min(1).max(1024).optional(),
  /** Instead: the text of a script, run by `interpreter`. */
  script: z.string().min(1).max(MiB).optional(),
  interpreter: z.array(z.string().min(1).max(4096)).min(1).max(16).default(['/bin/sh']),
  env: byName(32_768),
  /** Found by the program under this path in its working directory. */
  inputs: z
    .array(z.strictObject({ artifact: artifactRefSchema, path: treePathSchema }))
    .max(64)
    .default([]),
  /** Written to files that only the program can read; their paths are in `NAME_FILE`. Never shown or logged. */
  secrets: byName(65_536),
  limits: limitsSchema,
  /** `lan`: sees the network of its machine; only where its owner allows that. */
  network: z.enum(['none', 'lan']).default('none'),
} as const;

export const datasetSchema = z.strictObject({
  artifact: artifactRefSchema,
  /** `text`: records are lines. `binary`: records of `recordBytes`. `csv`: quoted line breaks belong to a record. */
  format: z.enum(['csv', 'jsonl', 'text', 'binary']),
  recordBytes: z.number().int().min(1).max(MiB).optional(),
  /** csv: the first record is a header and is given to every partition. */
  header: z.boolean().default(true),
});
export type Dataset = z.infer<typeof datasetSchema>;

export const kernelJobSchema = z.strictObject({
  kind: z.literal('kernel'),
  ...commonFields,
  ...kernelCallSchema.shape,
  /** A file of elements, little-endian, without a header. */
  input: artifactRefSchema,
  /** `dot_product`: the other vector, as long as the first. */
  second: artifactRefSchema.optional(),
  partitions: partitionsSchema.default('auto'),
});

export const commandJobSchema = z.strictObject({
  kind: z.literal('command'),
  ...commonFields,
  ...programFields,
  /** How many times it runs, each with its `{index}`. Several are counted, never divided by themselves. */
  partitions: z.number().int().min(1).max(100_000).default(1),
  /** Files or folders below the output directory that become artifacts. */
  outputs: z
    .array(z.strictObject({ path: treePathSchema, optional: z.boolean().default(false) }))
    .max(64)
    .default([]),
});

export const mapJobSchema = z.strictObject({
  kind: z.literal('map'),
  ...commonFields,
  ...programFields,
  dataset: datasetSchema,
  /** `chunk`: once for many records on standard input; `record`: once for each. Output is kept in order. */
  per: z.enum(['chunk', 'record']).default('chunk'),
  partitions: partitionsSchema.default('auto'),
});

const parameterLevels = 32;
const parameterSchema = z.custom<z.output<ReturnType<typeof z.json>>>(
  (value) => isBoundedJson(value, parameterLevels),
  `must be JSON, at most ${parameterLevels} levels deep`,
);

export const inferenceJobSchema = z.strictObject({
  kind: z.literal('inference'),
  ...commonFields,
  /** A model that is served, as clients of `/v1` name it. */
  model: z.string().min(1).max(256),
  task: z.enum(['chat', 'completion', 'embedding']),
  /** jsonl: each record is a request body, or an object for `prompt`; text: each line is the prompt itself. */
  dataset: datasetSchema,
  /** Text with `{field}` of the record; absent: the record's `messages`, `prompt` or `input`, or the line. */
  prompt: z.string().min(1).max(65_536).optional(),
  system: z.string().max(65_536).optional(),
  /** Parameters of the request, such as `max_tokens` and `temperature`. */
  parameters: z.record(z.string().max(64), parameterSchema).default({}),
  /** Requests at once in a partition. */
  concurrency: z.number().int().min(1).max(64).default(4),
  partitions: partitionsSchema.default('auto'),
});

export const gangJobSchema = z.strictObject({
  kind: z.literal('gang'),
  ...commonFields,
  ...programFields,
  /** Started together or not at all, on as many machines as there are unless `perNode` says otherwise. */
  ranks: z.number().int().min(1).max(1024),
  /** At most so many ranks on one machine. */
  perNode: z.number().int().min(1).max(1024).optional(),
  /** Free ports that each rank gets (`COVEY_PORTS`). Without `network: lan` ranks cannot reach each other at all. */
  ports: z.number().int().min(0).max(16).default(1),
  /** Starts of the whole gang; one rank that fails ends all. */
  restarts: z.number().int().min(0).max(100).default(0),
  outputs: z
    .array(z.strictObject({ path: treePathSchema, optional: z.boolean().default(false) }))
    .max(64)
    .default([]),
});

/** Schema checks only; `checkJobSpec` (job-rules.ts) says what fields need of one another. */
export const jobSpecSchema = z.discriminatedUnion('kind', [
  kernelJobSchema,
  commandJobSchema,
  mapJobSchema,
  inferenceJobSchema,
  gangJobSchema,
]);
export type JobSpec = z.infer<typeof jobSpecSchema>;
export type JobKind = JobSpec['kind'];
export type JobSpecOf<K extends JobKind> = Extract<JobSpec, { kind: K }>;
