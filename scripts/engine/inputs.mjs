import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  readSync,
  readdirSync,
  realpathSync,
  statSync,
} from 'node:fs';
import path from 'node:path';
import { runCommand } from './command.mjs';

/** Layout of an engine directory and its manifest. Raise it when either changes: old entries are then rebuilt. */
export const formatVersion = 1;

/**
 * @typedef {object} ShippedFile
 * @property {string} name file name in the engine directory
 * @property {string} source absolute path
 * @property {number} bytes
 */

/**
 * Everything that an engine directory is made from, read without running a compiler.
 * @typedef {object} EngineInputs
 * @property {string} llamaTag llama.cpp release, such as `v0.4.0`
 * @property {string} nodeLlamaCppVersion
 * @property {string} bundle absolute path of the git bundle with llama.cpp's source
 * @property {string} sourceCommit the bundle's commit
 * @property {string[]} patches absolute paths, in order
 * @property {string} patchesHash
 * @property {string} libraryDirectory absolute path of the shipped libraries to link against
 * @property {ShippedFile[]} shipped files to put into the engine directory
 * @property {string} nodeApiDirectory absolute path of Node-API's headers
 * @property {string} nodeApiVersion
 * @property {Recipe} recipe
 */

/**
 * Our own sources.
 * @typedef {object} Recipe
 * @property {{ name: string, content: Buffer }[]} files `kernels/...`, `launcher/...` and `llama/...`
 * @property {string} hash over all of them
 * @property {string} buildHash over what decides how llama.cpp is built, comments and layout aside
 */

/** Package of the shipped libraries, by `process.platform` and `process.arch`. */
const packages = {
  'linux-x64': 'linux-x64',
  'linux-arm64': 'linux-arm64',
  'darwin-arm64': 'mac-arm64-metal',
  'darwin-x64': 'mac-x64',
  'win32-x64': 'win-x64',
  'win32-arm64': 'win-arm64',
};

/**
 * @param {string} root checkout
 * @returns {Promise<EngineInputs>}
 * @throws {Error} when this platform has no engine, or its package is not installed
 */
export async function readInputs(root) {
  const platform = `${process.platform}-${process.arch}`;
  const packageName = packages[platform];
  if (packageName === undefined) {
    throw new Error(`there is no engine for ${platform}: ${Object.keys(packages).join(', ')} have one.`);
  }
  const main = path.join(root, 'node_modules', 'node-llama-cpp');
  const scope = path.join(root, 'node_modules', '@node-llama-cpp');
  const base = path.join(scope, packageName);
  const nodeApi = path.join(root, 'node_modules', 'node-api-headers');
  for (const needed of [main, base, nodeApi]) {
    if (!existsSync(path.join(needed, 'package.json'))) {
      throw new Error(
        `${path.relative(root, needed)} is not installed. Run "npm ci --include=optional"; on Linux the system ` +
          'must use glibc.',
      );
    }
  }
  const nodeLlamaCppVersion = readJson(path.join(main, 'package.json')).version;
  const baseVersion = readJson(path.join(base, 'package.json')).version;
  if (baseVersion !== nodeLlamaCppVersion) {
    throw new Error(
      `node-llama-cpp is ${nodeLlamaCppVersion} but @node-llama-cpp/${packageName} is ${baseVersion}. Run "npm ci".`,
    );
  }
  const llama = path.join(main, 'llama');
  const bundle = path.join(llama, 'gitRelease.bundle');
  const patches = listFiles(path.join(llama, 'patches')).filter((file) => file.endsWith('.diff'));
  const libraryDirectory = realpathSync(path.join(base, 'bins', packageName));
  return {
    llamaTag: readJson(path.join(llama, 'llama.cpp.info.json')).tag,
    nodeLlamaCppVersion,
    bundle,
    sourceCommit: bundleCommit(bundle),
    patches,
    patchesHash: hashOf(patches.map((file) => ({ name: path.basename(file), content: readFileSync(file) }))),
    libraryDirectory,
    shipped: await shippedFiles(scope, packageName, libraryDirectory),
    nodeApiDirectory: path.join(nodeApi, 'include'),
    nodeApiVersion: readJson(path.join(nodeApi, 'package.json')).version,
    recipe: readRecipe(root),
  };
}

/** Identifies an engine directory in this machine's cache: equal keys, interchangeable directories. */
export function contentKey(inputs, compiler) {
  const parts = [
    `format ${formatVersion}`,
    `node-llama-cpp ${inputs.nodeLlamaCppVersion}`,
    `source ${inputs.sourceCommit} ${inputs.patchesHash}`,
    `recipe ${inputs.recipe.hash}`,
    `node-api ${inputs.nodeApiVersion}`,
    `target ${process.platform} ${process.arch}`,
    `compiler ${compiler}`,
    ...inputs.shipped.map((file) => `${packageOf(file.source)} ${file.name} ${file.bytes}`),
  ];
  return createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 16);
}

/** Identifies a folder of compiled objects: whatever else changes, the build tool sees by itself. */
export function workKey(inputs, compiler) {
  const parts = [inputs.sourceCommit, inputs.patchesHash, process.platform, process.arch, compiler];
  return createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 16);
}

