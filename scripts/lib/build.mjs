import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ScriptError, duration, say } from './console.mjs';
import { inRoot, root } from './paths.mjs';

/** Entry name in dist/ and its source. The first is the `covey` command, the others are loaded by it. */
export const entries = {
  covey: 'src-main/covey.ts',
  headless: 'src-main/headless.ts',
  cli: 'src-main/cli/main.ts',
  'transport-host': 'src-main/nodejs/transport/transport-host.ts',
  'engine-host': 'src-worker/engines/host/engine-host.ts',
};

/** Native or CommonJS packages, and those that look up their own files: loaded from node_modules. */
const external = [
  'better-sqlite3',
  'bonjour-service',
  'ws',
  'systeminformation',
  '@peculiar/x509',
  'node-llama-cpp',
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

/** The page to log in, for browsers: dist/sign-in/. */
const page = {
  source: 'src-renderer/sign-in',
  files: ['index.html', 'icon.svg', 'sign-in.css', 'sign-in.ts'],
};

const dist = inRoot('dist');
const stampFile = path.join(dist, '.stamp');

/**
 * Bundles the product into dist/, unless dist/ was made from the very same sources. Code that entries share
 * goes into chunks beside them, so `import.meta.dirname` is dist/ in all of them.
 * @returns {Promise<boolean>} whether anything was built
 */
export async function ensureBuild() {
  const hash = sourceHash();
  if (existsSync(stampFile) && readFileSync(stampFile, 'utf8') === hash) return false;
  const startedAt = Date.now();
  const { build, formatMessages, stop } = await import('esbuild');
  let outputs;
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
    const pages = await build({
      absWorkingDir: root,
      entryPoints: page.files.map((name) => path.posix.join(page.source, name)),
      outdir: 'dist/sign-in',
      outbase: page.source,
      bundle: true,
      write: false,
      format: 'esm',
      platform: 'browser',
      target: 'es2022',
      loader: { '.html': 'copy', '.svg': 'copy' },
      legalComments: 'none',
      minify: true,
      logLevel: 'silent',
    });
    outputs = [...program.outputFiles, ...pages.outputFiles];
  } catch (error) {
    const messages = /** @type {Partial<import('esbuild').BuildFailure>} */ (error).errors ?? [];
    const lines = await formatMessages(messages, { kind: 'error', color: process.stderr.isTTY === true });
    process.stderr.write(lines.join('\n'));
    throw new ScriptError('The build failed.', lines.length === 0 ? String(error) : '');
  } finally {
    await stop(); // Its helper process would stay for as long as this one.
  }
  replaceDist(outputs);
  writeFileSync(stampFile, hash);
  say(`Built dist/ (${duration(Date.now() - startedAt)}).`);
  return true;
}

/** Every file appears whole: a program that starts now reads the old or the new one, never half of one. */
function replaceDist(files) {
  mkdirSync(dist, { recursive: true });
  rmSync(stampFile, { force: true });
  const names = new Set(files.map((file) => path.relative(dist, file.path).split(path.sep)[0]));
  for (const file of files) {
    mkdirSync(path.dirname(file.path), { recursive: true });
    const partial = `${file.path}.${process.pid}.part`;
    writeFileSync(partial, file.contents);
    renameSync(partial, file.path);
  }
  for (const name of readdirSync(dist)) {
    // Another build may be at it just now.
    if (!names.has(name) && !name.endsWith('.part')) rmSync(path.join(dist, name), { recursive: true });
  }
}

/** SHA-256 over everything that the bundle is made from. */
function sourceHash() {
  const hash = createHash('sha256');
  const files = ['package.json', 'package-lock.json', 'scripts/lib/build.mjs'];
  for (const directory of ['src-main', 'src-worker', 'src-renderer']) {
    for (const entry of readdirSync(inRoot(directory), { recursive: true, withFileTypes: true })) {
      const file = path.join(path.relative(root, entry.parentPath), entry.name);
      if (entry.isFile() && /\.(ts|sql|json|html|css|svg)$/.test(file) && !file.endsWith('.test.ts'))
        files.push(file);
    }
  }
  for (const file of files.sort()) {
    const content = readFileSync(inRoot(file));
    hash.update(`${file}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex');
}
