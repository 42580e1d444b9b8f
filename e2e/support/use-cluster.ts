import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { createCluster, type Cluster } from './cluster.ts';

/**
 * A cluster for the tests of the enclosing `describe`: a new one for each test, or one for all of them. Logs
 * of its nodes are printed when a test fails. Read `.current` inside tests and hooks only.
 */
export function useCluster(per: 'test' | 'file' = 'test'): { readonly current: Cluster } {
  let cluster: Cluster | null = null;
  const open = (): void => {
    cluster = createCluster();
  };
  const close = async (): Promise<void> => {
    const closing = cluster;
    cluster = null;
    await closing?.close();
  };
  if (per === 'file') {
    beforeAll(open);
    afterAll(close);
  } else {
    beforeEach(open);
  }
  afterEach(async (context) => {
    if (context.task.result?.state === 'fail') console.error(cluster?.logs());
    if (per === 'test') await close();
  });
  return {
    get current() {
      if (cluster === null) throw new Error('there is no cluster outside of a test');
      return cluster;
    },
  };
}
