import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ScriptError, duration, say } from './console.mjs';
import { buildDashboard } from './dashboard.mjs';
import { inRoot, root } from './paths.mjs';

/** Entry name in dist/ and its source. The first is the `covey` command, the others are loaded by it. */
export const entries = {
  covey: 'src-main/covey.ts',
  headless: 'src-main/headless.ts',
  cli: 'src-main/cli/main.ts',
  'transport-host': 'src-main/nodejs/transport/transport-host.ts',
  'engine-host': 'src-worker/engines/host/engine-host.ts',
  'artifact-hasher': 'src-main/nodejs/artifacts/hasher-host.ts',
  'kernel-host': 'src-worker/engines/kernels/host/kernel-host.ts',
  'task-runner': 'src-worker/engines/task-runner/host/task-runner-host.ts',
  electron: 'src-main/electron/main.ts',
};

/** Runs before the pages of the desktop app; a sandboxed script is one CommonJS file. */
const preload = 'src-main/electron/preload.ts';

/** Native or CommonJS packages, and those that look up their own files: loaded from node_modules. */
const external = [
  'better-sqlite3',
  'bonjour-service',
  'ws',
  'tar-stream',
  'yauzl',
  'yaml',
  'systeminformation',
  '@peculiar/x509',
  'node-llama-cpp',
  'electron',
  'electron-updater',
];

/** zod brings its messages in fifty languages, half of its size; ours are English. */
const englishOnly = {
  name: 'english-only',
  setup(build) {
    build.onLoad({ filter: /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, () => ({
      contents: "export { default as en } from './en.js';",
    }));
  },
};

const dist = inRoot('dist');

/** What dist/ is made of. Each part is built again only when its own sources have changed. */
const parts = [
  {
    name: 'dist/',
    directory: dist,
    sources: ['src-main', 'src-worker'],
    script: 'scripts/lib/build.mjs',
    build: buildProgram,
    /** Belongs to the other part. */
    keep: ['dashboard'],
  },
  {
    name: 'dist/dashboard/',
    directory: path.join(dist, 'dashboard'),
    sources: ['src-renderer', 'src-main/shared'],
    script: 'scripts/lib/dashboard.mjs',
    build: buildDashboard,
    keep: [],
  },
];

/**
 * Bundles the product into dist/, unless dist/ was made from the very same sources. Code that entries share
 * goes into chunks beside them, so `import.meta.dirname` is dist/ in all of them.
 * @returns {Promise<boolean>} whether anything was built
 */
export async function ensureBuild() {
  let built = false;
  for (const part of parts) {
    const hash = sourceHash(part);
    const stampFile = path.join(part.directory, '.stamp');
    if (existsSync(stampFile) && readFileSync(stampFile, 'utf8') === hash) continue;
    const startedAt = Date.now();
    const files = await part.build();
    rmSync(stampFile, { force: true });
    replaceFiles(part.directory, files, part.keep);
    writeFileSync(stampFile, hash);
    say(`Built ${part.name} (${duration(Date.now() - startedAt)}).`);
    built = true;
  }
  return built;
}

async function buildProgram() {
  const { build, formatMessages, stop } = await import('esbuild');
  try {
    const program = await build({
      absWorkingDir: root,
      entryPoints: Object.entries(entries).map(([out, source]) => ({ in: source, out })),
      outdir: 'dist',
      bundle: true,
      splitting: true,
      write: false,
      format: 'esm',
      platform: 'node',
      target: 'node24',
      external,
      chunkNames: 'chunk-[hash]',
      sourcemap: 'linked',
      sourcesContent: false,
      legalComments: 'none',
      minifySyntax: true,
      minifyWhitespace: true,
      plugins: [englishOnly],
      logLevel: 'silent',
    });
    const page = await build({
      absWorkingDir: root,
      entryPoints: [preload],
      outfile: 'dist/preload.cjs',
      bundle: true,
      write: false,
      format: 'cjs',
      platform: 'node',
      target: 'node24',
      external: ['electron'],
      minifySyntax: true,
      logLevel: 'silent',
    });
    return [...program.outputFiles, ...page.outputFiles];
  } catch (error) {
    const messages = /** @type {Partial<import('esbuild').BuildFailure>} */ (error).errors ?? [];
    const lines = await formatMessages(messages, { kind: 'error', color: process.stderr.isTTY === true });
    process.stderr.write(lines.join('\n'));
    throw new ScriptError('The build failed.', lines.length === 0 ? String(error) : '');
  } finally {
    await stop(); // Its helper process would stay for as long as this one.
  }
}

/** Every file appears whole: a program that starts now reads the old or the new one, never half of one. */
function replaceFiles(directory, files, keep) {
  mkdirSync(directory, { recursive: true });
  const names = new Set(files.map((file) => path.relative(directory, file.path)));
  for (const file of files) {
    mkdirSync(path.dirname(file.path), { recursive: true });
    const partial = `${file.path}.${process.pid}.part`;
    writeFileSync(partial, file.contents);
    renameSync(partial, file.path);
  }
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    const name = path.relative(directory, path.join(entry.parentPath, entry.name));
    // Another build may be at it just now.
    if (!entry.isFile() || names.has(name) || name.endsWith('.part')) continue;
    if (!keep.includes(name.split(path.sep)[0] ?? '')) rmSync(path.join(directory, name));
  }
}

/** SHA-256 over everything that a part is made from. */
function sourceHash({ sources, script }) {
  const hash = createHash('sha256');
  const files = ['package.json', 'package-lock.json', 'scripts/lib/build.mjs', script];
  for (const directory of sources) {
    for (const entry of readdirSync(inRoot(directory), { recursive: true, withFileTypes: true })) {
      const file = path.join(path.relative(root, entry.parentPath), entry.name);
      if (entry.isFile() && /\.(tsx?|sql|json|html|css|svg)$/.test(file) && !/\.test\.tsx?$/.test(file))
        files.push(file);
    }
  }
  for (const file of files.sort()) {
    const content = readFileSync(inRoot(file));
    hash.update(`${file}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex');
}
