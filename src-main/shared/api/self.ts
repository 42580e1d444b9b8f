import { z } from 'zod';
import { addressAttemptSchema, interfaceSchema } from '../domain/network.ts';
import { addressSchema, deviceSchema } from '../domain/node.ts';
import { doctorCheckSchema } from '../domain/doctor.ts';
import { errorBodySchema } from '../domain/error-body.ts';
import { lendStateSchema } from '../domain/lend.ts';
import { linkPathSchema } from '../domain/engine.ts';
import { nodeIdSchema } from '../lib/ids.ts';
import { loginCodeViewSchema, redeemBodySchema, sessionViewSchema } from './access.ts';
import { joinViewSchema, startJoinBodySchema } from './joining.ts';

/** This machine itself, whatever its role: answered here, never by the controller of a worker. */
export const selfViewSchema = z.object({
  role: z.enum(['controller', 'worker']),
  nodeId: nodeIdSchema,
  name: z.string(),
  version: z.string(),
  apiAddress: z.string(),
  clusterAddress: addressSchema.nullable(),
  dataDirectory: z.string(),
  /** A worker's covey; null: it belongs to none (or this is the controller). */
  membership: z
    .object({
      controllerId: nodeIdSchema,
      controllerName: z.string(),
      connected: z.boolean(),
      /** Where the session is, or the addresses to be tried next. */
      addresses: z.array(addressSchema),
      trouble: errorBodySchema.nullable(),
    })
    .nullable(),
  /** A worker's way to membership; null on a controller. */
  join: joinViewSchema.nullable(),
  /** Whether this machine is lent now; null: it has no worker (a controller that lends nothing). */
  lend: lendStateSchema.nullable(),
  /** What people at this machine should know: a copied identity, another controller with our secret, ... */
  notices: z.array(errorBodySchema),
});
export type SelfView = z.infer<typeof selfViewSchema>;

/**
 * A machine that announces itself. An announcement proves nothing: `verified` says whether a TLS handshake at
 * one of its addresses showed the key that it claims.
 */
export const discoveredSchema = z.object({
  nodeId: nodeIdSchema,
  name: z.string(),
  role: z.enum(['controller', 'worker']),
  version: z.string(),
  /**
   * `self`: this node. `member`: of our covey. `controller`: ours. `kin`: shows our cluster secret's mark but is no
   * member yet. `stranger`. `duplicate`: claims a key that another machine uses too.
   */
  relation: z.enum(['self', 'member', 'controller', 'kin', 'stranger', 'duplicate']),
  verified: z.boolean(),
  attempts: z.array(addressAttemptSchema),
  interfaces: z.array(z.string()),
  lastSeenAt: z.number(),
});
export type Discovered = z.infer<typeof discoveredSchema>;

export const discoveryViewSchema = z.object({
  enabled: z.boolean(),
  interfaces: z.array(interfaceSchema),
  machines: z.array(discoveredSchema),
  /** Why nothing may be found, in one sentence. */
  problem: z.string().nullable(),
});
export type DiscoveryView = z.infer<typeof discoveryViewSchema>;

export const pairCheckSchema = z.object({
  from: nodeIdSchema,
  fromName: z.string(),
  to: nodeIdSchema,
  toName: z.string(),
  path: linkPathSchema.nullable(),
  rttMs: z.number().nullable(),
  bytesPerS: z.number().nullable(),
  measuredAt: z.number(),
  attempts: z.array(addressAttemptSchema),
  error: errorBodySchema.nullable(),
});
export type PairCheck = z.infer<typeof pairCheckSchema>;

export const doctorReportSchema = z.object({
  nodes: z.array(
    z.object({
      nodeId: nodeIdSchema,
      name: z.string(),
      checks: z.array(doctorCheckSchema),
      /** Why the node's own checks are missing. */
      error: errorBodySchema.nullable(),
    }),
  ),
  /** Between nodes; only in a controller's report. */
  pairs: z.array(pairCheckSchema),
});
export type DoctorReport = z.infer<typeof doctorReportSchema>;

/** What rules of lending can be about on this machine. */
export const lendMeansSchema = z.object({
  /** Its graphics cards; null: nobody has looked yet, since it belongs to no covey. */
  gpus: z.array(deviceSchema).nullable(),
  /** Rules that this system cannot sense, whether they are set or not, each with the reason. */
  unavailable: lendStateSchema.shape.unavailable,
});
export type LendMeans = z.infer<typeof lendMeansSchema>;

export const selfRoutes = {
  self: { method: 'GET', path: '/api/self', access: 'local', response: selfViewSchema },
  join: {
    method: 'POST',
    path: '/api/self/join',
    access: 'local',
    body: startJoinBodySchema,
    response: joinViewSchema,
  },
  confirmJoin: { method: 'POST', path: '/api/self/join/confirm', access: 'local', response: joinViewSchema },
  cancelJoin: { method: 'DELETE', path: '/api/self/join', access: 'local', response: joinViewSchema },
  /** A worker forgets its covey and is free to join another. */
  leave: { method: 'POST', path: '/api/self/leave', access: 'local', response: selfViewSchema },
  /** Tries every address, so it takes seconds. */
  discovery: { method: 'GET', path: '/api/discovery', access: 'local', response: discoveryViewSchema },
  doctor: { method: 'POST', path: '/api/doctor', access: 'local', response: doctorReportSchema },
  lendMeans: { method: 'GET', path: '/api/self/lend-means', access: 'local', response: lendMeansSchema },
  /** For a browser on this machine that shows the machine's own page. */
  machineCode: {
    method: 'POST',
    path: '/api/self/login-codes',
    access: 'local',
    response: loginCodeViewSchema,
  },
  machineSession: {
    method: 'POST',
    path: '/api/self/sessions',
    access: 'public',
    body: redeemBodySchema,
    response: sessionViewSchema,
  },
  /** The last measurement of every pair, without a new one. */
  links: {
    method: 'GET',
    path: '/api/links',
    access: 'admin',
    response: z.object({ links: z.array(pairCheckSchema) }),
  },
} as const;
