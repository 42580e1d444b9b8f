import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { ScriptError } from '../lib/console.mjs';
import { inRoot, root } from '../lib/paths.mjs';

/** Loaded from node_modules when the program runs (`external` of the build); what else is used is in its bundles. */
export const runtimePackages = [
  '@peculiar/x509',
  'better-sqlite3',
  'bonjour-service',
  'reflect-metadata',
  'systeminformation',
  'tar-stream',
  'ws',
  'yaml',
  'yauzl',
];
/** Only in the desktop app. */
export const desktopPackages = ['electron-updater'];

/** In the bundles of the program and of its pages. */
const bundledPackages = [
  'commander',
  'zod',
  'react',
  'react-dom',
  '@mantine/core',
  '@mantine/hooks',
  '@mantine/notifications',
  '@tabler/icons-react',
  '@tanstack/react-query',
  '@tanstack/react-virtual',
  'recharts',
  'uqr',
  'zustand',
];

/** Needed to compile a package only. */
const buildOnly = new Set(['node-addon-api']);

/**
 * @typedef {{ name: string, version: string, directory: string, license: string }} Package `directory` below the
 *   checkout, as `node_modules/a/node_modules/b`
 */

/**
 * Packages with all that they need, as they lie in node_modules.
 * @param {readonly string[]} names
 * @returns {Package[]}
 */
export function withDependencies(names) {
  /** @type {Map<string, Package>} */
  const found = new Map();
  const add = (/** @type {string} */ name, /** @type {string} */ from, /** @type {boolean} */ optional) => {
    if (buildOnly.has(name)) return;
    const directory = locate(name, from);
    if (directory === null) {
      if (optional) return;
      throw new ScriptError(`The package ${name} is not in node_modules.`, 'Run "npm ci".');
    }
    if (found.has(directory)) return;
    const manifest = JSON.parse(readFileSync(inRoot(directory, 'package.json'), 'utf8'));
    const { version, license } = manifest;
    found.set(directory, { name, version, directory, license: license?.type ?? license ?? 'see its text' });
    for (const one of Object.keys(manifest.dependencies ?? {})) add(one, directory, false);
    const optionals = [
      ...Object.keys(manifest.optionalDependencies ?? {}),
      ...Object.keys(manifest.peerDependencies ?? {}),
    ];
    for (const one of optionals) add(one, directory, true);
  };
  for (const name of names) add(name, '', false);
  return [...found.values()].sort((a, b) => a.directory.localeCompare(b.directory));
}

/** As Node.js looks it up: beside the one that needs it, then further out. */
function locate(name, from) {
  for (let place = from; ; place = place.slice(0, Math.max(0, place.lastIndexOf('node_modules/') - 1))) {
    const directory = path.posix.join(place, 'node_modules', name);
    if (existsSync(inRoot(directory, 'package.json'))) return directory;
    if (place === '') return null;
  }
}

/**
 * What is no part of a running program: sources, types, tests, documentation. Folders count at the top of a package only:
 * further down a name such as `doc` may be that of code.
 */
const unneeded =
  /^(deps|src|tests?|docs?|examples?|\.github|coverage)$|\.(d\.[mc]?ts|[mc]?ts|map|md|markdown|gyp|flow)$|(^|\/)\.[^/]*$/i;

/**
 * Copies packages, without what only their development needs, and of native ones what this platform needs.
 * @param {readonly Package[]} packages
 * @param {string} into gets `node_modules`
 */
export function copyPackages(packages, into) {
  for (const { directory } of packages) {
    const source = inRoot(directory);
    const target = path.join(into, directory);
    mkdirSync(target, { recursive: true });
    cpSync(source, target, {
      recursive: true,
      dereference: true,
      filter: (file) => {
        const inside = path.relative(source, file).split(path.sep).join('/');
        if (inside === '') return true;
        // Packages inside this one are copied by themselves, if they are needed.
        if (inside.startsWith('node_modules')) return false;
        if (/^prebuilds\/./.test(inside))
          return inside === `prebuilds/${process.platform}-${process.arch}.node`;
        // A package whose code is in a folder of such a name keeps it.
        if (/^(src|docs?)$/.test(inside))
          return directory.endsWith('better-sqlite3') ? false : hasEntryIn(source, inside);
        return !unneeded.test(inside) || /licen[cs]e|notice|copying/i.test(inside);
      },
    });
  }
}

function hasEntryIn(source, folder) {
  const { main, module, exports } = JSON.parse(readFileSync(path.join(source, 'package.json'), 'utf8'));
  return JSON.stringify([main, module, exports]).includes(`${folder}/`);
}

/**
 * The licence texts of everything that is shipped as JavaScript; the engine and Electron bring theirs.
 * @param {readonly Package[]} packages shipped in node_modules
 */
export function licenceText(packages) {
  const all = new Map();
  for (const one of [...packages, ...withDependencies(bundledPackages)]) {
    all.set(`${one.name}@${one.version}`, one);
  }
  const parts = [...all.values()]
    .sort((a, b) => a.name.localeCompare(b.name))
    .map(({ name, version, license, directory }) => {
      const texts = readdirSync(inRoot(directory))
        .filter((file) => /^(licen[cs]e|copying|notice)/i.test(file))
        .map((file) => readFileSync(path.join(root, directory, file), 'utf8').trim());
      return [`${name} ${version} (${license})`, '', ...texts].join('\n');
    });
  return ['Covey includes the following packages.', ...parts].join(`\n\n${'-'.repeat(76)}\n\n`) + '\n';
}
