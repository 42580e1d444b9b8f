import { z } from 'zod';

/**
 * One check of the doctor. `warn`: works, but something should be done; `fail`: something does not work;
 * `skipped`: could not be checked here, and `summary` says why.
 */
export const doctorCheckSchema = z.object({
  /** Stable, kebab-case: `clock`, `port-cluster`, `multicast`, ... */
  id: z.string().max(64),
  title: z.string().max(128),
  status: z.enum(['ok', 'warn', 'fail', 'skipped']),
  /** What was found, one sentence. */
  summary: z.string().max(1024),
  /** What to do, one sentence; null when nothing. */
  action: z.string().max(1024).nullable(),
});
export type DoctorCheck = z.infer<typeof doctorCheckSchema>;
