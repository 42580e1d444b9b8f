import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { assemble } from './engine/assemble.mjs';
import {
  defaultCacheDirectory,
  discard,
  ensurePrivateDirectory,
  entryProblem,
  foreignness,
  prune,
  publish,
} from './engine/cache.mjs';
import { compile } from './engine/compile.mjs';
import { buildIdOf, contentKey, readInputs, workKey } from './engine/inputs.mjs';
import { acquireLock } from './engine/lock.mjs';
import { readManifest } from './engine/manifest.mjs';
import { compilerIdentity, requireToolchain } from './engine/toolchain.mjs';
import { bootstrap } from './lib/bootstrap.mjs';
import { runScript, say } from './lib/console.mjs';
import { root as thisCheckout } from './lib/paths.mjs';

const otherBuildMs = 90 * 60_000;

/**
 * Makes the engine directory of a checkout be there and whole, and writes where it is to `build/engine.json`.
 * Takes well under a second when the cache has it; how the cache decides is in docs/engine.md.
 *
 * 1. Read what it is made from; that gives its key.
 * 2. A whole entry of that key is the answer.
 * 3. Otherwise build, one builder at a time: compile in the work folder, assemble in a temporary folder, move that
 *    into its place. Whoever waited for another builder looks at step 2 again first.
 *
 * @param {object} options
 * @param {string} options.root checkout with `node_modules` and `native`
 * @param {(text: string) => void} options.log gets one line for each step, a dozen in all
 * @param {string} [options.cacheDir] default: this user's cache folder
 * @param {string} [options.workDir] where sources and compiled objects are kept, default: in the cache folder
 * @returns {Promise<{ dir: string, buildId: string, cached: boolean }>}
 * @throws {Error} with a sentence for the user: what is missing and how to install it, or why the build failed
 */
export async function ensureEngine({ root, log, cacheDir = defaultCacheDirectory(), workDir }) {
  const [inputs, compiler] = await Promise.all([readInputs(root), compilerIdentity()]);
  const engines = path.join(cacheDir, 'engines');
  const works = workDir ?? path.join(cacheDir, 'work');
  ensurePrivateDirectory(engines);
  const key = contentKey(inputs, compiler ?? 'none');
  const dir = path.join(engines, `${inputs.llamaTag}-${process.platform}-${process.arch}-${key}`);

  const expected = (manifest) =>
    manifest.buildId === buildIdOf(inputs, manifest.rpcProtocolVersion) &&
    manifest.platform === process.platform &&
    manifest.arch === process.arch
      ? null
      : 'is of another build';
  const finish = (cached) => {
    const manifest = readManifest(dir);
    if (typeof manifest === 'string') throw new Error(`${dir} ${manifest}`);
    writeEngineFile(root, { dir, buildId: manifest.buildId });
    return { dir, buildId: manifest.buildId, cached };
  };
  const problem = await entryProblem(dir, expected);
  if (problem === null) return finish(true);

  const toolchain = requireToolchain(compiler);
  ensurePrivateDirectory(works);
  const work = path.join(works, workKey(inputs, `${compiler} ${toolchain.generator.join(' ')}`));
  const lock = await acquireLock(`${work}.lock`, {
    deadlineMs: otherBuildMs,
    onWait: (holder) => log(`another build of the engine runs (${holder}); waiting for it ...`),
  });
  try {
    const again = await entryProblem(dir, expected);
    if (again === null) return finish(true);
    if (again !== 'is missing') log(`the cached engine ${again}; it is built again`);
    if (existsSync(work) && foreignness(work, 'directory') !== null) discard(work);
    const cores = os.cpus().length;
    log(
      `building the engine (llama.cpp ${inputs.llamaTag}, once; about ${Math.ceil(4 / cores)} min on ${cores} cores) ...`,
    );
    const compiled = await compile(inputs, toolchain, work, log);
    const temporary = path.join(engines, `.new-${randomUUID()}`);
    try {
      await assemble(inputs, compiled, temporary);
      if (!lock.held()) throw new Error('another build took over while this one was asleep. Run this again.');
      publish(temporary, dir);
    } finally {
      rmSync(temporary, { recursive: true, force: true });
    }
    const wrong = await entryProblem(dir, expected);
    if (wrong !== null) throw new Error(`the engine directory just built ${wrong}`);
    prune(engines, [path.basename(dir), `${path.basename(dir)}.stamp`]);
    prune(works, [path.basename(work), `${path.basename(work)}.lock`]);
    return finish(false);
  } finally {
    lock.release();
  }
}

/** `build/engine.json`, through which the product of this checkout finds its engine. */
function writeEngineFile(root, content) {
  const directory = path.join(root, 'build');
  mkdirSync(directory, { recursive: true });
  const temporary = path.join(directory, `.engine-${randomUUID()}.json`);
  writeFileSync(temporary, `${JSON.stringify(content, null, 2)}\n`);
  renameSync(temporary, path.join(directory, 'engine.json'));
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  await runScript(async () => {
    await bootstrap();
    const startedAt = Date.now();
    const engine = await ensureEngine({ root: thisCheckout, log: say });
    say(
      `engine ${engine.buildId} ${engine.cached ? 'is in the cache' : 'built'} (${Date.now() - startedAt} ms)`,
    );
    console.log(engine.dir);
  });
}
