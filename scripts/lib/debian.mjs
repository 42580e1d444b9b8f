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
  'mpiexec.hydra': 'mpich',
  'mpicc.mpich': 'libmpich-dev',
};

/** Files that tests use, and the Debian package of each. */
const filePackages = { '/usr/lib/python3/dist-packages/torch/distributed': 'python3-torch' };

/** Programs that benches measure against. */
const benchPackages = { 'redis-server': 'redis-server' };

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
  const debian = process.platform === 'linux' && findProgram('apt-get') !== null;
  if (!debian || process.getuid?.() !== 0) {
    const how = debian ? ` (as root: apt-get install ${wanted.join(' ')})` : '';
    say(`Missing: ${missing().join(', ')}${how}. What needs them is skipped.`);
    return missing();
  }
  say(`Installing Debian packages: ${wanted.join(' ')} ...`);
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const update = await run('apt-get', ['update', '-qq'], { env, timeoutMs: 300_000 });
  const install = await run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...wanted], {
    env,
    timeoutMs: 900_000,
  });
  if (install.code !== 0) process.stderr.write(`${update.output}${install.output}`);
  if (missing().length > 0) say(`Still missing: ${missing().join(', ')}. What needs them is skipped.`);
  return missing();
}
