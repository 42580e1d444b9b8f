import os from 'node:os';

/** What a bench prints as its last line: one JSON object. */
export interface BenchResult {
  readonly name: string;
  /** The figure that counts, or null where there is nothing to compare with. */
  readonly ratio: number | null;
  /** What `ratio` is of, and which way is better: `ours / direct, tokens per second; higher is better`. */
  readonly ratioOf: string;
  /** Medians over the runs, in `unit`. */
  readonly ours: number;
  readonly theirs: number | null;
  readonly unit: string;
  /** Raw figures in the order they were taken; the sides alternate. */
  readonly runs: readonly BenchRun[];
  /** Further figures by name, such as `pipeRatio`. */
  readonly more?: Readonly<Record<string, number>>;
  /** What must be reached, by the name of the figure (`ratio` or one of `more`). */
  readonly targets?: Readonly<Record<string, { readonly atLeast?: number; readonly atMost?: number }>>;
  readonly machine: Machine;
  /** Something went wrong that no figure makes good: said after the result, and the exit code is 1. */
  readonly failure?: string;
}

export interface BenchRun {
  readonly side: string;
  readonly figures: Readonly<Record<string, number>>;
}

export interface BenchOptions {
  /** Progress, one line a step; never on stdout. */
  readonly log: (text: string) => void;
  /** How long it runs; only for those that export `takesMinutes`. */
  readonly minutes?: number;
}

/** Every file of this folder that exports `run` is a bench; `programs`: those of Debian that it wants (debian.mjs). */
export type RunBench = (options: BenchOptions) => Promise<BenchResult>;

export interface Machine {
  readonly cpu: string;
  readonly logicalCores: number;
  readonly ramBytes: number;
  readonly os: string;
  readonly node: string;
}

export function describeMachine(): Machine {
  const cpus = os.cpus();
  return {
    cpu: cpus[0]?.model.trim() ?? 'unknown',
    logicalCores: cpus.length,
    ramBytes: os.totalmem(),
    os: `${os.type()} ${os.release()} ${os.arch()}`,
    node: process.versions.node,
  };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)] ?? NaN;
  return Number.isInteger(middle) ? ((sorted[middle - 1] ?? NaN) + upper) / 2 : upper;
}

/** Three significant digits, without an exponent for the sizes that benches have. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value) || 1)));
  return value.toFixed(Math.min(digits, 6));
}

/** The result as a table for people. */
export function formatResult(result: BenchResult): string {
  const lines = [`${result.name}: ${result.ratioOf}`, ''];
  const names = [...new Set(result.runs.flatMap((run) => Object.keys(run.figures)))];
  const rows = [
    ['run', 'side', ...names],
    ...result.runs.map((run, index) => [
      String(index + 1),
      run.side,
      ...names.map((name) => (run.figures[name] === undefined ? '' : figure(run.figures[name]))),
    ]),
  ];
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  for (const row of rows) {
    const cells = row.map((cell, column) => {
      const width = widths[column] ?? 0;
      return column < 2 ? cell.padEnd(width) : cell.padStart(width);
    });
    lines.push(`  ${cells.join('  ')}`.trimEnd());
  }
  lines.push('', `  ours    ${figure(result.ours)} ${result.unit}`);
  if (result.theirs !== null) lines.push(`  theirs  ${figure(result.theirs)} ${result.unit}`);
  const figures = { ...(result.ratio === null ? {} : { ratio: result.ratio }), ...result.more };
  for (const [name, value] of Object.entries(figures)) {
    lines.push(`  ${name}  ${figure(value)}${verdict(value, result.targets?.[name])}`);
  }
  const { machine } = result;
  const ram = `${(machine.ramBytes / 1024 ** 3).toFixed(0)} GiB`;
  lines.push(
    '',
    `  ${machine.cpu}, ${machine.logicalCores} cores, ${ram}, ${machine.os}, Node.js ${machine.node}`,
  );
  return lines.join('\n');
}

function verdict(value: number, target: { atLeast?: number; atMost?: number } | undefined): string {
  if (target === undefined) return '';
  const { atLeast = -Infinity, atMost = Infinity } = target;
  const wanted = target.atLeast === undefined ? `at most ${atMost}` : `at least ${atLeast}`;
  return value >= atLeast && value <= atMost ? `  (ok: ${wanted})` : `  (MISSED: ${wanted})`;
}
