import { createRequire } from 'node:module';
import { CoveyError } from '#shared/errors.ts';
import { elementBytes, type KernelCall } from '#shared/domain/kernel-call.ts';
import type { KernelPartial } from '#shared/domain/kernel-results.ts';
import { formatExactBinary } from '#shared/lib/exact-binary.ts';

/**
 * The native kernel library (native/kernels), for the process that computes: a fault in it ends that process. What is
 * passed is looked at here and again in the library; the answer to anything wrong is an exception.
 */
export interface KernelLibrary {
  /** What this processor has of what the library has, best first. */
  readonly isas: readonly KernelIsa[];
  /**
   * Maps a file, or a range of it, to be read. It is not read yet.
   * @throws CoveyError `dataset_invalid`: it cannot be opened, is no regular file, or the range is not in it
   */
  open(path: string, range?: { readonly offset: number; readonly bytes: number }): KernelFile;
  /**
   * Begins to compute on threads of its own.
   * @throws CoveyError `invalid_request`: the call, its range or the number of threads cannot be
   */
  start(run: KernelRun): RunningKernel;
}

export const kernelIsas = ['scalar', 'avx2', 'avx512', 'neon'] as const;
export type KernelIsa = (typeof kernelIsas)[number];

export interface KernelFile {
  readonly bytes: number;
  /** Runs that use it go on to their end. */
  close(): void;
}

export interface KernelRun {
  readonly call: KernelCall;
  readonly input: KernelFile;
  /** `dot_product`: the other vector, over the same range. */
  readonly second?: KernelFile | null;
  /** Of what is mapped: whole elements. */
  readonly fromByte: number;
  readonly toByte: number;
  /** 1 to 256. */
  readonly threads: number;
  /** Default: the best. All give the same bits. */
  readonly isa?: KernelIsa;
}

export interface RunningKernel {
  /**
   * Rejects with CoveyError: `cancelled`; `dataset_invalid` when the file changed, became shorter or could not be read
   * meanwhile; `internal_error` when the system has no memory or threads.
   */
  readonly partial: Promise<KernelPartial>;
  /** Of one input, so far. */
  bytesDone(): number;
  /** Ends within a few milliseconds; nothing when it has ended. */
  cancel(): void;
}

/** CK_ABI_VERSION of native/kernels/include/covey-kernels.h, whose numbers these are. */
const abiVersion = 1;
const kernelNumbers = ['sum', 'xor', 'dot_product', 'min', 'max', 'histogram'] as const;
const typeNumbers = ['i32', 'i64', 'f32', 'f64', 'u8', 'u16', 'u32', 'u64'] as const;
const isaNumbers = ['best', ...kernelIsas] as const;
const statusOk = 0;
const statusCancelled = 1;
const statusUnreadable = 2;

type Handle = object;
/** What the module gives of a partial result; which fields depends on kernel and type. */
interface RawPartial {
  readonly elements: number;
  readonly total?: bigint;
  /** In units of 2^exponent. */
  readonly finite?: bigint;
  readonly exponent?: number;
  readonly nan?: number;
  readonly positiveInfinities?: number;
  readonly negativeInfinities?: number;
  readonly value?: bigint | number | null;
  /** Bins, then: below low, at or above high, NaN. */
  readonly counts?: BigUint64Array;
}
interface NativeModule {
  readonly abiVersion?: number;
  open(path: string, offset: number, bytes: number | null): Handle;
  close(mapping: Handle): void;
  size(mapping: Handle): number;
  start(
    ...values: [
      ...[
        kernel: number,
        type: number,
        isa: number,
        threads: number,
        bins: number,
        low: number,
        high: number,
      ],
      ...[
        input: Handle,
        from: number,
        second: Handle | null,
        secondFrom: number,
        bytes: number,
        position: number,
      ],
      ended: (text: string, status: number, partial?: RawPartial) => void,
    ]
  ): Handle;
  bytesDone(run: Handle): number;
  cancel(run: Handle): void;
  hasIsa(isa: number): boolean;
}

/**
 * @param file absolute path of `covey-kernels.node`
 * @throws CoveyError `kernels_unavailable` with the system's words, or because it is of another version
 */
