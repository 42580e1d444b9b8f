import { z } from 'zod';
import { nodeIdSchema } from '../lib/ids.ts';
import { addressSchema, shortText } from '../domain/node.ts';
import { secretSchema } from '../domain/engine.ts';
import { errorBodySchema } from '../domain/error-body.ts';

/**
 * Join: the worker dials ALPN `covey-join` and both sides send frames, each a 4-byte big-endian length and that
 * many bytes of JSON, at most LIMITS.joinBytes. Three ways, all of which end in `admitted` or `refused`:
 *
 * - join string: the worker knows the controller's key and checks it in the handshake; then `join-string`.
 * - approval by people: neither knows the other. `ask` commits the worker to a nonce, `challenge` carries the
 *   controller's, `reveal` opens the commitment. Both derive six digits from both keys, both nonces and the
 *   exporter of this very TLS connection (see nodejs/pairing). A person types the digits that the worker shows
 *   into the controller (`approved`), a person at the worker confirms (`confirm`), in either order.
 * - cluster secret: `prove` with a nonce, `proof` by the controller, `proof` by the worker: MACs over the
 *   exporter, both keys and both nonces, each labelled with its maker's role.
 */
const hex32 = secretSchema;

export const joinWorkerFrame = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('join-string'),
    protocol: z.number().int(),
    name: shortText,
    secret: secretSchema,
  }),
  z.object({ type: z.literal('ask'), protocol: z.number().int(), name: shortText, commitment: hex32 }),
  z.object({ type: z.literal('reveal'), nonce: hex32 }),
  /** The person at the worker says that the controller has taken the digits. */
  z.object({ type: z.literal('confirm') }),
  z.object({ type: z.literal('prove'), protocol: z.number().int(), name: shortText, nonce: hex32 }),
  z.object({ type: z.literal('proof'), mac: hex32 }),
]);
export type JoinWorkerFrame = z.infer<typeof joinWorkerFrame>;

export const joinControllerFrame = z.discriminatedUnion('type', [
  z.object({ type: z.literal('challenge'), controllerName: shortText, nonce: hex32 }),
  /** The request is listed at the controller until then (its clock is not ours: a duration). */
  z.object({ type: z.literal('waiting'), expiresInMs: z.number().int().positive() }),
  /** The digits were typed at the controller; the worker's confirmation is all that lacks. */
  z.object({ type: z.literal('approved') }),
  z.object({ type: z.literal('proof'), controllerName: shortText, nonce: hex32, mac: hex32 }),
  z.object({
    type: z.literal('admitted'),
    controllerId: nodeIdSchema,
    controllerName: shortText,
    /** Where the controller can be dialled, best first; the worker adds the one that it dialled. */
    addresses: z.array(addressSchema).max(16),
  }),
  z.object({ type: z.literal('refused'), error: errorBodySchema }),
]);
export type JoinControllerFrame = z.infer<typeof joinControllerFrame>;

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

/** First bytes on a `covey-tunnel`, `covey-http` or `covey-artifact` connection, same framing as join. */
export const preambleSchema = z.discriminatedUnion('target', [
  /** A byte stream to the engine that the grant names. */
  z.object({ protocol: z.number().int(), target: z.literal('engine'), grant: secretSchema }),
  /** The liveness line between a leader and a stage; the grant is the stage's. Bytes: see transport/pulse. */
  z.object({ protocol: z.number().int(), target: z.literal('pulse'), grant: secretSchema }),
  /** HTTP to the controller's gateway, as the member that dials. */
  z.object({ protocol: z.number().int(), target: z.literal('gateway') }),
  /**
   * A connection that the other side has asked for through the controller because it cannot dial us: once this
   * is accepted it is as if the other side had dialled, and the next preamble comes from there.
   */
  z.object({ protocol: z.number().int(), target: z.literal('reverse'), token: secretSchema }),
  /**
   * To the controller: join this connection to the one that `peer` opens with the same token. Inside runs a TLS
   * session of its own between the two members; the controller sees ciphertext.
   */
  z.object({
    protocol: z.number().int(),
    target: z.literal('relay'),
    token: secretSchema,
    peer: nodeIdSchema,
  }),
  /** To read an artifact that the grant names: see transport/host/artifact-server. */
  z.object({ protocol: z.number().int(), target: z.literal('artifact'), grant: secretSchema }),
  /** Measures the way between two members: see transport/probe. */
  z.object({ protocol: z.number().int(), target: z.literal('probe') }),
]);
export type Preamble = z.infer<typeof preambleSchema>;

export const preambleReplySchema = z.discriminatedUnion('ok', [
  z.object({ ok: z.literal(true) }),
  z.object({ ok: z.literal(false), error: errorBodySchema }),
]);
export type PreambleReply = z.infer<typeof preambleReplySchema>;
