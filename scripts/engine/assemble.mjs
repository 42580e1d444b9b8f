import {
  chmodSync,
  constants,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { foreignness } from './cache.mjs';
import { runCommand } from './command.mjs';
import { buildIdOf, formatVersion } from './inputs.mjs';
import { hashFile } from './manifest.mjs';
import { readRpcProtocolVersion } from './source.mjs';

const startMs = 60_000;

/** Names of what we build, as they stand in an engine directory. */
export function builtNames() {
  const windows = process.platform === 'win32';
  const program = (name) => (windows ? `${name}.exe` : name);
  return [
    program('llama-server'),
    program('ggml-rpc-server'),
    program('covey-launch'),
    'covey-kernels.node',
    // CMake's suffix for a module is .so on macOS too, and that is what ggml looks for.
    windows ? 'ggml-rpc.dll' : 'libggml-rpc.so',
  ];
}

/**
 * Fills an empty folder with a complete engine directory and starts its server once to see that it works.
 * @param {import('./inputs.mjs').EngineInputs} inputs
 * @param {{ binDirectory: string, source: string, compiler: string }} compiled
 * @param {string} directory
 * @returns {Promise<import('./manifest.mjs').Manifest>}
 */
export async function assemble(inputs, compiled, directory) {
  mkdirSync(directory, { mode: 0o700 });
  for (const file of inputs.shipped) place(file.source, path.join(directory, file.name));
  for (const name of builtNames()) {
    const target = path.join(directory, name);
    copyFileSync(path.join(compiled.binDirectory, name), target);
    chmodSync(target, 0o755);
  }
  writeFileSync(path.join(directory, 'LICENSES.txt'), licences(compiled.source), { mode: 0o644 });
  const names = readdirSync(directory).sort();
  const files = [];
  for (const name of names) {
    const file = path.join(directory, name);
    files.push({ name, bytes: statSync(file).size, sha256: await hashFile(file) });
  }
  const rpcProtocolVersion = readRpcProtocolVersion(compiled.source);
  const manifest = {
    formatVersion,
    buildId: buildIdOf(inputs, rpcProtocolVersion),
    llamaTag: inputs.llamaTag,
    nodeLlamaCppVersion: inputs.nodeLlamaCppVersion,
    sourceCommit: inputs.sourceCommit,
    rpcProtocolVersion,
    platform: process.platform,
    arch: process.arch,
    compiler: compiled.compiler,
    files,
  };
  writeFileSync(path.join(directory, 'manifest.json'), `${JSON.stringify(manifest, null, 2)}\n`, {
    mode: 0o644,
  });
  await mustStart(directory);
  return manifest;
}

/**
 * The same bytes without using the disk twice, where the file system can: a clone, else a second name for the same
 * file (packages are replaced by new files, never written to), else a copy.
 */
function place(source, target) {
  try {
    copyFileSync(source, target, constants.COPYFILE_FICLONE_FORCE);
    chmodSync(target, 0o644);
    return;
  } catch {
    // No clones here.
  }
  if (foreignness(source, 'file') === null) {
    try {
      linkSync(source, target);
      return;
    } catch {
      // Another file system.
    }
  }
  copyFileSync(source, target);
  chmodSync(target, 0o644);
}

/** A system whose C or C++ library is too old for the shipped libraries shows it here and not at the first load. */
async function mustStart(directory) {
  const server = path.join(directory, String(builtNames()[0]));
  const answer = await runCommand(server, ['--list-devices'], { timeoutMs: startMs, cwd: directory });
  if (answer.code !== 0) throw new Error(`the engine was built but does not start here:\n${answer.tail}`);
}

/** The licences of what is compiled in. Header-only parts carry theirs in the header. */
function licences(source) {
  const files = ['LICENSE', 'licenses', 'vendor'].flatMap((part) => licenceFiles(path.join(source, part)));
  return files
    .map((file) => {
      const title = path.relative(source, file).split(path.sep).join('/');
      return `${title}\n${'='.repeat(title.length)}\n\n${readFileSync(file, 'utf8')}`;
    })
    .join('\n\n');
}

function licenceFiles(file) {
  if (!existsSync(file)) return [];
  if (!statSync(file).isDirectory()) return path.basename(file).startsWith('LICENSE') ? [file] : [];
  return readdirSync(file)
    .sort()
    .flatMap((name) => licenceFiles(path.join(file, name)));
}
