import { join } from 'node:path';
import { CoveyError } from '#shared/errors.ts';
import { elementBytes, kernelNameSchema, type KernelName } from '#shared/domain/kernel-call.ts';
import { loadKernelLibrary, type KernelLibrary, type RunningKernel } from '../binding.ts';
import { smallBytes, type KernelRunner, type OpenWork } from './kernel-queue.ts';

export interface LoadedRunner {
  readonly isa: string;
  readonly kernels: readonly KernelName[];
  readonly runner: KernelRunner;
}

const libraryName = 'covey-kernels.node';
const progressMs = 100;
/** What the library takes: machines may have more processors, and no more memory to keep them busy. */
const mostThreads = 256;

/** The native library of this system; rejects with the reason when there is none. */
export async function loadRunner(engineDirectory: string | null): Promise<LoadedRunner> {
  if (engineDirectory === null) throw new Error('there is no engine directory, which has the kernel library');
  const library = loadKernelLibrary(join(engineDirectory, libraryName));
  return {
    isa: library.isas[0] ?? 'scalar',
    kernels: kernelNameSchema.options,
    runner: { open: ({ input, second }) => openWork(library, input, second) },
  };
}

function openWork(library: KernelLibrary, inputPath: string, secondPath: string | null): OpenWork {
  const input = library.open(inputPath);
  let second: typeof input | null;
  try {
    second = secondPath === null ? null : library.open(secondPath);
  } catch (error) {
    input.close();
    throw error;
  }
  return {
    async run(call, from, to, { threads, signal, onProgress }) {
      const width = elementBytes[call.type];
      const [fromByte, toByte] = [from * width, to * width];
      if (toByte > input.bytes || (second && toByte > second.bytes)) {
        throw new CoveyError('dataset_invalid', `elements ${from} to ${to} are not in the input`);
      }
      const running = library.start({
        ...{ call, input, second, fromByte, toByte },
        threads: Math.min(threads, mostThreads),
      });
      // A small one is over before anybody could ask how far it is.
      if (toByte - fromByte <= smallBytes) return running.partial;
      return watched(running, toByte - fromByte, signal, onProgress);
    },
    close() {
      input.close();
      second?.close();
    },
  };
}

async function watched(
  running: RunningKernel,
  bytes: number,
  signal: AbortSignal,
  onProgress: (fraction: number) => void,
): ReturnType<OpenWork['run']> {
  const stop = (): void => running.cancel();
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop);
  const timer = setInterval(() => onProgress(bytes === 0 ? 1 : running.bytesDone() / bytes), progressMs);
  try {
    return await running.partial;
  } finally {
    clearInterval(timer);
    signal.removeEventListener('abort', stop);
  }
}
