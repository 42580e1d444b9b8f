import { z } from 'zod';
import { addressSchema, shortText } from './node.ts';
import { linkPathSchema } from './engine.ts';
import { nodeIdSchema } from '../lib/ids.ts';

/** One address that was tried, and what came of it. */
export const addressAttemptSchema = z.object({
  address: addressSchema,
  /** The key that answered there; null: none did. */
  nodeId: nodeIdSchema.nullable(),
  /** TCP and TLS together; null when nothing answered. */
  connectMs: z.number().nonnegative().nullable(),
  /** One clause without a subject ("refuses connections", "does not answer"); null when it answered. */
  problem: z.string().max(512).nullable(),
});
export type AddressAttempt = z.infer<typeof addressAttemptSchema>;

/** The way from one member to another, as measured from the first. */
export const pathProbeSchema = z.object({
  path: linkPathSchema,
  /** Median of several one-byte round trips. */
  rttMs: z.number().nonnegative(),
  /** Slower of the two directions; null when no volume was sent. */
  bytesPerS: z.number().nonnegative().nullable(),
  /** What direct dialling came to. */
  attempts: z.array(addressAttemptSchema).max(16),
});
export type PathProbe = z.infer<typeof pathProbeSchema>;

/** An interface as discovery sees it. */
export const interfaceSchema = z.object({
  name: shortText,
  address: z.string().max(64),
  /** Containers' and VPNs' adapters: asked last. */
  virtual: z.boolean(),
  /** Whether we announce and listen there, and when not, why. */
  working: z.boolean(),
  problem: z.string().max(512).nullable(),
});
export type InterfaceView = z.infer<typeof interfaceSchema>;
