import type { KernelName } from '#shared/domain/kernel-call.ts';
import type { KernelRunner } from './kernel-queue.ts';

export interface LoadedRunner {
  readonly isa: string;
  readonly kernels: readonly KernelName[];
  readonly runner: KernelRunner;
}

/** The native library of this system; rejects with the reason when there is none. */
export async function loadRunner(engineDirectory: string | null): Promise<LoadedRunner> {
  if (engineDirectory === null) throw new Error('there is no engine directory, which has the kernel library');
  throw new Error('the engine directory has no kernel library');
}
