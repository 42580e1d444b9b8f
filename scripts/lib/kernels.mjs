import { mkdirSync } from 'node:fs';
import { runCommand } from '../engine/command.mjs';
import { ScriptError } from './console.mjs';
import { inRoot } from './paths.mjs';
import { findProgram } from './run.mjs';

const buildMs = 300_000;

/** Builds of the kernels for tests and benches, and CMake's options of each. */
const variants = {
  native: [],
  sanitized: ['-DKERNELS_SANITIZE=ON', '-DKERNELS_FUZZ_INPUTS=5000'],
  // Run by an emulator: a fraction of the inputs takes as long.
  arm64: [
    '-DCMAKE_SYSTEM_NAME=Linux',
    '-DCMAKE_SYSTEM_PROCESSOR=aarch64',
    '-DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc',
    '-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++',
    '-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64;-L;/usr/aarch64-linux-gnu',
    '-DKERNELS_FUZZ_INPUTS=3000',
  ],
};

/** Programs that a variant needs, on top of CMake and a compiler. */
export const variantPrograms = {
  native: [],
  sanitized: [],
  arm64: ['aarch64-linux-gnu-g++', 'qemu-aarch64'],
};

/**
 * Builds tests and bench programs of the kernels below `build/`, from what an earlier build left.
 * @param {keyof typeof variants} variant
 * @returns {Promise<string>} the build directory: ctest runs there, programs are in its `bin`
 * @throws {ScriptError} with the compiler's words
 */
export async function buildKernels(variant) {
  const directory = inRoot('build', 'kernels', variant);
  mkdirSync(directory, { recursive: true });
  const generator = findProgram('ninja') === null ? [] : ['-G', 'Ninja'];
  const headers = inRoot('node_modules', 'node-api-headers', 'include');
  const steps = [
    [
      ...['-S', inRoot('native', 'kernels'), '-B', directory, ...generator],
      ...['-DKERNELS_TESTS=ON', `-DNODE_API_INCLUDE_DIR=${headers}`, ...variants[variant]],
    ],
    ['--build', directory, '--parallel', '2'],
  ];
  for (const step of steps) {
    const answer = await runCommand('cmake', step, { timeoutMs: buildMs });
    if (answer.code !== 0) throw new ScriptError(`The kernels (${variant}) do not build:\n${answer.tail}`);
  }
  return directory;
}
