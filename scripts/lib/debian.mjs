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
};

/** Programs that benches measure against. */
const benchPackages = { 'redis-server': 'redis-server' };

/**
 * Installs the Debian packages of programs that are missing. Only as root and where apt-get exists;
 * otherwise says which are missing, and the tests that need them skip with that reason.
 * @returns {Promise<string[]>} programs that are still missing
 */
export async function ensurePrograms(names = Object.keys(packages)) {
  const missing = () => names.filter((name) => findProgram(name) === null);
  const wanted = missing().map((name) => packages[name] ?? benchPackages[name]);
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
