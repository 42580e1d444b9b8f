import {
  chmodSync,
  constants,
  copyFileSync,
  cpSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { inRoot } from '../lib/paths.mjs';
import {
  copyPackages,
  desktopPackages,
  licenceText,
  runtimePackages,
  withDependencies,
} from './packages.mjs';

export const staging = inRoot('build', 'release');

/** Left out of the packages: half of their size, for one maker's cards. It is a download of its own. */
const separateBackends = /cuda/i;

const projectManifest = () => JSON.parse(readFileSync(inRoot('package.json'), 'utf8'));

/** Makes `build/release/app`, what the app's archive is made of. @returns its packages */
export function stageApp() {
  const directory = fresh('app');
  cpSync(inRoot('dist'), path.join(directory, 'dist'), {
    recursive: true,
    filter: (file) => !/\.map$|[\\/]\.stamp$/.test(file),
  });
  const packages = withDependencies([...runtimePackages, ...desktopPackages]);
  copyPackages(packages, directory);
  const { name, version, description, license, dependencies } = projectManifest();
  const wanted = [...runtimePackages, ...desktopPackages];
  const manifest = {
    ...{ name, productName: 'Covey', version, description, license, type: 'module' },
    main: 'dist/electron.js',
    author: 'The Covey contributors',
    homepage: homepage(),
    dependencies: Object.fromEntries(wanted.map((one) => [one, dependencies[one]])),
  };
  writeFileSync(path.join(directory, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  writeFileSync(path.join(staging, 'THIRD-PARTY.txt'), licenceText(packages));
  return packages;
}

/** Where the project lives; of the forge's own build, its repository. */
function homepage() {
  const repository = process.env['GITHUB_REPOSITORY'];
  return repository === undefined ? 'https://github.com' : `https://github.com/${repository}`;
}

/**
 * Makes `build/release/engine` of an engine directory, without the backends that are separate.
 * @param {string} from
 */
export function stageEngine(from) {
  const directory = fresh('engine');
  const manifest = JSON.parse(readFileSync(path.join(from, 'manifest.json'), 'utf8'));
  const files = manifest.files.filter(({ name }) => !separateBackends.test(name));
  for (const { name } of files) placeFile(path.join(from, name), path.join(directory, name));
  writeFileSync(
    path.join(directory, 'manifest.json'),
    `${JSON.stringify({ ...manifest, files }, null, 2)}\n`,
  );
  return directory;
}

/**
 * Makes `build/release/covey-VERSION`: the program without a window, with a Node.js of its own.
 * @param {string} node the Node.js that it brings
 */
export function stageHeadless(node) {
  const { version } = projectManifest();
  const directory = fresh(`covey-${version}`);
  const windows = process.platform === 'win32';
  cpSync(inRoot('dist'), path.join(directory, 'dist'), {
    recursive: true,
    filter: (file) => !/\.map$|[\\/]\.stamp$|[\\/](electron\.js|preload\.cjs)$/.test(file),
  });
  const packages = withDependencies(runtimePackages);
  copyPackages(packages, directory);
  writeFileSync(
    path.join(directory, 'package.json'),
    `${JSON.stringify({ name: 'covey', version, type: 'module' })}\n`,
  );
  mkdirSync(path.join(directory, 'bin'));
  placeFile(node, path.join(directory, 'bin', windows ? 'node.exe' : 'node'));
  const command = windows ? 'covey.cmd' : 'covey';
  cpSync(inRoot('resources', 'headless', command), path.join(directory, 'bin', command));
  if (!windows) chmodSync(path.join(directory, 'bin', command), 0o755);
  cpSync(path.join(staging, 'engine'), path.join(directory, 'engine'), { recursive: true });
  for (const script of ['install.sh', 'install.ps1']) {
    cpSync(inRoot('resources', 'headless', script), path.join(directory, script));
  }
  cpSync(inRoot('resources', 'templates'), path.join(directory, 'templates'), { recursive: true });
  cpSync(inRoot('LICENSE'), path.join(directory, 'LICENSE'));
  writeFileSync(path.join(directory, 'THIRD-PARTY.txt'), licenceText(packages));
  return directory;
}

function fresh(name) {
  const directory = path.join(staging, name);
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  return directory;
}

/** On file systems that can, a copy that takes no room until one of the two changes. */
function placeFile(from, to) {
  copyFileSync(from, to, constants.COPYFILE_FICLONE);
}
