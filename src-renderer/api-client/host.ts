import { z } from 'zod';
import { errorBodySchema } from '#shared/domain/error-body.ts';

const hostSchema = z.discriminatedUnion('role', [
  z.object({ role: z.literal('controller') }),
  z.object({
    role: z.literal('worker'),
    connected: z.boolean(),
    /** Its name; null: not heard, or there is none. */
    controller: z.string().nullable(),
    trouble: errorBodySchema.nullable(),
  }),
]);
/** Whose address this is. */
export type Host = z.infer<typeof hostSchema>;

/** Asks what everybody may know. null: it does not say, over the network for instance, or does not answer. */
export async function askHost(signal: AbortSignal): Promise<Host | null> {
  try {
    const response = await fetch('/healthz', { credentials: 'omit', cache: 'no-store', signal });
    return response.ok ? hostSchema.parse(await response.json()) : null;
  } catch {
    return null;
  }
}