export function loadKernelLibrary(file: string): KernelLibrary {
  let native: NativeModule;
  try {
    native = createRequire(import.meta.url)(file) as NativeModule;
  } catch (error) {
    const words = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error);
    throw new CoveyError('kernels_unavailable', `the kernel library does not load: ${words}`);
  }
  if (native.abiVersion !== abiVersion) {
    throw new CoveyError(
      'kernels_unavailable',
      `the kernel library is of version ${native.abiVersion ?? 'unknown'} and this program wants ${abiVersion}: ` +
        'the engine directory is of another version of Covey',
    );
  }
  const isas = kernelIsas.filter((isa) => native.hasIsa(isaNumbers.indexOf(isa))).reverse();
  const handles = new WeakMap<KernelFile, { readonly mapping: Handle; readonly offset: number }>();

  return {
    isas,
    open(path, range) {
      const offset = range?.offset ?? 0;
      let mapping: Handle;
      try {
        mapping = native.open(path, offset, range?.bytes ?? null);
      } catch (error) {
        throw new CoveyError('dataset_invalid', `cannot be opened: ${(error as Error).message}`, {}, error);
      }
      const opened: KernelFile = {
        bytes: native.size(mapping),
        close: () => native.close(mapping),
      };
      handles.set(opened, { mapping, offset });
      return opened;
    },
    start(run) {
      const { call, fromByte, toByte, threads } = run;
      if (!(
        Number.isSafeInteger(fromByte) &&
        Number.isSafeInteger(toByte) &&
        fromByte >= 0 &&
        fromByte <= toByte
      )) {
        throw new CoveyError('invalid_request', `bytes ${fromByte} to ${toByte} are no range`);
      }
      const of = (opened: KernelFile): { readonly mapping: Handle; readonly offset: number } => {
        const handle = handles.get(opened);
        if (!handle) throw new CoveyError('invalid_request', 'this library did not open that file');
        return handle;
      };
      const input = of(run.input);
      const second = run.second ? of(run.second) : null;
      const { promise, resolve, reject } = Promise.withResolvers<KernelPartial>();
      const ended = (text: string, status: number, partial?: RawPartial): void => {
        if (status === statusOk && partial) resolve(describePartial(call, partial));
        else reject(failure(text, status));
      };
      let handle: Handle;
      try {
        handle = native.start(
          ...([kernelNumbers.indexOf(call.kernel), typeNumbers.indexOf(call.type)] as const),
          ...([isaNumbers.indexOf(run.isa ?? 'best'), threads] as const),
          ...([call.bins ?? 0, call.low ?? 0, call.high ?? 0] as const),
          ...([input.mapping, fromByte, second?.mapping ?? null, fromByte, toByte - fromByte] as const),
          ...([input.offset + fromByte, ended] as const),
        );
      } catch (error) {
        throw new CoveyError(
          'invalid_request',
          `${call.kernel} of ${call.type}: ${(error as Error).message}`,
        );
      }
      return {
        partial: promise,
        bytesDone: () => native.bytesDone(handle),
        cancel: () => native.cancel(handle),
      };
    },
  };
}

/** Elements of a file, which must hold whole ones. @throws CoveyError `dataset_invalid` */
export function elementsOf(opened: KernelFile, call: KernelCall): number {
  const width = elementBytes[call.type];
  if (opened.bytes % width !== 0) {
    throw new CoveyError(
      'dataset_invalid',
      `${opened.bytes} bytes are no whole number of ${call.type} elements of ${width}`,
    );
  }
  return opened.bytes / width;
}

function failure(text: string, status: number): CoveyError {
  if (status === statusCancelled) return new CoveyError('cancelled', 'it was told to end');
  return new CoveyError(status === statusUnreadable ? 'dataset_invalid' : 'internal_error', text);
}

function describePartial(call: KernelCall, raw: RawPartial): KernelPartial {
  const { kernel, type } = call;
  const { elements, nan = 0 } = raw;
  const common = { kernel, type, elements };
  if (raw.total !== undefined) return { ...common, total: String(raw.total) } as KernelPartial;
  if (raw.finite !== undefined) {
    return {
      ...common,
      finite: formatExactBinary({
        integer: raw.finite,
        exponent: raw.exponent ?? 0,
      }),
      nan,
      positiveInfinities: raw.positiveInfinities ?? 0,
      negativeInfinities: raw.negativeInfinities ?? 0,
    } as KernelPartial;
  }
  if (raw.counts) {
    const counts = Array.from(raw.counts, Number);
    const [under = 0, over = 0, none = 0] = counts.splice(-3);
    return { ...common, under, over, nan: none, counts } as KernelPartial;
  }
  if (kernel === 'xor') return { ...common, value: String(raw.value) } as KernelPartial;
  return {
    ...common,
    nan,
    value: raw.value === null ? null : String(raw.value),
  } as KernelPartial;
}
