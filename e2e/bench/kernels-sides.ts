import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import type { KernelCall } from '../../src-main/shared/domain/kernel-call.ts';
import { combineKernel, type KernelValue } from '../../src-main/shared/domain/kernel-results.ts';
import type { KernelFile, KernelIsa, KernelLibrary } from '../../src-worker/engines/kernels/binding.ts';

/** What is measured: a kernel over the first bytes of one or two files. */
export interface Case {
  readonly call: KernelCall;
  readonly files: readonly string[];
  /** Of each file. */
  readonly bytes: number;
}

/** Seconds of each pass over all bytes, and what came out (of numpy raw: in its own types). */
export interface Passes {
  readonly seconds: readonly number[];
  readonly value: unknown;
}

export interface Side {
  measure(one: Case, passes: number): Promise<Passes>;
  close(): void;
}

const answerMs = 120_000;

/** A program that answers a line with a line. */
class LineProgram {
  readonly #child: ChildProcess;
  readonly #lines: Interface;
  readonly #waiting: ((line: string | null) => void)[] = [];

  constructor(file: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) {
    this.#child = spawn(file, args, { env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'inherit'] });
    this.#child.on('error', () => this.#finish());
    this.#child.on('exit', () => this.#finish());
    if (!this.#child.stdout) throw new Error(`${file} has no output`);
    this.#lines = createInterface({ input: this.#child.stdout });
    this.#lines.on('line', (line) => this.#waiting.shift()?.(line));
  }

  async ask(line: string): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<string | null>();
    const timer = setTimeout(() => this.close(), answerMs);
    this.#waiting.push(resolve);
    this.#child.stdin?.write(`${line}\n`);
    const answer = await promise;
    clearTimeout(timer);
    if (answer === null) throw new Error(`${this.#child.spawnfile} ended without an answer`);
    return answer;
  }

  close(): void {
    this.#child.kill('SIGKILL');
  }

  #finish(): void {
    for (const resolve of this.#waiting.splice(0)) resolve(null);
  }
}

/** Ours, as a worker runs it: files mapped, promises awaited. */
export function ourSide(library: KernelLibrary, threads: number, isa?: KernelIsa): Side {
  const opened = new Map<string, KernelFile>();
  const open = (path: string): KernelFile => {
    const known = opened.get(path) ?? library.open(path);
    opened.set(path, known);
    return known;
  };
  return {
    async measure({ call, files, bytes }, passes) {
      const [input, second] = files.map(open);
      if (!input) throw new Error('a case without a file');
      const seconds: number[] = [];
      let value: KernelValue = null;
      for (let pass = 0; pass < passes; pass += 1) {
        const startedAt = performance.now();
        const range = { fromByte: 0, toByte: bytes, threads, ...(isa === undefined ? {} : { isa }) };
        const partial = await library.start({ call, input, second: second ?? null, ...range }).partial;
        seconds.push((performance.now() - startedAt) / 1_000);
        value = combineKernel(call, [partial]);
      }
      return { seconds, value };
    },
    close: () => opened.forEach((file) => file.close()),
  };
}

export function numpySide(threads: number): Side {
  const script = join(import.meta.dirname, 'kernels-numpy.py');
  const program = new LineProgram('/usr/bin/python3', [script], { OPENBLAS_NUM_THREADS: String(threads) });
  return {
    async measure({ call, files, bytes }, passes) {
      return JSON.parse(await program.ask(JSON.stringify({ ...call, files, bytes, passes }))) as Passes;
    },
    close: () => program.close(),
  };
}

/** The limit: a loop that loads everything and does nothing with it (native/kernels/bench/read.cpp). */
export function readSide(program: string, megabytes: number, threads: number): Side {
  const reader = new LineProgram(program, [String(megabytes)]);
  return {
    async measure({ files, bytes }, passes) {
      const answer = await reader.ask(`${threads} ${passes}`);
      const scale = (files.length * bytes) / (megabytes * 1024 * 1024);
      return {
        seconds: answer
          .trim()
          .split(' ')
          .map((text) => Number(text) * scale),
        value: null,
      };
    },
    close: () => reader.close(),
  };
}
