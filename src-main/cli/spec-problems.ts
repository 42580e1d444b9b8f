import type { z } from 'zod';
import { jobJsonSchema } from '#shared/domain/job-schema.ts';
import { isBeyondCounting } from '#shared/lib/schema-issues.ts';
import { suggest } from './suggest.ts';

export interface FieldProblem {
  /** `retry.attempts`; empty: the document itself. */
  readonly field: string;
  /** After the field's name and a colon, without a full stop. */
  readonly message: string;
}

type Issue = z.core.$ZodIssue;

/**
 * What is wrong with a specification, in the words of people who write one: one sentence for each field.
 * @param value what was checked
 */
export function specProblems(issues: readonly Issue[], value: unknown): FieldProblem[] {
  const problems = new Map<string, FieldProblem>();
  for (const issue of [...issues].sort((one, other) => weight(one) - weight(other))) {
    const found: FieldProblem[] =
      issue.code === 'unrecognized_keys'
        ? issue.keys.map((key) => ({
            field: pathText([...issue.path, key]),
            message: unknownKey(key, issue, value),
          }))
        : [{ field: pathText(issue.path), message: sentence(issue, at(value, issue.path)) }];
    for (const problem of found) if (!problems.has(problem.field)) problems.set(problem.field, problem);
  }
  return [...problems.values()];
}

/** What says less than another of the same field comes last. */
function weight(issue: Issue): number {
  return isBeyondCounting(issue) ? 1 : 0;
}

function pathText(path: readonly PropertyKey[]): string {
  return path.map(String).join('.');
}

function at(value: unknown, path: readonly PropertyKey[]): unknown {
  let found = value;
  for (const part of path) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, part)) return undefined;
    found = (found as Record<PropertyKey, unknown>)[part];
  }
  return found;
}

function sentence(issue: Issue, value: unknown): string {
  // Sentences that the schema has itself.
  if (!/^(?:Invalid|Too|Unrecognized) /.test(issue.message)) return issue.message;
  switch (issue.code) {
    case 'invalid_type':
      if (value === undefined) return 'is missing';
      if (issue.expected === 'array' && typeof value === 'string') {
        return `must be a list, as in [${value.trim().split(/\s+/).slice(0, 4).join(', ')}]`;
      }
      return `must be ${words[issue.expected] ?? issue.expected}`;
    case 'invalid_value': {
      const known = issue.values.map(String);
      const near = typeof value === 'string' ? suggest(value, known) : null;
      if (value === undefined) return `is missing: one of ${known.join(', ')}`;
      return `must be ${listed(known)}${near === null ? '' : `; did you mean ${near}?`}`;
    }
    case 'invalid_union': {
      const options = (issue as { readonly options?: readonly unknown[] }).options ?? [];
      return options.length === 0
        ? 'has a value that does not fit'
        : `must be ${listed(options.map(String))}`;
    }
    case 'too_small':
    case 'too_big':
      return bound(issue);
    default:
      return issue.message;
  }
}

/** By what the schema calls them. */
const words: Readonly<Record<string, string>> = {
  ...{ string: 'text', number: 'a number', int: 'a whole number', boolean: 'true or false' },
  ...{ array: 'a list', object: 'a group of fields', record: 'a group of names with values' },
};

function bound(issue: Extract<Issue, { code: 'too_small' | 'too_big' }>): string {
  if (isBeyondCounting(issue)) return 'must be a smaller whole number';
  const limit = String(issue.code === 'too_small' ? issue.minimum : issue.maximum);
  const least = issue.code === 'too_small';
  if (issue.origin === 'string' || issue.origin === 'array') {
    const what = issue.origin === 'string' ? 'character' : 'entr';
    const ending = issue.origin === 'string' ? (limit === '1' ? '' : 's') : limit === '1' ? 'y' : 'ies';
    return `must have at ${least ? 'least' : 'most'} ${limit} ${what}${ending}`;
  }
  if (issue.inclusive === false) return `must be ${least ? 'more' : 'less'} than ${limit}`;
  return `must be at ${least ? 'least' : 'most'} ${limit}`;
}

function listed(known: readonly string[]): string {
  return known.length < 2 ? known.join('') : `${known.slice(0, -1).join(', ')} or ${known.at(-1) ?? ''}`;
}

function unknownKey(key: string, issue: Issue, value: unknown): string {
  const near = suggest(key, knownKeys(value, issue.path));
  return `there is no such field here${near === null ? '' : `; did you mean ${near}?`}`;
}

interface Schema {
  readonly properties?: Readonly<Record<string, Schema & { readonly const?: unknown }>>;
  readonly items?: Schema;
  readonly oneOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
}

/** The fields that may stand at a place of a specification. */
function knownKeys(value: unknown, path: readonly PropertyKey[]): string[] {
  let places: readonly Schema[] = [jobJsonSchema()];
  let found = value;
  for (const part of [...path, null]) {
    places = places
      .flatMap((place) => [place, ...(place.oneOf ?? []), ...(place.anyOf ?? [])])
      .filter((place) => fits(place, found));
    if (part === null) break;
    found = at(found, [part]);
    places = places.flatMap((place) => place.properties?.[String(part)] ?? place.items ?? []);
  }
  return [...new Set(places.flatMap((place) => Object.keys(place.properties ?? {})))];
}

/** A kind of work has its own fields, and so has a mode of distribution. */
function fits({ properties = {} }: Schema, value: unknown): boolean {
  return Object.entries(properties).every(
    ([key, { const: wanted }]) => wanted === undefined || at(value, [key]) === wanted,
  );
}
