import { existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ArtifactView } from '#shared/domain/artifact.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { at, nodeIdOf } from '../../e2e/support/views.ts';
import type { Scripts } from '../../e2e/support/scripted-api.ts';
import { useCovey } from '../../e2e/support/use-covey.ts';
import { cannotWrite, isWriteError } from './local-write.ts';

const { covey } = useCovey();
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'covey-write-'));
  writeFileSync(join(folder, 'file'), '');
});
afterAll(() => rmSync(folder, { recursive: true }));

const artifact = (kind: ArtifactView['kind']): ArtifactView => ({
  ...{ id: 'a'.repeat(64) as ArtifactId, kind, name: 'o', bytes: 5, files: 1, createdAt: at, lastUsedAt: at },
  ...{ pinned: true, jobs: [], holders: [{ nodeId: nodeIdOf('a'), nodeName: 'desk' }], collectableAt: null },
});

describe.each(['file', 'tree'] as const)('a %s to a place where nothing can be written', (kind) => {
  test.each([
    ['none/x', 'none.'],
    ['file/x', 'file is no folder.'],
  ])('%s: is refused with the reason, before any of it is asked for', async (name, reason) => {
    const target = join(folder, name);
    const { code, stderr, api } = await covey(`artifacts get o ${target}`, {
      artifact: () => artifact(kind),
    });
    expect(code).toBe(1);
    expect(stderr).toContain(`error: ${target} cannot be written: `);
    expect(stderr).toContain(reason);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect(api.requests.map(({ route }) => route)).toEqual(['artifact']);
  });
});

test.runIf(process.platform === 'linux')(
  'what is there is named, and where no file can be the answer comes at once',
  async () => {
    const scripts: Scripts = { artifact: () => artifact('file') };
    const there = join(folder, 'there');
    symlinkSync(join(folder, 'nowhere'), there);
    const partial = join(folder, `new.${'a'.repeat(12)}.part`);
    symlinkSync(join(folder, 'nowhere'), partial);
    for (const [words, message] of [
      [there, `${there} is there already and is a link: name another or add --force.`],
      [`${folder} --force`, `${folder} is there already and is a folder: o is a file, so name a file.`],
      [join(folder, 'new'), `${partial} is there already and is a link: move it away.`],
      ['/dev/null', '/dev/null is there already and is a device: '],
      ['/proc/covey-none', '/proc/covey-none cannot be written: nothing can be made in /proc.'],
    ]) {
      const { code, stderr, api } = await covey(`artifacts get o ${words}`, scripts);
      expect([code, stderr]).toEqual([1, expect.stringContaining(`error: ${message}`)]);
      expect(api.requests.map(({ route }) => route)).toEqual(['artifact']);
    }
    expect(existsSync(join(folder, 'nowhere'))).toBe(false);
  },
);

test.each([
  ['ENOSPC', 'disk_full', 'the disk is full'],
  ['EACCES', 'invalid_request', 'you may not write to /there'],
  ['EROFS', 'invalid_request', '/there can only be read'],
  ['EFBIG', 'invalid_request', 'EFBIG: as the system says'],
])('%s while it is written is no broken connection', (code, expected, why) => {
  const error = Object.assign(new Error(`${code}: as the system says`), { code, syscall: 'write' });
  expect(isWriteError(error)).toBe(true);
  expect(cannotWrite('/there/x', error)).toMatchObject({
    code: expected,
    message: `/there/x cannot be written: ${why}.`,
  });
});

test('a connection that was cut is no error of the disk', () => {
  expect(isWriteError(Object.assign(new Error('aborted'), { code: 'ECONNRESET', syscall: 'read' }))).toBe(
    false,
  );
});
