import { parseDocument } from 'yaml';
import { checkJobSpec } from '#shared/domain/job-rules.ts';
import { jobSpecSchema, type JobSpec } from '#shared/domain/job-spec.ts';
import { UsageError } from './failure.ts';

const schemaHint = '"covey jobs schema" prints what a specification may hold.';

/**
 * A job's specification from a JSON or YAML document.
 * @param origin the file, for errors
 * @throws UsageError naming the line or the field
 */
export function readJobDocument(text: string, origin: string): JobSpec {
  return checkedSpec(parse(text, origin), `${origin}: `);
}

/**
 * @param origin before each sentence: where the values came from
 * @throws UsageError with everything that is wrong, by field
 */
export function checkedSpec(value: unknown, origin = ''): JobSpec {
  const parsed = jobSpecSchema.safeParse(value);
  const problems = parsed.success
    ? checkJobSpec(parsed.data)
    : parsed.error.issues.map((issue) => {
        // An unknown key is reported at the object that holds it.
        const keys = issue.code === 'unrecognized_keys' ? issue.keys.slice(0, 1) : [];
        return { field: [...issue.path, ...keys].map(String).join('.'), message: sentence(issue) };
      });
  if (parsed.success && problems.length === 0) return parsed.data;
  const lines = problems
    .slice(0, 16)
    .map(({ field, message }) => `${field === '' ? 'the document' : field}: ${message}`);
  const [first = 'it is not a job', ...others] = lines;
  throw new UsageError(`${origin}${first}.${others.map((line) => `\n  ${line}.`).join('')}`, schemaHint);
}

function sentence(issue: {
  readonly message: string;
  readonly code: string;
  readonly note?: string;
}): string {
  if (issue.code === 'invalid_union' && issue.note === 'No matching discriminator') {
    return 'must be kernel, command, map, inference or gang';
  }
  return issue.message;
}

/** JSON is YAML too, nearly; a document that says it is JSON is read as JSON. */
function parse(marked: string, origin: string): unknown {
  // Some editors begin files with a byte order mark.
  const text = marked.replace(/^\ufeff/, '');
  if (/\.json$/i.test(origin)) {
    try {
      return JSON.parse(text) as unknown;
    } catch (error) {
      throw new UsageError(`${origin} is not JSON: ${(error as Error).message}.`);
    }
  }
  // Aliases are bounded by the library (100): a small file cannot become a large job.
  const document = parseDocument(text, { uniqueKeys: true, strict: true, version: '1.2' });
  const problem = document.errors[0] ?? document.warnings[0];
  if (problem) throw new UsageError(`${origin} is not YAML: ${problem.message.split('\n')[0]}`);
  try {
    return document.toJS() as unknown;
  } catch (error) {
    throw new UsageError(`${origin} is not YAML: ${(error as Error).message}.`);
  }
}
