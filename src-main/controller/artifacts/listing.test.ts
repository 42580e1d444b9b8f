import { expect, test } from 'vitest';
import { artifactListQuerySchema } from '#shared/api/jobs.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import type { ArtifactRow } from '../state/sqlite/artifact-store.ts';
import { listArtifacts } from './listing.ts';

const row = (digit: string, name: string, changes: Partial<ArtifactRow> = {}): ArtifactRow => ({
  id: digit.repeat(64) as ArtifactId,
  kind: 'file',
  name,
  bytes: 10,
  files: 1,
  createdAt: 0,
  lastUsedAt: 0,
  pinned: true,
  freedAt: null,
  ...changes,
});
const all = [
  row('a', 'part 10', { bytes: 30, lastUsedAt: 3 }),
  row('b', 'Part 9', { bytes: 20, lastUsedAt: 2, freedAt: 5 }),
  row('c', 'tool', { bytes: 10, lastUsedAt: 1, freedAt: 900 }),
];
const facts = {
  jobs: ({ id }: ArtifactRow) => (id.startsWith('b') ? 2 : 0),
  holders: () => 0,
  collectableAt: ({ freedAt }: ArtifactRow) => (freedAt === null ? null : freedAt + 100),
  title: ({ name }: ArtifactRow) => name,
  isSomeones: ({ name }: ArtifactRow) => name !== 'tool',
};
function list(query: Record<string, string>) {
  const { rows, ...rest } = listArtifacts(all, artifactListQuerySchema.parse(query), facts, 500);
  return { names: rows.map(({ name }) => name), ...rest };
}

test('those used last come first, all of them unless a page is asked for', () => {
  expect(list({}).names).toEqual(['part 10', 'Part 9', 'tool']);
  expect(list({ from: '1', limit: '1' })).toMatchObject({ names: ['Part 9'], total: 3 });
  expect(list({ from: '9', limit: '1' })).toMatchObject({ names: [], total: 3 });
});

test('they are sorted by what is asked for, either way', () => {
  expect(list({ sort: 'name', descending: '0' }).names).toEqual(['Part 9', 'part 10', 'tool']);
  expect(list({ sort: 'size', descending: '0' }).names).toEqual(['tool', 'Part 9', 'part 10']);
  expect(list({ sort: 'jobs' }).names[0]).toBe('Part 9');
});

test('names are looked through, and the beginnings of ids', () => {
  expect(list({ text: 'PART' })).toMatchObject({ names: ['part 10', 'Part 9'], total: 2 });
  expect(list({ text: 'ccc' }).names).toEqual(['tool']);
});

test("what is nobody's is left out where that is wanted, and counted", () => {
  expect(list({ partial: '0' })).toMatchObject({ total: 2, leftOut: { count: 1, bytes: 10 } });
  expect(list({ partial: '0', text: 'part' })).not.toHaveProperty('leftOut');
  expect(list({})).not.toHaveProperty('leftOut');
});

test('what a collection would take is said of all, whatever is asked for', () => {
  expect(list({ text: 'tool', limit: '1' }).unneeded).toEqual({
    due: 1,
    dueBytes: 20,
    later: 1,
    laterBytes: 10,
    nextAt: 1_000,
  });
});
