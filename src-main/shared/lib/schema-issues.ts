import type { z } from 'zod';

type Issue = z.core.$ZodIssue;

export interface WordedIssue {
  readonly issue: Issue;
  /** `retry.attempts`, of at most 128 characters; empty: the whole. */
  readonly field: string;
  /** Of at most 512 characters. */
  readonly message: string;
}

/**
 * What a schema finds wrong, with numbers in words that people know: `must be at most 1000`. They go on where the
 * field's name stands, alone or with a colon. What the schema has words of its own for keeps them. Where a field has a
 * bound of its own, nothing is said of the one that all whole numbers have.
 */
export function wordedIssues(issues: readonly Issue[]): readonly WordedIssue[] {
  const bounded = new Set(issues.filter((issue) => bound(issue) && !isBeyondCounting(issue)).map(pathOf));
  return issues
    .filter((issue) => !isBeyondCounting(issue) || !bounded.has(pathOf(issue)))
    .map((issue) => ({ issue, field: fieldOf(issue), message: wordsOf(issue).slice(0, 512) }));
}

/** That a number is beyond what a program can count to, which says less than a bound of the field's own. */
export function isBeyondCounting(issue: Issue): boolean {
  return 'note' in issue && /safe integer/.test(String(issue.note));
}

/** An unknown key is reported at the object that holds it. */
function fieldOf(issue: Issue): string {
  const keys = issue.code === 'unrecognized_keys' ? issue.keys.slice(0, 1) : [];
  return [...issue.path, ...keys].map(String).join('.').slice(0, 128);
}

function wordsOf(issue: Issue): string {
  if (!/^(?:Invalid|Too) /.test(issue.message)) return issue.message;
  if (issue.code === 'invalid_type') {
    if (issue.expected === 'int') return 'must be a whole number';
    // Text of a query that is no number, and numbers that JSON has no word for.
    return issue.expected === 'number' && /(?:NaN|Infinity)$/.test(issue.message)
      ? 'must be a number'
      : issue.message;
  }
  const found = bound(issue);
  if (!found) return issue.message;
  const { least, limit, inclusive } = found;
  // 2^53 - 1, the last whole number that has no neighbour of the same value.
  if (isBeyondCounting(issue) && !least && issue.path.some((part) => /bytes/i.test(String(part)))) {
    return 'must be less than 8 PiB';
  }
  if (!inclusive) return `must be ${least ? 'more' : 'less'} than ${limit}`;
  return `must be at ${least ? 'least' : 'most'} ${limit}`;
}

function bound(issue: Issue): { least: boolean; limit: string; inclusive: boolean } | null {
  if (issue.code !== 'too_big' && issue.code !== 'too_small') return null;
  if (issue.origin !== 'number' && issue.origin !== 'int') return null;
  const least = issue.code === 'too_small';
  const limit = String(issue.code === 'too_small' ? issue.minimum : issue.maximum);
  return { least, limit, inclusive: issue.inclusive !== false };
}

function pathOf({ path }: Issue): string {
  return JSON.stringify(path.map(String));
}
