import { parseDocument } from 'yaml';
import { checkJobSpec } from '#shared/domain/job-rules.ts';
import { jobSpecSchema, type JobSpec } from '#shared/domain/job-spec.ts';
import { UsageError } from './failure.ts';
import { specProblems } from './spec-problems.ts';

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
  const problems = parsed.success ? checkJobSpec(parsed.data) : specProblems(parsed.error.issues, value);
  if (parsed.success && problems.length === 0) return parsed.data;
  const lines = problems
    .slice(0, 16)
    .map(({ field, message }) => `${field === '' ? 'the document' : field}: ${message}`);
  const [first = 'it is not a job', ...others] = lines;
  const ended = (line: string): string => (/[.?]$/.test(line) ? line : `${line}.`);
  // Programs such as awk have braces of their own, and many.
  const braces =
    parsed.success &&
    problems.some(({ field, message }) => field.startsWith('command.') && /[{]/.test(message));
  throw new UsageError(
    `${origin}${ended(first)}${others.map((line) => `\n  ${ended(line)}`).join('')}`,
    braces ? scriptHint(origin) : schemaHint,
  );
}

function scriptHint(origin: string): string {
  return origin === ''
    ? 'A script may hold any braces: put the program into one, --script FILE.'
    : 'A script may hold any braces: give `script` in place of `command`.';
}

/** JSON is YAML too, nearly; a document that says it is JSON is read as JSON. */
function parse(marked: string, origin: string): unknown {
  // Some editors begin files with a byte order mark.
  const text = marked.replace(/^\ufeff/, '');
  if (text.trim() === '') throw new UsageError(`${origin} is empty.`, schemaHint);
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
  if (problem) {
    // The lines after the first show the place in the text.
    const [first = ''] = problem.message.split('\n');
    throw new UsageError(`${origin} is not YAML: ${first.replace(/:$/, '.')}`);
  }
  try {
    return document.toJS() as unknown;
  } catch (error) {
    throw new UsageError(`${origin} is not YAML: ${(error as Error).message}.`);
  }
}
