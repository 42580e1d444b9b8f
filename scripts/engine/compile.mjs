import { existsSync, mkdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { runCommand } from './command.mjs';
import { writeDefinitions } from './pe-exports.mjs';
import { ensureSource } from './source.mjs';

const configureMs = 300_000;
const compileMs = 60 * 60_000;
/** What a compiler process takes for the largest of llama-server's files. */
const bytesPerJob = 1.5 * 1024 ** 3;

/**
 * Compiles in `work`, which keeps source and objects for the next time.
 * @param {import('./inputs.mjs').EngineInputs} inputs
 * @param {import('./toolchain.mjs').Toolchain} toolchain
 * @param {string} work
 * @param {(text: string) => void} log
 * @returns {Promise<{ binDirectory: string, source: string, compiler: string }>}
 */
export async function compile(inputs, toolchain, work, log) {
  const fresh = !existsSync(path.join(work, 'build', 'CMakeCache.txt'));
  try {
    return await attempt(inputs, toolchain, work, log);
  } catch (error) {
    if (fresh) throw error;
    // A build that was cut off, or a disk that was full, leaves files that look finished and are not.
    log('compiling with what an earlier build left failed; starting from nothing ...');
    rmSync(work, { recursive: true, force: true });
    return attempt(inputs, toolchain, work, log);
  }
}

async function attempt(inputs, toolchain, work, log) {
  const source = path.join(work, 'source');
  const recipe = path.join(work, 'recipe');
  const build = path.join(work, 'build');
  mkdirSync(work, { recursive: true, mode: 0o700 });
  // `prune` goes by this time.
  utimesSync(work, new Date(), new Date());
  await ensureSource(inputs, source, toolchain.git);
  writeRecipe(inputs.recipe, recipe);
  const definitions = [];
  if (process.platform === 'win32') {
    const directory = path.join(work, 'exports');
    writeDefinitions(inputs.libraryDirectory, directory);
    definitions.push(`-DIMPORT_DEFINITION_DIR=${directory}`);
  }

  await step('configuring', configureMs, () => {}, [
    ...['-S', path.join(recipe, 'llama'), '-B', build, ...toolchain.generator],
    '-DCMAKE_BUILD_TYPE=Release',
    `-DLLAMA_SOURCE_DIR=${source}`,
    `-DLLAMA_SOURCE_COMMIT=${inputs.sourceCommit.slice(0, 7)}`,
    `-DSHIPPED_LIBRARY_DIR=${inputs.libraryDirectory}`,
    `-DNODE_API_INCLUDE_DIR=${inputs.nodeApiDirectory}`,
    ...definitions,
  ]);
  const jobs = Math.max(1, Math.min(os.cpus().length, Math.floor(os.totalmem() / bytesPerJob)));
  await step('compiling', compileMs, progressReporter(log), [
    ...['--build', build, '--config', 'Release', '--parallel', String(jobs)],
  ]);
  return {
    binDirectory: path.join(build, 'bin'),
    source,
    compiler: readFileSync(path.join(build, 'compiler.txt'), 'utf8').trim(),
  };

  async function step(what, timeoutMs, onLine, args) {
    const answer = await runCommand(toolchain.cmake, args, {
      timeoutMs,
      cwd: work,
      onLine,
      env: buildEnvironment(),
    });
    if (answer.code === 0) return;
    const how = answer.timedOut ? `was not done after ${timeoutMs / 60_000} minutes` : 'failed';
    throw new Error(`${what} the engine ${how} (in ${build}). CMake's last words:\n${answer.tail}`);
  }
}

/** Files whose content is the same keep their times, so that the build tool has nothing to do for them. */
function writeRecipe(recipe, directory) {
  for (const file of recipe.files) {
    const target = path.join(directory, ...file.name.split('/'));
    if (existsSync(target) && readFileSync(target).equals(file.content)) continue;
    mkdirSync(path.dirname(target), { recursive: true });
    writeFileSync(target, file.content);
  }
}

/** Flags and targets of the caller's shell (another project's, an outer build's) must not get into the engine. */
function buildEnvironment() {
  const env = { ...process.env, NINJA_STATUS: '[%f/%t] ' };
  for (const name of [
    'CFLAGS',
    'CXXFLAGS',
    'CPPFLAGS',
    'LDFLAGS',
    'MAKEFLAGS',
    'DESTDIR',
    'CMAKE_GENERATOR',
  ]) {
    delete env[name];
  }
  return env;
}

/** Turns the build tool's lines into at most one message for every tenth of the work. */
function progressReporter(log) {
  let told = 0;
  return (line) => {
    const counted = /^\[(\d+)\/(\d+)\] /.exec(line);
    const given = /^\[ *(\d+)%\] /.exec(line);
    const percent = counted
      ? Math.floor((100 * Number(counted[1])) / Number(counted[2]))
      : given
        ? Number(given[1])
        : 0;
    const tenth = percent - (percent % 10);
    if (tenth <= told || tenth >= 100) return;
    told = tenth;
    log(`engine: ${tenth} % compiled`);
  };
}
