import path from 'node:path';
import { bootstrap } from './lib/bootstrap.mjs';
import { ScriptError, runScript, say } from './lib/console.mjs';
import { buildKernels } from './lib/kernels.mjs';
import { pinnedNode } from './lib/packages.mjs';
import { inRoot } from './lib/paths.mjs';
import { run } from './lib/run.mjs';

/**
 * `npm run test:soak [-- ROUNDS]`: the long forms. A million inputs over everything that takes bytes from outside
 * and a million mutated model headers, a million calls of the kernels, kernels over a gigabyte, then the whole loss
 * matrix and three minutes of chaos for jobs ROUNDS times (default 3). Stops at the first that fails. COVEY_FUZZ_SEED
 * repeats the inputs of another run, COVEY_CHAOS_SEED its chaos.
 */
const fuzzRuns = 1_000_000;
/** Of the inputs from outside, those that go to the API of a running controller. */
const httpRuns = 100_000;
const kernelBytes = 2 ** 30;
const chaosMs = 3 * 60_000;
const roundMs = 60 * 60_000;

await runScript(async () => {
  const rounds = Number(process.argv[2] ?? 3);
  if (!Number.isInteger(rounds) || rounds < 1)
    throw new ScriptError('ROUNDS must be a whole number from 1.', '', 2);
  await bootstrap();
  const suite = async (title, args, env = {}) => {
    say(title);
    const result = await run(pinnedNode(), [inRoot('scripts', 'test.mjs'), ...args], {
      env: { ...process.env, ...env },
      stdio: 'inherit',
      timeoutMs: roundMs,
    });
    if (result.code !== 0) throw new ScriptError(`${title}: failed.`);
  };
  const seed = process.env['COVEY_FUZZ_SEED'] ?? String(Math.floor(Math.random() * 2 ** 31));
  await suite(`${fuzzRuns - httpRuns} inputs from outside, seed ${seed}`, ['unit', '--', 'e2e/fuzz'], {
    COVEY_FUZZ_SEED: seed,
    COVEY_FUZZ_INPUTS: String(fuzzRuns - httpRuns),
  });
  await suite(
    `${httpRuns} requests to the API, seed ${seed}`,
    ['cluster', '--', 'e2e/cluster/fuzz.test.ts'],
    {
      COVEY_FUZZ_SEED: seed,
      COVEY_FUZZ_HTTP_INPUTS: String(httpRuns),
    },
  );
  await suite(
    `${fuzzRuns} mutated model headers`,
    ['unit', '--', 'src-main/shared/gguf', '--test-timeout=600000'],
    {
      COVEY_FUZZ_RUNS: String(fuzzRuns),
    },
  );
  say(`${fuzzRuns} calls of the kernels, seed ${seed}`);
  const fuzz = path.join(await buildKernels('sanitized'), 'bin', 'kernels-fuzz');
  const calls = await run(fuzz, [seed, String(fuzzRuns)], { stdio: 'inherit', timeoutMs: roundMs });
  if (calls.code !== 0) throw new ScriptError('Calls of the kernels: failed.');
  await suite('kernels over 1 GiB', ['cluster', '--', 'e2e/cluster/jobs-kernels.test.ts'], {
    COVEY_KERNEL_BYTES: String(kernelBytes),
  });
  for (let round = 1; round <= rounds; round += 1) {
    await suite(`loss matrix, round ${round} of ${rounds}`, ['cluster', '--', 'e2e/cluster/loss.test.ts']);
    await suite(
      `chaos for jobs, round ${round} of ${rounds}`,
      ['cluster', '--', 'e2e/cluster/jobs-chaos.test.ts'],
      {
        COVEY_CHAOS_MS: String(chaosMs),
      },
    );
  }
  return 0;
});