/**
 * What two machines compare before they share a model. Equal ids: the same llama.cpp, the same patches, the same
 * wire protocol, built by the same rules. Nothing of it depends on the operating system, the processor, the
 * compiler or the installed GPU backends, which may differ between machines that work together.
 * @param {{ llamaTag: string, nodeLlamaCppVersion: string, sourceCommit: string, patchesHash: string,
 *   recipe: { buildHash: string } }} inputs
 * @param {string} rpcProtocolVersion
 */
export function buildIdOf(inputs, rpcProtocolVersion) {
  const parts = [
    inputs.llamaTag,
    inputs.nodeLlamaCppVersion,
    inputs.sourceCommit,
    inputs.patchesHash,
    rpcProtocolVersion,
    inputs.recipe.buildHash,
  ];
  const hash = createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 12);
  return `${inputs.llamaTag}-rpc${rpcProtocolVersion}-${hash}`;
}

/** @returns {Recipe} */
function readRecipe(root) {
  const native = path.join(root, 'native');
  const files = ['kernels', 'launcher', 'llama'].flatMap((folder) =>
    listFiles(path.join(native, folder))
      .filter((file) => /(?:CMakeLists\.txt|\.cmake|\.c|\.cpp|\.h|\.inc)$/.test(file))
      // What tests and benches build is not in an engine directory.
      .filter((file) => !/^kernels[\\/](?:test|bench)[\\/]/.test(path.relative(native, file)))
      .map((file) => ({
        name: path.relative(native, file).split(path.sep).join('/'),
        // A checkout on Windows may have other line ends.
        content: Buffer.from(readFileSync(file, 'utf8').replaceAll('\r\n', '\n')),
      })),
  );
  const rules = files
    .filter((file) => file.name.startsWith('llama/'))
    .map((file) => ({ name: file.name, content: Buffer.from(withoutLayout(file.content.toString('utf8'))) }));
  return { files, hash: hashOf(files), buildHash: hashOf(rules) };
}

/** CMake and C++ code without comment and preprocessor lines, indentation and empty lines. */
function withoutLayout(code) {
  return code
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .join('\n');
}

/**
 * The libraries of the base package, and one module for each kind of GPU whose package is installed.
 * @returns {Promise<ShippedFile[]>}
 */
async function shippedFiles(scope, packageName, libraryDirectory) {
  const isLibrary = (name) => /\.(?:so|dylib|dll)$/.test(name);
  const sources = listFiles(libraryDirectory).filter((file) => isLibrary(file));
  const vulkan = path.join(scope, `${packageName}-vulkan`, 'bins', `${packageName}-vulkan`);
  sources.push(...listFiles(vulkan).filter((file) => /ggml-vulkan\.(?:so|dll)$/.test(file)));
  const cuda = await cudaModule(scope, packageName);
  if (cuda !== null) sources.push(cuda);
  return sources
    .map((source) => ({ name: path.basename(source), source, bytes: statSync(source).size }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * There are up to two CUDA modules of the same name: the package's own for the newest CUDA release, and in an
 * extension package one for the release before. ggml loads one, so the one whose CUDA libraries this machine has is
 * taken; with neither, the first, which then stays unloaded.
 * @returns {Promise<string | null>}
 */
async function cudaModule(scope, packageName) {
  const folder = `${packageName}-cuda`;
  const candidates = [
    path.join(scope, folder, 'bins', folder),
    path.join(scope, `${folder}-ext`, 'bins', folder, 'fallback'),
  ].flatMap((directory) => listFiles(directory).filter((file) => /ggml-cuda\.(?:so|dll)$/.test(file)));
  if (process.platform === 'linux' && candidates.length > 1) {
    for (const candidate of candidates) {
      const answer = await runCommand('ldd', [candidate], { timeoutMs: 10_000 });
      const missing = answer.stdout.split('\n').filter((line) => line.includes('not found'));
      if (answer.code === 0 && missing.every((line) => line.includes('libggml-base'))) return candidate;
    }
  }
  return candidates[0] ?? null;
}

/** `@node-llama-cpp/linux-x64-cuda/...` of an absolute path: where a shipped file comes from. */
function packageOf(file) {
  return file.slice(file.lastIndexOf('@node-llama-cpp')).split(path.sep).join('/');
}

/** The commit that a git bundle holds; its header is text. */
function bundleCommit(bundle) {
  const head = Buffer.alloc(4096);
  const file = openSync(bundle, 'r');
  try {
    readSync(file, head, 0, head.length, 0);
  } finally {
    closeSync(file);
  }
  const match = /^# v[23] git bundle\n(?:[@-].*\n)*([0-9a-f]{40,64}) HEAD\n/.exec(head.toString('latin1'));
  if (match === null) throw new Error(`${bundle} is not a git bundle with a HEAD. Run "npm ci".`);
  return String(match[1]);
}

/** @param {readonly { name: string, content: Buffer }[]} files */
function hashOf(files) {
  const hash = createHash('sha256');
  for (const file of files) hash.update(`${file.name}\0${file.content.length}\0`).update(file.content);
  return hash.digest('hex');
}

/** Absolute paths of all files below a folder, sorted; none when it does not exist. */
function listFiles(directory) {
  if (!existsSync(directory)) return [];
  return readdirSync(directory, { withFileTypes: true })
    .flatMap((entry) => {
      const file = path.join(directory, entry.name);
      return entry.isDirectory() ? listFiles(file) : [file];
    })
    .sort();
}

function readJson(file) {
  return JSON.parse(readFileSync(file, 'utf8'));
}
