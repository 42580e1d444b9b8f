import type { Random } from './random.ts';

/**
 * Something that takes input from outside. It lives in a worker thread of its own, so that a loop that never ends
 * can be ended, and memory is its own.
 */
export interface FuzzTarget {
  /**
   * Makes one input from `random` alone, gives it to the program, and throws when what the program does is not one
   * of the things it may do. Whatever it starts is over when it resolves.
   */
  run(random: Random): void | Promise<void>;
  /** What grew when this grows, in bytes, after everything is at rest; default: the thread's own heap. */
  memoryBytes?(): number;
  close?(): void | Promise<void>;
}

/** How a target is found and judged. */
export interface FuzzPlan {
  readonly name: string;
  /** Of a full run of a million. */
  readonly share: number;
  /** Inputs at the same time, for targets that mostly wait; default 1. */
  readonly atOnce?: number;
  /** Longest time for one input. */
  readonly deadlineMs: number;
  /** What memory may grow by after the first fifth of a run. */
  readonly growthBytes: number;
  /** The command that runs one input again; default: run.ts. */
  readonly replay?: (seed: number, index: number) => string;
}

/** In `targets/NAME.ts`, as `createTarget`. */
export type CreateTarget = (context: unknown) => FuzzTarget | Promise<FuzzTarget>;
