import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, stat, writeFile, chmod, mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import { defaultDataDirectory, openDataDirectory } from './data-directory.ts';
import { createLogger } from './logging.ts';
import { processStartTime } from './process-start-time.ts';

let parent: string;
const lines: string[] = [];
const logger = createLogger({ write: (line) => void lines.push(line) });

beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'covey-data-'));
  lines.length = 0;
});
afterEach(() => rm(parent, { recursive: true, force: true }));

const refusal = async (attempt: Promise<unknown>): Promise<CoveyError> => {
  const error: unknown = await attempt.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (error instanceof CoveyError) return error;
  throw new Error(`expected a CoveyError, got ${String(error)}`);
};

describe('openDataDirectory', () => {
  it('creates the directory for its owner only and gives the lock back', async () => {
    const path = join(parent, 'deep', 'node');
    const first = await openDataDirectory(path, { logger });
    if (process.platform !== 'win32') expect((await stat(path)).mode & 0o777).toBe(0o700);
    await first.close();
    const second = await openDataDirectory(path, { logger });
    await second.close();
    expect(await readdir(path)).toEqual([]);
  });

  it('names the process that holds it', async () => {
    const path = join(parent, 'node');
    const held = await openDataDirectory(path, { logger });
    const error = await refusal(openDataDirectory(path, { logger }));
    expect(error.code).toBe('data_directory_locked');
    expect(error.message).toContain(`process ${process.pid}`);
    await held.close();
  });

  it('takes over the lock of a process that was killed', async () => {
    const path = join(parent, 'node');
    await mkdir(path);
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
    await once(child, 'spawn');
    const pid = child.pid as number;
    const startedAt = await processStartTime(pid);
    await writeFile(join(path, 'lock'), JSON.stringify({ pid, startedAt }));
    expect((await refusal(openDataDirectory(path, { logger }))).message).toContain(`process ${pid}`);
    child.kill('SIGKILL');
    await once(child, 'exit');
    const taken = await openDataDirectory(path, { logger });
    expect(await readdir(path)).toEqual(['lock']);
    await taken.close();
  });

  it.skipIf(process.platform === 'win32')(
    'takes over a lock whose number was given to another process',
    async () => {
      const path = join(parent, 'node');
      await mkdir(path);
      await writeFile(join(path, 'lock'), JSON.stringify({ pid: process.pid, startedAt: 'another time' }));
      await (await openDataDirectory(path, { logger })).close();
    },
  );

  it('takes over a lock that was cut off while it was written', async () => {
    const path = join(parent, 'node');
    await mkdir(path);
    await writeFile(join(path, 'lock'), '');
    await (await openDataDirectory(path, { logger })).close();
  });

  it('lets only one of many win a dead lock', async () => {
    const path = join(parent, 'node');
    await mkdir(path);
    await writeFile(join(path, 'lock'), JSON.stringify({ pid: 2 ** 22 - 1, startedAt: 'long ago' }));
    const outcomes = await Promise.allSettled(
      Array.from({ length: 5 }, () => openDataDirectory(path, { logger })),
    );
    const winners = outcomes.filter((outcome) => outcome.status === 'fulfilled');
    expect(winners).toHaveLength(1);
    await winners[0]?.value.close();
  });

  it('says what is wrong with a path that cannot be a directory', async () => {
    await writeFile(join(parent, 'file'), '');
    const error = await refusal(openDataDirectory(join(parent, 'file'), { logger }));
    expect(error.code).toBe('data_directory_unusable');
    expect(error.details.field).toBe('data');
  });

  it.skipIf(process.platform === 'win32')('closes its own open directory, not a foreign one', async () => {
    const own = join(parent, 'own');
    await mkdir(join(own, 'identity'), { recursive: true });
    await chmod(own, 0o755);
    await (await openDataDirectory(own, { logger })).close();
    expect((await stat(own)).mode & 0o777).toBe(0o700);
    expect(lines).toHaveLength(1);
    const foreign = join(parent, 'foreign');
    await mkdir(join(foreign, 'music'), { recursive: true });
    await chmod(foreign, 0o755);
    await (await openDataDirectory(foreign, { logger })).close();
    expect((await stat(foreign)).mode & 0o777).toBe(0o755);
  });
});

describe('defaultDataDirectory', () => {
  it.each([
    ['linux', { XDG_DATA_HOME: '/x' }, '/x/covey'],
    ['linux', { XDG_DATA_HOME: 'relative' }, '/home/u/.local/share/covey'],
    ['linux', {}, '/home/u/.local/share/covey'],
    ['darwin', {}, '/home/u/Library/Application Support/Covey'],
    ['win32', { APPDATA: 'C:\\Users\\u\\AppData\\Roaming' }, 'C:\\Users\\u\\AppData\\Roaming\\Covey'],
  ] as const)('on %s with %o is %s', (platform, environment, expected) => {
    expect(defaultDataDirectory(platform, environment, '/home/u')).toBe(expected);
  });
});
