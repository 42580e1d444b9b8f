import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { readAsar } from './asar.mjs';
import { readFuses, wantedFuses } from './fuses.mjs';
import { desktopPackages, runtimePackages, withDependencies } from './packages.mjs';

const mebibyte = 1024 * 1024;
/** Budgets: what is more is a mistake until somebody says otherwise here. */
const budgets = { archiveBytes: 12 * mebibyte, engineBytes: 160 * mebibyte };

/**
 * What is wrong with an unpacked app.
 * @param {{ program: string, resources: string }} app the program with the fuses, and the resources beside it
 * @returns {string[]} one sentence each; none: it is as it should be
 */
export function checkPackage({ program, resources }) {
  /** @type {string[]} */
  const problems = [];
  const must = (holds, problem) => void (holds || problems.push(problem));
  const archive = path.join(resources, 'app.asar');
  const { files } = readAsar(archive);
  const names = [...files.keys()];

  for (const file of [
    'package.json',
    'dist/electron.js',
    'dist/preload.cjs',
    'dist/covey.js',
    'dist/transport-host.js',
    'dist/engine-host.js',
    'dist/kernel-host.js',
    'dist/task-runner.js',
    'dist/dashboard/index.html',
    'dist/dashboard/machine/index.html',
  ]) {
    must(files.has(file), `${file} is not in the archive.`);
  }
  const manifest = JSON.parse(files.get('package.json')?.read().toString('utf8') ?? '{}');
  must(manifest.main === 'dist/electron.js', `the archive starts ${manifest.main}.`);
  const size = statSync(archive).size;
  must(size <= budgets.archiveBytes, `the archive has ${size} bytes, more than ${budgets.archiveBytes}.`);

  // By name and version: electron-builder may place a package elsewhere than npm did.
  const titled = ({ name, version }) => `${name} ${version}`;
  const needed = withDependencies([...runtimePackages, ...desktopPackages]).map(titled);
  const shipped = names
    .filter((name) => /(^|\/)node_modules\/(@[^/]+\/)?[^/]+\/package\.json$/.test(name))
    .map((name) => titled(JSON.parse(files.get(name)?.read().toString('utf8') ?? '{}')));
  for (const title of needed) must(shipped.includes(title), `${title} is not in the archive.`);
  for (const title of shipped) must(needed.includes(title), `${title} has no use in the archive.`);
  for (const name of names) {
    must(!/\.(ts|tsx|map)$|\.test\.[mc]?js$|(^|\/)\.env/.test(name), `${name} should not be in the archive.`);
    must(
      !name.endsWith('.node') || files.get(name)?.unpacked === true,
      `${name} has to lie beside the archive.`,
    );
  }
  const addon = `node_modules/better-sqlite3/prebuilds/${process.platform}-${process.arch}.node`;
  must(existsSync(path.join(resources, 'app.asar.unpacked', addon)), `${addon} is not beside the archive.`);

  problems.push(...engineProblems(path.join(resources, 'engine')));
  for (const file of [
    'icons/icon.png',
    'tray/idle-light.png',
    'tray/idle-dark.png',
    'templates/mpi.yaml',
    'LICENSE',
    'THIRD-PARTY.txt',
  ]) {
    must(existsSync(path.join(resources, file)), `${file} is not among the resources.`);
  }
  const command = process.platform === 'win32' ? 'bin/covey.cmd' : 'bin/covey';
  must(existsSync(path.join(resources, command)), `${command} is not among the resources.`);
  const licences = readOr(path.join(resources, 'THIRD-PARTY.txt'));
  for (const title of needed) must(licences.includes(`${title} (`), `the licence of ${title} is missing.`);
  const fuses = readFuses(program);
  for (const [name, wanted] of Object.entries(wantedFuses)) {
    must(fuses[name] === wanted, `the fuse ${name} is ${fuses[name]}, not ${wanted}.`);
  }
  return problems;
}

function engineProblems(directory) {
  const text = readOr(path.join(directory, 'manifest.json'));
  if (text === '') return ['there is no engine among the resources.'];
  /** @type {{ files: { name: string, bytes: number, sha256: string }[] }} */
  const { files } = JSON.parse(text);
  const listed = new Set(['manifest.json', 'LICENSES.txt', ...files.map(({ name }) => name)]);
  const problems = readdirSync(directory)
    .filter((name) => !listed.has(name))
    .map((name) => `the engine has ${name}, which its manifest does not list.`);
  for (const { name, sha256 } of files) {
    const file = path.join(directory, name);
    if (!existsSync(file)) {
      problems.push(`the engine lacks ${name}.`);
    } else if (createHash('sha256').update(readFileSync(file)).digest('hex') !== sha256) {
      problems.push(`${name} of the engine has other content than its manifest says.`);
    } else if (
      /^(llama-server|ggml-rpc-server|covey-launch)$/.test(name) &&
      (statSync(file).mode & 0o111) === 0
    ) {
      problems.push(`${name} of the engine cannot be run.`);
    }
  }
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  if (bytes > budgets.engineBytes) {
    problems.push(`the engine has ${bytes} bytes, more than ${budgets.engineBytes}.`);
  }
  return problems;
}

function readOr(file) {
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}
