import { z } from 'zod';
import { nodeIdSchema } from '../lib/ids.ts';
import { addressSchema, shortText } from '../domain/node.ts';
import { secretSchema } from '../domain/engine.ts';
import { errorBodySchema } from '../domain/error-body.ts';

/**
 * Join: the worker dials ALPN `covey-join`, checks that the controller's key is the one that the join string
 * names, and only then sends one request; the controller answers with one reply and closes. Both are a
 * 4-byte big-endian length and that many bytes of JSON, at most LIMITS.joinBytes.
 */
export const joinRequestSchema = z.object({
  protocol: z.number().int(),
  secret: secretSchema,
  name: shortText,
});
export type JoinRequest = z.infer<typeof joinRequestSchema>;

export const joinReplySchema = z.discriminatedUnion('ok', [
  z.object({ ok: z.literal(true), controllerId: nodeIdSchema, controllerName: shortText }),
  z.object({ ok: z.literal(false), error: errorBodySchema }),
]);
export type JoinReply = z.infer<typeof joinReplySchema>;

/**
 * A join string: `covey1.` + base64url of JSON. It names the controller (key fingerprint and addresses) and
 * carries a secret that works once and expires. Length <= 2 KiB.
 */
export const joinStringSchema = z.object({
  controllerId: nodeIdSchema,
  addresses: z.array(addressSchema).min(1).max(16),
  secret: secretSchema,
  expiresAt: z.number().int().positive(),
});
export type JoinStringContent = z.infer<typeof joinStringSchema>;

/** First bytes on a `covey-tunnel` or `covey-http` connection, same framing as join. */
export const preambleSchema = z.discriminatedUnion('target', [
  /** A byte stream to the engine that the grant names. */
  z.object({ protocol: z.number().int(), target: z.literal('engine'), grant: secretSchema }),
  /** The liveness line between a leader and a stage; the grant is the stage's. Bytes: see transport/pulse. */
  z.object({ protocol: z.number().int(), target: z.literal('pulse'), grant: secretSchema }),
  /** HTTP to the controller's gateway (`/v1` only), as the member that dials. */
  z.object({ protocol: z.number().int(), target: z.literal('gateway') }),
]);
export type Preamble = z.infer<typeof preambleSchema>;

export const preambleReplySchema = z.discriminatedUnion('ok', [
  z.object({ ok: z.literal(true) }),
  z.object({ ok: z.literal(false), error: errorBodySchema }),
]);
export type PreambleReply = z.infer<typeof preambleReplySchema>;
