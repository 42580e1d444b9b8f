import type { Random } from '../random.ts';
import type { FuzzTarget } from '../target.ts';

/** A program with the faults that fuzzing is for; see runner.test.ts. */
export function createTarget(fault: unknown): FuzzTarget {
  const kept: string[] = [];
  let count = 0;
  return {
    async run(random: Random) {
      count += 1;
      if (fault === 'leak') kept.push(random.bytes(4_096).toString('hex'));
      if (count !== 100) return;
      if (fault === 'throw') throw new Error('it broke');
      if (fault === 'loop') for (;;) random.int(2);
      if (fault === 'wait') await new Promise(() => undefined);
      if (fault === 'later') setImmediate(() => void Promise.reject(new Error('it broke later')));
    },
  };
}
