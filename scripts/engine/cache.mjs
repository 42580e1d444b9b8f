import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { hashFile, readManifest } from './manifest.mjs';

/** Entries that no build or start has asked for in this time are removed when another one is made. */
const unusedMs = 30 * 24 * 3_600_000;
const abandonedMs = 24 * 3_600_000;

/** Where this user's caches are: `COVEY_CACHE_DIR`, else what the system has for that. */
export function defaultCacheDirectory() {
  const own = process.env['COVEY_CACHE_DIR'];
  if (own) return path.resolve(own);
  if (process.platform === 'darwin') return path.join(os.homedir(), 'Library', 'Caches', 'covey');
  if (process.platform === 'win32') {
    const local = process.env['LOCALAPPDATA'] || path.join(os.homedir(), 'AppData', 'Local');
    return path.join(local, 'covey', 'Cache');
  }
  // The base directory specification says to ignore a relative path.
  const xdg = process.env['XDG_CACHE_HOME'];
  return path.join(xdg && path.isAbsolute(xdg) ? xdg : path.join(os.homedir(), '.cache'), 'covey');
}

/**
 * A folder that only this user can change, made when it is missing. Whoever can write to the folder around it could
 * exchange it, so that must not be everybody (unless, as in /tmp, everybody may only touch his own).
 * @throws {Error} when it cannot be trusted: programs are run from it
 */
export function ensurePrivateDirectory(directory) {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const around = path.dirname(directory);
  const { mode } = statSync(around);
  if (process.getuid !== undefined && (mode & 0o002) !== 0 && (mode & 0o1000) === 0) {
    throw new Error(`${around} can be written by everybody. Set COVEY_CACHE_DIR to a folder of your own.`);
  }
  const problem = foreignness(directory, 'directory');
  if (problem === null) return;
  // Our own but open to others: what lies in it is judged on its own, the folder itself is closed.
  if (process.getuid?.() === lstatSync(directory).uid && lstatSync(directory).isDirectory()) {
    chmodSync(directory, 0o700);
    for (const name of readdirSync(directory)) discard(path.join(directory, name));
    return;
  }
  throw new Error(`${directory} ${problem}. Remove it, or set COVEY_CACHE_DIR to a folder of your own.`);
}

/**
 * Why a file or folder is not ours alone, or null. Windows: its access control lists keep others out of a user's
 * profile.
 * @param {string} file
 * @param {'directory' | 'file'} kind
 */
export function foreignness(file, kind) {
  const stat = lstatSync(file);
  if (kind === 'directory' ? !stat.isDirectory() : !stat.isFile()) return `is not a ${kind}`;
  const user = process.getuid?.();
  if (user === undefined) return null;
  if (stat.uid !== user) return `belongs to user ${stat.uid}, not to ${user}`;
  if ((stat.mode & 0o022) !== 0) return 'can be written by others';
  return null;
}

/**
 * Why a cached engine directory must not be used, or null when it is whole.
 *
 * 1. It is ours alone, and so is every file of it.
 * 2. Its manifest reads, and belongs to what is wanted (`expected`).
 * 3. It has exactly the manifest's files, of the manifest's sizes: ggml loads whatever backend lies there.
 * 4. Every file has the content that the manifest says. Files that still are the very files (inode, size, time of
 *    change) whose content was checked last time are taken as checked, so that the usual start reads 25 stats and
 *    not hundreds of megabytes. `verifyEngineDirectory` of the program checks contents whenever it is asked to.
 * @param {string} directory
 * @param {(manifest: import('./manifest.mjs').Manifest) => string | null} expected a reason against this manifest
 * @returns {Promise<string | null>}
 */
export async function entryProblem(directory, expected) {
  if (!existsSync(directory)) return 'is missing';
  const own = foreignness(directory, 'directory');
  if (own !== null) return own;
  const manifest = readManifest(directory);
  if (typeof manifest === 'string') return manifest;
  const unexpected = expected(manifest);
  if (unexpected !== null) return unexpected;

  const names = new Set([...manifest.files.map((file) => file.name), 'manifest.json']);
  for (const name of readdirSync(directory)) if (!names.has(name)) return `has a file too many: ${name}`;
  for (const name of names) {
    const file = path.join(directory, name);
    if (!existsSync(file)) return `lacks ${name}`;
    const foreign = foreignness(file, 'file');
    if (foreign !== null) return `has ${name}, which ${foreign}`;
  }
  for (const file of manifest.files) {
    const { size } = statSync(path.join(directory, file.name));
    if (size !== file.bytes) return `has ${name(file)} with ${size} bytes instead of ${file.bytes}`;
  }
  const stamp = stampOf(directory, names);
  const stampFile = `${directory}.stamp`;
  if (!existsSync(stampFile) || readFileSync(stampFile, 'utf8') !== stamp) {
    for (const file of manifest.files) {
      const sha256 = await hashFile(path.join(directory, file.name));
      if (sha256 !== file.sha256) return `has ${name(file)} with other content than was built`;
    }
    remember(() => writeFileSync(stampFile, stamp, { mode: 0o600 }));
  }
  const now = new Date();
  remember(() => utimesSync(stampFile, now, now));
  return null;
}

/** A cache that cannot be written (read-only, full) still serves. */
function remember(write) {
  try {
    write();
  } catch {
    // Checked again next time.
  }
}

const name = (file) => file.name;

function stampOf(directory, names) {
  return [...names]
    .sort()
    .map((name) => {
      const stat = statSync(path.join(directory, name), { bigint: true });
      return `${name} ${stat.ino} ${stat.size} ${stat.mtimeNs}\n`;
    })
    .join('');
}

/** Puts a finished directory in its place in one step. What was there before is removed. */
export function publish(temporary, directory) {
  discard(`${directory}.stamp`);
  discard(directory);
  renameSync(temporary, directory);
}

/** Moves something out of the way and removes it as far as that is possible. */
export function discard(file) {
  const aside = path.join(path.dirname(file), `.old-${randomUUID()}`);
  try {
    renameSync(file, aside);
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === 'ENOENT') return;
    throw error;
  }
  try {
    rmSync(aside, { recursive: true, force: true });
  } catch {
    // Another user's files in it, or a program that still runs from it (Windows): `prune` tries again.
  }
}

/** Removes what nobody has used for long, and leftovers of builds that were cut off. */
export function prune(directory, keep) {
  for (const entry of readdirSync(directory)) {
    const file = path.join(directory, entry);
    if (keep.includes(entry)) continue;
    const lifetime = entry.startsWith('.') ? abandonedMs : unusedMs;
    const stamp = existsSync(`${file}.stamp`) ? `${file}.stamp` : file;
    try {
      if (Date.now() - lstatSync(stamp).mtimeMs > lifetime) {
        rmSync(file, { recursive: true, force: true });
        rmSync(`${file}.stamp`, { force: true });
      }
    } catch {
      // Somebody else removes it just now, or it cannot be removed.
    }
  }
}
