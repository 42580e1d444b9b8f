import { writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import { namingFullDisk } from './disk-full.ts';

function thrownBy(action: () => void): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}

const fromSqlite = (): unknown => {
  const connection = new Database(':memory:');
  connection.pragma('max_page_count = 2');
  connection.exec('CREATE TABLE t (x)');
  try {
    return thrownBy(() => connection.prepare('INSERT INTO t VALUES (?)').run('x'.repeat(100_000)));
  } finally {
    connection.close();
  }
};
const fromSystem = (): unknown => thrownBy(() => writeFileSync('/dev/full', 'x'));

const speakers: [string, () => unknown][] = [['SQLite', fromSqlite]];
if (process.platform === 'linux') speakers.push(['the system', fromSystem]);

describe.each(speakers)('a full disk, as %s says it', (_name, full) => {
  test('is disk_full wherever it ends', () => {
    expect(CoveyError.from(full())).toMatchObject({
      code: 'disk_full',
      message: expect.stringMatching(/^The disk is full \(.+\)\.$/) as string,
    });
  });

  test('names the directory that was written to', () => {
    expect(namingFullDisk(full(), '/data/covey')).toMatchObject({
      code: 'disk_full',
      message: expect.stringMatching(/^The disk of \/data\/covey is full \(.+\)\.$/) as string,
    });
  });
});

test('the error may know the place itself', () => {
  const error = Object.assign(new Error('ENOSPC'), { code: 'ENOSPC', path: '/elsewhere/ready.json' });
  expect(namingFullDisk(error, '/data/covey')).toMatchObject({
    message: 'The disk of /elsewhere is full (ENOSPC).',
  });
});

test('any other error stays what it is', () => {
  for (const error of [new Error('no'), new CoveyError('timeout', 'late'), null, 'text']) {
    expect(namingFullDisk(error, '/data/covey')).toBe(error);
  }
});
