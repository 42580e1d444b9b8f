import { z } from 'zod';
import { jobSpecSchema } from './job-spec.ts';

/**
 * The specification as JSON Schema (2020-12), for editors and other programs: what may be written, defaults
 * optional. `GET /api/jobs/schema` and `docs/job.schema.json`. What fields need of one another
 * (`checkJobSpec`) is not in it.
 */
export function jobJsonSchema(): Readonly<Record<string, unknown>> {
  const { $schema, ...schema } = z.toJSONSchema(jobSpecSchema, { io: 'input', unrepresentable: 'any' });
  return { $schema, title: 'Covey job', ...schema };
}
