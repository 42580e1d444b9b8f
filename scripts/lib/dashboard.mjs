import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { ScriptError } from './console.mjs';
import { inRoot } from './paths.mjs';

const dist = inRoot('dist', 'dashboard');
const publicDirectory = inRoot('src-renderer', 'public');

/** zod brings its messages in fifty languages, half of its size; ours are English. */
const englishOnly = {
  name: 'english-only',
  /** @param {string} id */
  load(id) {
    const isList = /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/.test(id);
    return isList ? "export { default as en } from './en.js';" : null;
  },
};

/**
 * The pages for browsers, as files below dist/dashboard/. All but index.html and what is in public/ have a hash
 * of their content in their name. Text comes compressed beside its plain form: the server compresses nothing.
 * @returns {Promise<{ path: string, contents: Uint8Array }[]>}
 */
export async function buildDashboard() {
  const files = [...(await bundle()), ...publicFiles()];
  const compressed = files
    .filter(({ name }) => /\.(js|css|svg)$/.test(name))
    .map(({ name, contents }) => ({ name: `${name}.gz`, contents: gzipSync(contents, { level: 9 }) }));
  return [...files, ...compressed].map(({ name, contents }) => ({ path: path.join(dist, name), contents }));
}

async function bundle() {
  const { build } = await import('vite');
  const { default: react } = await import('@vitejs/plugin-react');
  let result;
  // Tests set it to something else, and the bundler would take React's development build for that.
  const before = process.env['NODE_ENV'];
  process.env['NODE_ENV'] = 'production';
  try {
    result = await build({
      configFile: false,
      root: inRoot('src-renderer'),
      base: '/dashboard/',
      publicDir: false,
      cacheDir: inRoot('build', 'vite'),
      logLevel: 'silent',
      plugins: [react(), englishOnly],
      build: {
        write: false,
        target: 'es2023',
        assetsInlineLimit: 0,
        modulePreload: { polyfill: false },
        reportCompressedSize: false,
        rolldownOptions: {
          input: ['index.html', 'machine/index.html'].map((page) => inRoot('src-renderer', page)),
        },
      },
    });
  } catch (error) {
    throw new ScriptError('The build of the dashboard failed.', String(error));
  } finally {
    if (before === undefined) delete process.env['NODE_ENV'];
    else process.env['NODE_ENV'] = before;
  }
  return [result]
    .flat()
    .flatMap((one) => ('output' in one ? one.output : []))
    .map((one) => ({
      name: one.fileName,
      contents: Buffer.from(one.type === 'chunk' ? one.code : one.source),
    }));
}

function publicFiles() {
  return readdirSync(publicDirectory).map((name) => ({
    name,
    contents: readFileSync(path.join(publicDirectory, name)),
  }));
}
