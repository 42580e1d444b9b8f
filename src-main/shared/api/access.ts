import { z } from 'zod';
import { settingsSchema } from '../settings.ts';

/**
 * Who may call what. `admin`: the local token of a controller, a session that the controller issued, or a key
 * with scope `admin`. `local`: the local token of this machine; on a controller that is `admin` as well.
 * `inference`: an API key, or anybody on loopback unless `api.requireKey` is set. `public`: anybody who can
 * reach the port.
 */
export type Access = 'public' | 'inference' | 'local' | 'admin';

export const keyScopeSchema = z.enum(['inference', 'admin']);
export const keyViewSchema = z.object({
  id: z.string(),
  name: z.string(),
  scope: keyScopeSchema,
  createdAt: z.number(),
  /** To the minute. */
  lastUsedAt: z.number().nullable(),
});
export type KeyView = z.infer<typeof keyViewSchema>;

const keyName = 'must have 1 to 64 characters, none of them a control character';

export const createKeyBodySchema = z.strictObject({
  name: z
    .string()
    .max(64, keyName)
    .regex(/^[^\p{C}]+$/u, keyName),
  scope: keyScopeSchema.default('inference'),
});
/** `key` is shown this once. */
export const createdKeySchema = keyViewSchema.extend({ key: z.string() });

export const loginCodeViewSchema = z.object({
  /** Single use, for a minute. */
  code: z.string(),
  /** Opens the dashboard, logged in: the code is in the fragment, which no server and no log sees. */
  url: z.string(),
  expiresAt: z.number(),
});
/** To be typed, or opened, on another machine: single use, for a few minutes. */
export const signInCodeViewSchema = z.object({
  code: z.string(),
  /** On any machine of the covey whose API is at the port of the controller's: the code is in the fragment. */
  url: z.string(),
  expiresAt: z.number(),
  /** From now on: clocks of machines differ. */
  lifeMs: z.number(),
});
export type SignInCodeView = z.infer<typeof signInCodeViewSchema>;
export const redeemBodySchema = z.strictObject({ code: z.string().min(1).max(128) });
export const sessionViewSchema = z.object({
  token: z.string(),
  /** `machine`: for what is about the machine that gave it, and no more. */
  role: z.enum(['admin', 'machine']),
  expiresAt: z.number(),
});
export type SessionView = z.infer<typeof sessionViewSchema>;

export const settingsViewSchema = z.object({
  settings: settingsSchema,
  /** Where they are kept. */
  file: z.string(),
  /** `https://HOST:PORT` while LAN access is on. */
  lanAddresses: z.array(z.string()),
  /** SHA-256 of the LAN certificate in use, and of our CA when it is the issuer; null when off. */
  lanCertificate: z
    .object({ fingerprint: z.string(), caFingerprint: z.string().nullable(), expiresAt: z.number() })
    .nullable(),
  /** What keeps a setting from having effect, one sentence each. */
  problems: z.array(z.string()),
});
export type SettingsView = z.infer<typeof settingsViewSchema>;

/** A part of the settings, deep; checked as a whole after it was merged. */
export const settingsPatchSchema = z.record(z.string().max(64), z.unknown());

export const accessRoutes = {
  loginCode: { method: 'POST', path: '/api/login-codes', access: 'admin', response: loginCodeViewSchema },
  signInCode: { method: 'POST', path: '/api/sign-in-codes', access: 'admin', response: signInCodeViewSchema },
  redeem: {
    method: 'POST',
    path: '/api/sessions',
    access: 'public',
    body: redeemBodySchema,
    response: sessionViewSchema,
  },
  logout: { method: 'DELETE', path: '/api/sessions/current', access: 'admin', response: z.object({}) },
  keys: {
    method: 'GET',
    path: '/api/keys',
    access: 'admin',
    response: z.object({ keys: z.array(keyViewSchema) }),
  },
  createKey: {
    method: 'POST',
    path: '/api/keys',
    access: 'admin',
    body: createKeyBodySchema,
    response: createdKeySchema,
  },
  revokeKey: { method: 'DELETE', path: '/api/keys/:id', access: 'admin', response: z.object({}) },
  settings: { method: 'GET', path: '/api/settings', access: 'local', response: settingsViewSchema },
  setSettings: {
    method: 'PATCH',
    path: '/api/settings',
    access: 'local',
    body: settingsPatchSchema,
    response: settingsViewSchema,
  },
} as const;
