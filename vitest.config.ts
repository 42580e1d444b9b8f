import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

const unit = [
  'src-main/**/*.test.ts',
  'src-worker/**/*.test.ts',
  'src-renderer/**/*.test.{ts,tsx}',
  'e2e/**/*.test.ts',
];
const native = [
  'native/**/*.test.ts',
  'src-main/**/*.native.test.ts',
  'src-worker/**/*.native.test.ts',
  'e2e/support/**/*.native.test.ts',
];
const cluster = ['e2e/cluster/**/*.test.ts', 'e2e/browser/**/*.test.ts', 'e2e/desktop/**/*.test.ts'];

/**
 * Three suites. `unit` is pure or in-process; `native` drives the compiled programs; `cluster` drives real
 * controllers, workers and engines as processes. The last two run one file at a time: they share the cores.
 */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          include: unit,
          exclude: [...native, ...cluster],
          // Many of these wait more than they compute: also two cores take two files at a time.
          maxWorkers: Math.max(2, availableParallelism() - 1),
          testTimeout: 20_000,
        },
      },
      {
        test: {
          name: 'native',
          include: native,
          globalSetup: 'e2e/support/setup-native.ts',
          fileParallelism: false,
          testTimeout: 120_000,
          hookTimeout: 600_000,
        },
      },
      {
        test: {
          name: 'cluster',
          include: cluster,
          globalSetup: 'e2e/support/setup-cluster.ts',
          fileParallelism: false,
          testTimeout: 180_000,
          hookTimeout: 300_000,
        },
      },
    ],
  },
});
