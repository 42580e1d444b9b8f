import { z } from 'zod';

const count = z.number().int().nonnegative();

/** LLAMA_MAX_LAYERS of the engine. */
export const MAX_LAYERS = 512;

export const poolingSchema = z.enum(['none', 'mean', 'cls', 'last', 'rank']);

/**
 * What a GGUF's header says about a model: all that placement needs, without a byte of the weights. Derived by
 * `summariseModel` (shared/gguf); sizes are exact bytes of tensors as they stand in the file.
 */
export const modelInfoSchema = z.object({
  /** `general.name`, else what the file is called; not unique. */
  name: z.string().min(1).max(256),
  /** llama.cpp's name of the architecture: `llama`, `qwen3`, `bert`. */
  architecture: z.string().min(1).max(64),
  /** All shards together. */
  fileBytes: count,
  /** Repeating layers, prediction layers included: what the engine counts (`n_layer_all`). */
  layerCount: z.number().int().min(1).max(MAX_LAYERS),
  /** Tokens of context the model was trained for. */
  contextLength: count,
  embeddingLength: count,
  /** Largest of the layers; 0 when the file does not say. */
  feedForwardLength: count,
  /** Largest of the layers; 0 for models without attention. */
  headCount: count,
  headCountKv: count,
  keyLength: count,
  valueLength: count,
  vocabSize: count,
  /** Quantisation for people: `Q4_K_M`, `F16`; from `general.file_type`, else the type that most bytes have. */
  fileType: z.string().min(1).max(64),
  hasChatTemplate: z.boolean(),
  tensorBytes: z.object({
    /** Token embeddings and other input tables: always in the leader's RAM. */
    embedding: count,
    /** Output norm and head. Without a head of its own (`tiedOutput`) the engine loads the embedding a second time. */
    output: count,
    /** By repeating layer; `layerCount` entries. */
    layers: z.array(count).min(1).max(MAX_LAYERS),
    /** Tensors of no layer: rope factors and the like, copied to every device that needs them. */
    other: count,
  }),
  tiedOutput: z.boolean(),
  /** Elements of K plus V kept per token of context, by repeating layer; 0 where a layer has no attention. */
  kvElements: z.array(count).max(MAX_LAYERS),
  /** Bytes of recurrent state (F32) per parallel request, by repeating layer; 0 for plain attention. */
  stateBytes: z.array(count).max(MAX_LAYERS),
  /** As the file declares it; null when it does not. */
  pooling: poolingSchema.nullable(),
  /** Gives embeddings or ranks only: cannot generate text. */
  embeddingOnly: z.boolean(),
  /** This file among its shards, 0-based; null for a model of one file. */
  split: z.object({ index: count, count: z.number().int().positive() }).nullable(),
  /** SHA-256 of the whole content where someone has verified it. */
  contentHash: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
});
export type ModelInfo = z.infer<typeof modelInfoSchema>;
