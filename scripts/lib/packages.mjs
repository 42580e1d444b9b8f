import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ScriptError, duration, say } from './console.mjs';
import { inRoot, root } from './paths.mjs';
import { findProgram, run } from './run.mjs';

const stampFile = inRoot('node_modules', '.covey-lock-hash');

/** The version of Node.js that this checkout runs on. */
export function pinnedVersion() {
  return JSON.parse(readFileSync(inRoot('package.json'), 'utf8')).devDependencies.node;
}

/** Absolute path of the pinned Node.js. */
export function pinnedNode() {
  return inRoot('node_modules', 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node');
}

/** Installs what package-lock.json names, unless it is there. */
export async function ensurePackages() {
  const lockHash = createHash('sha256')
    .update(readFileSync(inRoot('package-lock.json')))
    .digest('hex');
  const stamp = existsSync(stampFile) ? readFileSync(stampFile, 'utf8').trim() : '';
  if (stamp === lockHash && existsSync(pinnedNode())) return;
  // Someone may have run npm by hand: what is there is right if it is what the lockfile names.
  if (!installedMatchesLock() || !existsSync(pinnedNode())) await installPackages();
  writeFileSync(stampFile, `${lockHash}\n`);
}

/**
 * Compares npm's record of what it installed with the lockfile. Packages for other platforms are not there; one
 * for this platform may be missing because npm ran on a Node.js that is too old for it.
 */
function installedMatchesLock() {
  try {
    const wanted = JSON.parse(readFileSync(inRoot('package-lock.json'), 'utf8')).packages;
    const installed = JSON.parse(readFileSync(inRoot('node_modules', '.package-lock.json'), 'utf8')).packages;
    return (
      Object.keys(installed).every((name) => wanted[name] !== undefined) &&
      Object.entries(wanted).every(([name, entry]) => {
        if (name === '') return true;
        if (installed[name] === undefined) return entry.optional === true && !isForThisPlatform(entry);
        return installed[name].version === entry.version;
      })
    );
  } catch {
    return false;
  }
}

function isForThisPlatform({ os, cpu, libc }) {
  const musl = process.platform === 'linux' && existsSync('/etc/alpine-release');
  return (
    os !== undefined &&
    os.includes(process.platform) &&
    (cpu === undefined || cpu.includes(process.arch)) &&
    (libc === undefined || libc.includes(musl ? 'musl' : 'glibc'))
  );
}

async function installPackages() {
  if (process.env['npm_execpath'] === undefined && findProgram('npm') === null) {
    throw new ScriptError(
      'npm was not found on PATH.',
      'Install it (it comes with Node.js), then run this again.',
    );
  }
  const startedAt = Date.now();
  say('Installing packages (once; about half a minute) ...');
  const tooOld = Number(process.versions.node.split('.')[0]) < 24;
  const inTheWay = process.execPath.startsWith(inRoot('node_modules') + path.sep);
  const node = tooOld || inTheWay ? await fetchNode() : process.execPath;
  // Install scripts are off: the one that is needed fetches the pinned Node.js and is run by name.
  await npm(node, ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']);
  await npm(node, ['rebuild', 'node', '--loglevel=error']);
  if (!existsSync(pinnedNode())) throw noPinnedNode();
  say(`Packages installed (${duration(Date.now() - startedAt)}).`);
}

/**
 * npm leaves out packages that do not support the Node.js it runs on, and "npm ci" deletes node_modules with
 * whatever runs from there. So where this is an old Node.js or the one in node_modules, the pinned one comes
 * first, by itself and elsewhere, and runs npm for the rest. Resolves to its path.
 */
async function fetchNode() {
  const directory = inRoot('build', 'bootstrap');
  const node = path.join(directory, 'node_modules', 'node', 'bin', path.basename(pinnedNode()));
  mkdirSync(directory, { recursive: true });
  const manifest = { private: true, dependencies: { node: pinnedVersion() }, allowScripts: { node: true } };
  writeFileSync(path.join(directory, 'package.json'), JSON.stringify(manifest));
  const install = [
    'install',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--no-package-lock',
    '--loglevel=error',
  ];
  await npm(process.execPath, install, directory);
  await npm(process.execPath, ['rebuild', 'node', '--loglevel=error'], directory);
  if (!existsSync(node)) throw noPinnedNode();
  return node;
}

function noPinnedNode() {
  return new ScriptError(
    `npm installed no Node.js ${pinnedVersion()} for ${process.platform}-${process.arch}.`,
    'Run "npm rebuild node --foreground-scripts" to see why.',
  );
}

/** Runs npm on the given Node.js. */
async function npm(node, args, cwd = root) {
  // npm hands its own settings to scripts as npm_config_*; those of an outer `npm run` must not leak in here.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) =>
        !/^npm_(config_(ignore_scripts|global|prefix|local_prefix)|package_|lifecycle_)/i.test(name) &&
        !/^path$/i.test(name),
    ),
  );
  // npm's own program starts with `env node`, and so do the scripts that it runs.
  env['PATH'] = `${path.dirname(node)}${path.delimiter}${process.env['PATH'] ?? ''}`;
  const script = process.env['npm_execpath'];
  const result = script?.endsWith('.js')
    ? await run(node, [script, ...args], { env, cwd })
    : await run('npm', args, { env, cwd, shell: process.platform === 'win32' });
  if (result.code !== 0) {
    process.stderr.write(result.output);
    throw new ScriptError(
      `"npm ${args[0]}" failed with code ${result.code}.`,
      'Its own words are above; a network problem is the usual cause. Then run this again.',
    );
  }
}
