import { describe, expect, it } from 'vitest';
import { choiceOf, eventSubjects, kindsOf } from './event-kinds.ts';

describe('kinds of events', () => {
  it('are chosen by subject or one by one', () => {
    expect(kindsOf(null)).toEqual([]);
    expect(kindsOf('node-lost')).toEqual(['node-lost']);
    expect(kindsOf('of-another-version')).toEqual(['of-another-version']);
    expect(kindsOf('subject:models')).toContain('replica-failed');
  });

  it('lead back to what was chosen', () => {
    const choices = ['node-lost', ...eventSubjects.map(({ id }) => `subject:${id}`)];
    for (const choice of choices) expect(choiceOf(kindsOf(choice))).toBe(choice);
    expect(choiceOf([])).toBeNull();
  });

  it('are in one subject each, which the controller takes in one query', () => {
    const kinds = eventSubjects.flatMap((subject) => subject.kinds.map(({ kind }) => kind));
    expect(new Set(kinds).size).toBe(kinds.length);
    for (const subject of eventSubjects) {
      expect(subject.kinds.length).toBeLessThanOrEqual(32);
      expect(kindsOf(`subject:${subject.id}`).join().length).toBeLessThanOrEqual(1_024);
    }
  });
});
