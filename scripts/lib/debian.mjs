import { existsSync } from 'node:fs';
import { say } from './console.mjs';
import { findProgram, run } from './run.mjs';

/** Programs that tests use, and the Debian package of each. */
const packages = {
  ip: 'iproute2',
  nft: 'nftables',
  chromium: 'chromium',
  cmake: 'cmake',
  'c++': 'g++',
  git: 'git',
  bwrap: 'bubblewrap',
  python3: 'python3',
  'mpirun.openmpi': 'openmpi-bin',
  'mpicc.openmpi': 'libopenmpi-dev',
  'aarch64-linux-gnu-g++': 'g++-aarch64-linux-gnu',
  'qemu-aarch64': 'qemu-user',
};

/** Files that tests use, and the Debian package of each. */
const filePackages = { '/usr/lib/python3/dist-packages/torch/distributed': 'python3-torch' };

/** Programs that benches measure against. */
const benchPackages = { 'redis-server': 'redis-server', '/usr/sbin/nginx': 'nginx-light', curl: 'curl' };

/** @param {string} name a program or an absolute path */
function isHere(name) {
  return name.startsWith('/') ? existsSync(name) : findProgram(name) !== null;
}

/**
 * Installs the Debian packages of programs that are missing. Only as root and where apt-get exists;
 * otherwise says which are missing, and the tests that need them skip with that reason.
 * @returns {Promise<string[]>} programs that are still missing
 */
export async function ensurePrograms(names = [...Object.keys(packages), ...Object.keys(filePackages)]) {
  const missing = () => names.filter((name) => !isHere(name));
  const wanted = missing().map((name) => packages[name] ?? filePackages[name] ?? benchPackages[name]);
  if (wanted.length === 0) return [];
  if (!canInstall()) {
    const how = isDebian() ? ` (as root: apt-get install ${wanted.join(' ')})` : '';
    say(`Missing: ${missing().join(', ')}${how}. What needs them is skipped.`);
    return missing();
  }
  await install(wanted);
  if (missing().length > 0) say(`Still missing: ${missing().join(', ')}. What needs them is skipped.`);
  return missing();
}

/**
 * The same for Debian packages without a program of their own, such as libraries.
 * @param {readonly string[]} names
 * @returns {Promise<boolean>} whether all are there
 */
export async function ensureDebianPackages(names) {
  const isThere = async (name) => {
    const answer = await run('dpkg-query', ['-W', '-f', '${db:Status-Status}', name]);
    return answer.code === 0 && answer.output === 'installed';
  };
  const missing = async () => {
    const found = await Promise.all(names.map(isThere));
    return names.filter((_name, index) => !found[index]);
  };
  if (!isDebian()) return false;
  const wanted = await missing();
  if (wanted.length === 0) return true;
  if (canInstall()) await install(wanted);
  const left = await missing();
  if (left.length > 0) say(`Missing Debian packages (as root: apt-get install ${left.join(' ')}).`);
  return left.length === 0;
}

function isDebian() {
  return process.platform === 'linux' && findProgram('apt-get') !== null;
}

function canInstall() {
  return isDebian() && process.getuid?.() === 0;
}

/** @param {readonly string[]} names */
async function install(names) {
  say(`Installing Debian packages: ${names.join(' ')} ...`);
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const update = await run('apt-get', ['update', '-qq'], { env, timeoutMs: 300_000 });
  /** @param {readonly string[]} some */
  const tryInstall = async (some) => {
    const done = await run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...some], {
      env,
      timeoutMs: 900_000,
    });
    if (done.code !== 0) process.stderr.write(`${update.output}${done.output}`);
    return done.code === 0;
  };
  if ((await tryInstall(names)) || names.length === 1) return;
  // One that this system has no package of must not keep out the others.
  for (const name of names) await tryInstall([name]);
}
