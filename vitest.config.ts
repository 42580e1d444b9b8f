import { defineConfig } from 'vitest/config';

/**
 * Three suites. `unit` is pure or in-process; `native` drives the compiled programs; `cluster` drives real
 * controllers, workers and engines as processes, one file at a time because they share two cores.
 */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          include: ['src-main/**/*.test.ts', 'src-worker/**/*.test.ts', 'e2e/support/**/*.test.ts'],
          exclude: ['**/*.native.test.ts'],
          testTimeout: 20_000,
        },
      },
      {
        test: {
          name: 'native',
          include: ['native/**/*.test.ts', 'src-main/**/*.native.test.ts', 'src-worker/**/*.native.test.ts'],
          fileParallelism: false,
          testTimeout: 120_000,
          hookTimeout: 600_000,
        },
      },
      {
        test: {
          name: 'cluster',
          include: ['e2e/cluster/**/*.test.ts'],
          fileParallelism: false,
          testTimeout: 180_000,
          hookTimeout: 300_000,
        },
      },
    ],
  },
});
