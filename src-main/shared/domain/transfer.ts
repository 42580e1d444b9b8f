import { z } from 'zod';
import { nodeIdSchema } from '../lib/ids.ts';
import { errorBodySchema } from './error-body.ts';

/** An import or a download of a model into a machine's library. */
export const transferViewSchema = z.object({
  id: z.string(),
  kind: z.enum(['import', 'pull']),
  nodeId: nodeIdSchema,
  source: z.string(),
  status: z.enum(['running', 'done', 'failed', 'cancelled']),
  doneBytes: z.number(),
  totalBytes: z.number().nullable(),
  bytesPerS: z.number().nullable(),
  model: z.string().nullable(),
  error: errorBodySchema.nullable(),
});
export type TransferView = z.infer<typeof transferViewSchema>;
