import { z } from 'zod';
import { addressSchema } from '../domain/node.ts';
import { clusterSecretSchema } from '../domain/cluster-secret.ts';
import { errorBodySchema } from '../domain/error-body.ts';
import { nodeIdSchema } from '../lib/ids.ts';

/** The digits that both sides derive; only the worker shows them, the controller wants them typed. */
export const pairingCodeSchema = z
  .string()
  .transform((text) => text.replace(/[\s-]/g, ''))
  .pipe(z.string().regex(/^\d{6}$/, 'must be the six digits that the machine shows'));

/** A machine that asks to join, as the controller sees it. Without the digits: they are to be typed. */
export const pendingViewSchema = z.object({
  /** The first 12 digits of its node id. */
  id: z.string(),
  nodeId: nodeIdSchema,
  name: z.string(),
  remoteAddress: z.string(),
  askedAt: z.number(),
  expiresAt: z.number(),
  approved: z.boolean(),
  /** The person at that machine has confirmed. */
  confirmed: z.boolean(),
});
export type PendingView = z.infer<typeof pendingViewSchema>;

export const blockedViewSchema = z.object({ nodeId: nodeIdSchema, name: z.string(), blockedAt: z.number() });
export type BlockedView = z.infer<typeof blockedViewSchema>;
export const inviteViewSchema = z.object({ joinString: z.string(), expiresAt: z.number() });
export type InviteView = z.infer<typeof inviteViewSchema>;

/** What a machine that is not a member does about it; the worker's own view. */
export const joinViewSchema = z.object({
  /**
   * `idle`: nothing asked. `connecting`. `comparing`: `code` is to be typed at the controller and then confirmed
   * here. `approved`: typed there, not confirmed here. `joined`. `failed`: see `error`.
   */
  phase: z.enum(['idle', 'connecting', 'comparing', 'approved', 'joined', 'failed']),
  by: z.enum(['join-string', 'approval', 'cluster-secret']).nullable(),
  controller: z
    .object({
      nodeId: nodeIdSchema.nullable(),
      name: z.string().nullable(),
      address: addressSchema.nullable(),
    })
    .nullable(),
  code: z.string().nullable(),
  confirmed: z.boolean(),
  expiresAt: z.number().nullable(),
  error: errorBodySchema.nullable(),
});
export type JoinView = z.infer<typeof joinViewSchema>;

/**
 * At most one of them; none: the only controller that discovery finds, else `controllers_ambiguous`. A join string
 * may come with `controller`, an address that is tried before its own.
 */
export const startJoinBodySchema = z
  .strictObject({
    joinString: z.string().min(1).max(4096).optional(),
    clusterSecret: clusterSecretSchema.optional(),
    /** `HOST` or `HOST:PORT`, or the name or node id of a controller that discovery found. */
    controller: z.string().min(1).max(300).optional(),
  })
  .refine(
    ({ joinString, clusterSecret, controller }) =>
      clusterSecret === undefined || (joinString === undefined && controller === undefined),
    { message: 'clusterSecret goes with neither joinString nor controller' },
  );
export type StartJoinBody = z.infer<typeof startJoinBodySchema>;

export const joiningRoutes = {
  invite: { method: 'POST', path: '/api/invites', access: 'admin', response: inviteViewSchema },
  pending: {
    method: 'GET',
    path: '/api/pending',
    access: 'admin',
    response: z.object({ pending: z.array(pendingViewSchema), blocked: z.array(blockedViewSchema) }),
  },
  approve: {
    method: 'POST',
    path: '/api/pending/approve',
    access: 'admin',
    body: z.strictObject({ code: pairingCodeSchema }),
    response: pendingViewSchema,
  },
  deny: {
    method: 'POST',
    path: '/api/pending/:id/deny',
    access: 'admin',
    body: z.strictObject({ block: z.boolean().default(false) }),
    response: pendingViewSchema,
  },
  unblock: { method: 'DELETE', path: '/api/blocked/:id', access: 'admin', response: z.object({}) },
  clusterSecret: {
    method: 'GET',
    path: '/api/cluster-secret',
    access: 'admin',
    response: z.object({ secret: clusterSecretSchema.nullable() }),
  },
  /** Makes one where there is none, and another where there is one. */
  newClusterSecret: {
    method: 'POST',
    path: '/api/cluster-secret',
    access: 'admin',
    response: z.object({ secret: clusterSecretSchema }),
  },
  dropClusterSecret: {
    method: 'DELETE',
    path: '/api/cluster-secret',
    access: 'admin',
    response: z.object({}),
  },
} as const;
