import { expect, it } from 'vitest';
import { idempotencyKeySchema } from '#shared/api/calls.ts';
import type { JobSpec } from '#shared/domain/job-spec.ts';
import { checkDraft, emptyDraft, type JobDraft } from './job-draft.ts';
import { createSubmissionKeys } from './submission-key.ts';

const greeting: JobDraft = { ...emptyDraft, kind: 'command', command: 'echo hello' };
const specOf = (changes: Partial<JobDraft> = {}): JobSpec => {
  const { spec, problems } = checkDraft({ ...greeting, ...changes });
  if (spec === null) throw new Error(JSON.stringify(problems));
  return spec;
};

it('a draft keeps its key however often it is sent, and has another one once it is another job', () => {
  let made = 0;
  const keyOf = createSubmissionKeys(() => `key-0000${++made}`);
  const first = keyOf(specOf());
  expect(idempotencyKeySchema.parse(first)).toBe('key-00001');
  expect(keyOf(specOf())).toBe(first);
  expect(keyOf(specOf({ name: 'another' }))).toBe('key-00002');
  // The controller does not keep them, and could not tell the two apart.
  expect(keyOf(specOf({ name: 'another', secrets: [{ name: 'TOKEN', value: 'a' }] }))).toBe('key-00003');
  expect(keyOf(specOf({ name: 'another', secrets: [{ name: 'TOKEN', value: 'b' }] }))).toBe('key-00004');
});
