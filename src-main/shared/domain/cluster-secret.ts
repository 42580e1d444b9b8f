import { z } from 'zod';

/**
 * What all machines of one covey may hold to join by themselves: 128 random bits, made by the controller, never
 * typed. `covey-secret.` and 32 hex digits. Keys are derived from it (see nodejs/pairing); it is never sent
 * except over an authenticated session to a member.
 */
export const clusterSecretSchema = z
  .string()
  .regex(/^covey-secret\.[0-9a-f]{32}$/, 'must be "covey-secret." and 32 hexadecimal digits');
