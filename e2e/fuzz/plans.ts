import type { FuzzPlan } from './target.ts';

const megabytes = 1_000_000;

/** What needs no running node. Shares of a full run: fast ones get more, each of them enough. */
export const plans: readonly FuzzPlan[] = [
  { name: 'session-controller', share: 0.2, deadlineMs: 5_000, growthBytes: 16 * megabytes },
  { name: 'session-worker', share: 0.14, deadlineMs: 5_000, growthBytes: 16 * megabytes },
  { name: 'join-controller', share: 0.08, deadlineMs: 5_000, growthBytes: 16 * megabytes },
  { name: 'join-worker', share: 0.06, deadlineMs: 5_000, growthBytes: 16 * megabytes },
  { name: 'cluster-port', share: 0.02, atOnce: 8, deadlineMs: 20_000, growthBytes: 32 * megabytes },
  { name: 'frames', share: 0.2, deadlineMs: 5_000, growthBytes: 16 * megabytes },
  { name: 'mdns', share: 0.18, deadlineMs: 5_000, growthBytes: 16 * megabytes },
  { name: 'join-string', share: 0.06, deadlineMs: 5_000, growthBytes: 16 * megabytes },
  { name: 'config', share: 0.03, deadlineMs: 5_000, growthBytes: 16 * megabytes },
  { name: 'stored-files', share: 0.03, deadlineMs: 5_000, growthBytes: 16 * megabytes },
];

/** The API of a controller that runs; the cluster suite starts one. */
export const httpPlan: FuzzPlan = {
  name: 'http',
  share: 1,
  atOnce: 24,
  deadlineMs: 30_000,
  // Resident memory, which the heap takes early and gives back late.
  growthBytes: 128 * megabytes,
  replay: (seed, index) =>
    `COVEY_FUZZ_SEED=${seed} COVEY_FUZZ_FROM=${index} COVEY_FUZZ_HTTP_INPUTS=1 npm run test:cluster -- e2e/cluster/fuzz.test.ts`,
};
