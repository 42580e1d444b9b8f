import { chmod, open, readFile, readdir, rm, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, posix, resolve, win32 } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CoveyError, isDiskFull } from '#shared/errors.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { namingFullDisk } from './disk-full.ts';
import { makeFolders } from './make-folders.ts';
import { processStartTime } from './process-start-time.ts';

/** A node's directory, held by this process alone until `close`. */
export interface DataDirectory {
  readonly path: string;
  /** Gives the lock back. */
  close(): Promise<void>;
}

/** Where a node keeps its things when nobody says otherwise. */
export function defaultDataDirectory(
  platform: NodeJS.Platform = process.platform,
  environment: NodeJS.ProcessEnv = process.env,
  home: string = homedir(),
): string {
  if (platform === 'win32') {
    return win32.join(environment['APPDATA'] ?? win32.join(home, 'AppData', 'Roaming'), 'Covey');
  }
  if (platform === 'darwin') return posix.join(home, 'Library', 'Application Support', 'Covey');
  // The XDG base directory specification: a relative value is invalid and ignored.
  const base = environment['XDG_DATA_HOME'];
  return posix.join(base?.startsWith('/') ? base : posix.join(home, '.local', 'share'), 'covey');
}

/**
 * Creates `path` (mode 0700) when it is missing and takes its lock, a file that names the holder by pid and
 * start time. A lock whose holder is dead is taken over. Throws `data_directory_locked` naming the holder's
 * pid, `disk_full`, or `data_directory_unusable`.
 */
export async function openDataDirectory(
  path: string,
  options: { readonly logger: Logger },
): Promise<DataDirectory> {
  const directory = resolve(path);
  try {
    await makeFolders(directory, 0o700);
    await restrict(directory, options.logger);
    const release = await lock(join(directory, lockFile), directory);
    return { path: directory, close: release };
  } catch (error) {
    if (error instanceof CoveyError) throw error;
    if (isDiskFull(error)) throw namingFullDisk(error, directory);
    throw new CoveyError(
      'data_directory_unusable',
      `The data directory ${directory} cannot be used: ${(error as Error).message}`,
      { field: 'data' },
      error,
    );
  }
}

/** The process that holds the directory now; null: none does, what it says of itself is out of date. */
export async function dataDirectoryHolder(path: string): Promise<number | null> {
  const lockPath = join(path, lockFile);
  if ((await readText(lockPath)) === '') return null;
  const holder = await readHolder(lockPath);
  return holder && (await isAlive(holder)) ? holder.pid : null;
}

const lockFile = 'lock';

interface Holder {
  readonly pid: number;
  readonly startedAt: string | null;
}

/** A directory that holds something else than a node's things keeps its mode: it is not ours to close. */
async function restrict(directory: string, logger: Logger): Promise<void> {
  if (process.platform === 'win32') return;
  const mode = (await stat(directory)).mode & 0o777;
  if ((mode & 0o077) === 0) return;
  const names = await readdir(directory);
  if (names.length > 0 && !names.includes(lockFile) && !names.includes('identity')) return;
  await chmod(directory, 0o700);
  logger.warn('others could read the data directory, its mode was corrected', {
    path: directory,
    found: mode.toString(8),
    now: '700',
  });
}

/** A guard left behind by a process that died within the few milliseconds it is held. */
const staleGuardMs = 10_000;

/**
 * Creates the lock, or takes it over from a dead holder. Only who holds the guard removes a dead lock, and looks
 * at it once more first: a lock that somebody has taken meanwhile is never removed.
 */
async function lock(path: string, directory: string): Promise<() => Promise<void>> {
  const own: Holder = { pid: process.pid, startedAt: await processStartTime(process.pid) };
  const content = JSON.stringify(own);
  const guard = `${path}.takeover`;
  for (let attempt = 0; attempt < 100; attempt += 1) {
    if (await createExclusively(path, content)) {
      return async () => {
        if ((await readText(path)) === content) await rm(path, { force: true });
      };
    }
    const holder = await readHolder(path);
    if (holder && (await isAlive(holder))) throw locked(path, directory, holder.pid);
    if (await createExclusively(guard, content)) {
      try {
        const still = await readHolder(path);
        if (!still || !(await isAlive(still))) await rm(path, { force: true });
      } finally {
        await rm(guard, { force: true });
      }
    } else {
      const since = (await stat(guard).catch(() => null))?.mtimeMs;
      if (since !== undefined && Date.now() - since > staleGuardMs) await rm(guard, { force: true });
      await delay(20);
    }
  }
  throw new CoveyError('data_directory_locked', `Several processes compete for ${directory}. Try again.`, {
    field: 'data',
  });
}

function locked(path: string, directory: string, pid: number): CoveyError {
  return new CoveyError(
    'data_directory_locked',
    `The data directory ${directory} is in use by process ${pid}. Stop that one or choose another directory with --data. If process ${pid} is not Covey, delete ${path}.`,
    { field: 'data' },
  );
}

async function createExclusively(path: string, content: string): Promise<boolean> {
  try {
    const file = await open(path, 'wx', 0o600);
    try {
      await file.writeFile(content);
      await file.sync();
    } catch (error) {
      await rm(path, { force: true });
      throw error;
    } finally {
      await file.close();
    }
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/** null: nobody wrote a readable name into it, not even within the moment that a live holder needs to. */
async function readHolder(path: string): Promise<Holder | null> {
  for (let attempt = 0; attempt < 10; attempt += 1) {
    try {
      const value = JSON.parse(await readText(path)) as Partial<Holder>;
      if (Number.isInteger(value.pid) && value.pid !== undefined && value.pid > 0) {
        return { pid: value.pid, startedAt: typeof value.startedAt === 'string' ? value.startedAt : null };
      }
    } catch {
      // Empty so far, or damaged.
    }
    await delay(50);
  }
  return null;
}

async function readText(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '');
}

async function isAlive(holder: Holder): Promise<boolean> {
  try {
    process.kill(holder.pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
  }
  if (holder.startedAt === null) return true;
  return (await processStartTime(holder.pid)) === holder.startedAt;
}
