import { randomUUID } from 'node:crypto';
import { linkSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';

/** The holder touches the lock this often; one that has not been touched for `staleMs` belongs to nobody. */
const beatMs = 5_000;
const staleMs = 60_000;
const pollMs = 250;

/**
 * Waits for a lock file and holds it. Liveness is the file's time and not the holder's pid, which means nothing to
 * a container that shares the folder.
 * @param {string} file
 * @param {{ deadlineMs: number, onWait: (holder: string) => void }} options `onWait` is called once if it must wait
 * @returns {Promise<{ held: () => boolean, release: () => void }>} `held`: still ours, and not taken over while
 *   this machine slept
 * @throws {Error} when the deadline passes
 */
export async function acquireLock(file, { deadlineMs, onWait }) {
  const token = JSON.stringify({ token: randomUUID(), pid: process.pid, host: os.hostname() });
  const deadline = Date.now() + deadlineMs;
  let told = false;
  while (!create(file, token)) {
    const holder = read(file);
    if (holder !== null && isStale(file)) {
      takeAway(file, holder);
      continue;
    }
    if (!told && holder !== null) onWait(describe(holder));
    told = true;
    if (Date.now() > deadline) {
      throw new Error(
        `another build (${describe(holder)}) has held ${file} for ${Math.round(deadlineMs / 60_000)} minutes. ` +
          'Remove that file if it does not run any more.',
      );
    }
    await delay(pollMs);
  }
  const held = () => read(file) === token;
  const beat = setInterval(() => {
    const now = new Date();
    try {
      if (held()) utimesSync(file, now, now);
    } catch {
      // The lock was taken away: `held` says so.
    }
  }, beatMs);
  beat.unref();
  const release = () => {
    clearInterval(beat);
    process.off('exit', release);
    if (held()) rmSync(file, { force: true });
  };
  process.on('exit', release);
  return { held, release };
}

function create(file, token) {
  try {
    writeFileSync(file, token, { flag: 'wx', mode: 0o600 });
    return true;
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === 'EEXIST') return false;
    throw error;
  }
}

function read(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
}

function isStale(file) {
  try {
    return Date.now() - statSync(file).mtimeMs > staleMs;
  } catch {
    return false;
  }
}

/** Removes a stale lock. Of several that try, one succeeds; what is not the stale one is put back. */
function takeAway(file, stale) {
  const aside = `${file}.${randomUUID()}`;
  try {
    renameSync(file, aside);
  } catch {
    return;
  }
  try {
    if (read(aside) !== stale) linkSync(aside, file);
  } catch {
    // Its place is taken again already: its holder finds out by `held`.
  }
  rmSync(aside, { force: true });
}

function describe(holder) {
  try {
    const { pid, host } = JSON.parse(holder);
    return `process ${pid} on ${host}`;
  } catch {
    return 'an unknown process';
  }
}
