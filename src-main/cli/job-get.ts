import { lstat, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import type { JobResult, JobView } from '#shared/domain/job.ts';
import { resultPaths, safeName } from '#shared/domain/result-paths.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { digestFile } from '../nodejs/artifacts/digest.ts';
import { getContent, treeDigest } from './artifact-get.ts';
import type { CommandContext } from './context.ts';
import { UsageError } from './failure.ts';
import { bar, isFinished } from './job-text.ts';
import { createLiveLine } from './live-line.ts';
import { cannotWrite } from './local-write.ts';
import { bytes, percent, printable } from './text.ts';

/** Files that come at the same time: many are small. */
const atOnce = 4;

export interface GotResult {
  /** As the job calls it; `value` for that of a kernel. */
  readonly name: string;
  readonly path: string;
  readonly bytes: number;
  /** null: a value, which is no artifact. */
  readonly artifact: ArtifactId | null;
  /** It was there already, and is the right one. */
  readonly wasHere: boolean;
}

type ResultArtifact = JobResult['artifacts'][number];

/**
 * Gets all results of a finished job into one folder, verified. What is there whole is not fetched again, a file that
 * was broken off goes on, and nothing else that is there is touched: before anything is fetched, all is looked at.
 * @param directory default: one that is called as the job
 * @throws CoveyError `job_not_finished`, `artifact_not_found` when it has no results; UsageError when something else is
 *   where a result goes
 */
export async function getResults(
  context: CommandContext,
  job: JobView,
  directory: string | undefined,
  signal: AbortSignal,
): Promise<{ readonly directory: string; readonly results: readonly GotResult[] }> {
  const { io } = context;
  const result = resultOf(job);
  const root = resolve(io.workingDirectory, directory ?? safeName(job.name));
  const there = await lstat(root).catch(() => null);
  if (there && !there.isDirectory()) throw taken(context, root, 'is no folder');
  const live = createLiveLine(io);
  const step = `Getting ${printable(job.name)}`;
  try {
    const { artifacts } = result;
    const paths = resultPaths(artifacts.map(({ name }) => name));
    const placed = artifacts.map((artifact, index) => ({ artifact, path: join(root, paths[index] ?? '') }));
    const here = new Set<string>();
    for (const [index, { artifact, path }] of placed.entries()) {
      if (there) live.update(`Looking at ${printable(root)}`, `${index} of ${placed.length}`);
      if (await isHere(context, artifact, path, signal)) here.add(path);
    }
    const value = hasValue(job) ? await putValue(context, result, root) : [];
    const wanted = placed.filter(({ path }) => !here.has(path));
    const total = wanted.reduce((sum, { artifact }) => sum + artifact.bytes, 0);
    /** Of those that come now. */
    const coming = new Map<string, number>();
    const got = { count: 0, bytes: 0 };
    const show = (): void => {
      const done = [...coming.values()].reduce((sum, one) => sum + one, got.bytes);
      const share = total > 0 ? Math.min(1, done / total) : 1;
      const count = `${here.size + got.count} of ${placed.length}`;
      live.update(step, `${bar(share, 20)} ${percent(share * 100)} of ${bytes(total)}, ${count}`);
    };
    if (wanted.length > 0) show();
    await atMost(atOnce, wanted, signal, async ({ artifact, path }, stop) => {
      await makeFolderOf(path);
      const onBytes = (done: number): void => {
        coming.set(path, done);
        show();
      };
      await getContent({ api: context.api, signal: stop, artifact, path, onBytes, onStep: show });
      coming.delete(path);
      got.count += 1;
      got.bytes += artifact.bytes;
      show();
    });
    const files = placed.map(({ artifact, path }): GotResult => ({
      name: artifact.name,
      path,
      bytes: artifact.bytes,
      artifact: artifact.id,
      wasHere: here.has(path),
    }));
    return { directory: root, results: [...value, ...files] };
  } finally {
    live.end();
  }
}

function resultOf(job: JobView): JobResult {
  if (!isFinished(job)) {
    throw new CoveyError(
      'job_not_finished',
      `${job.name} is ${job.status}: its results are there when it is finished. "covey jobs wait ${job.id}" waits for it.`,
    );
  }
  if (job.result !== null && (job.result.artifacts.length > 0 || hasValue(job))) return job.result;
  throw new CoveyError(
    'artifact_not_found',
    `${job.name} has no results: "covey jobs info ${job.id}" shows what became of it, "covey jobs logs ${job.id}" what it printed.`,
  );
}

/** A kernel has one, be it `null` for what has no elements. */
function hasValue({ kind, result }: JobView): boolean {
  return result !== null && (result.value !== null || kind === 'kernel');
}

async function putValue(
  context: CommandContext,
  { value }: JobResult,
  directory: string,
): Promise<GotResult[]> {
  const path = join(directory, 'value.json');
  const text = `${JSON.stringify(value)}\n`;
  const there = await lstat(path).catch(() => null);
  const wasHere = there?.isFile() === true && (await readFile(path, 'utf8')) === text;
  if (there && !wasHere) throw taken(context, path, 'is something else');
  await makeFolderOf(path);
  if (!wasHere) {
    await writeFile(path, text, { flag: 'wx' }).catch((error: unknown) => {
      throw cannotWrite(path, error);
    });
  }
  return [{ name: 'value', path, bytes: Buffer.byteLength(text), artifact: null, wasHere }];
}

async function makeFolderOf(path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true }).catch((error: unknown) => {
    throw cannotWrite(dirname(path), error);
  });
}

/** Whole and verified. @throws UsageError when something else is there */
async function isHere(
  context: CommandContext,
  artifact: ResultArtifact,
  path: string,
  signal: AbortSignal,
): Promise<boolean> {
  const there = await lstat(path).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOTDIR')
      throw taken(context, dirname(path), 'is no folder');
    return null;
  });
  if (!there) return false;
  if (artifact.kind === 'file' && there.isFile() && there.size === artifact.bytes) {
    if ((await digestFile(path, { signal })).sha256 === artifact.id) return true;
  }
  if (artifact.kind === 'tree' && there.isDirectory()) {
    const digest = await treeDigest(path, signal).catch((error: unknown) => {
      if (signal.aborted) throw error;
      return null;
    });
    if (digest === artifact.id) return true;
  }
  throw taken(context, path, 'is something else');
}

function taken({ io }: CommandContext, path: string, what: string): UsageError {
  const shown = relative(io.workingDirectory, path);
  return new UsageError(
    `${printable(shown === '' || shown.startsWith('..') ? path : shown)} is there already and ${what}.`,
    'Nothing was replaced: name another folder, or move it away.',
  );
}

/** The first that fails ends the others. */
async function atMost<T>(
  count: number,
  items: readonly T[],
  signal: AbortSignal,
  work: (item: T, stop: AbortSignal) => Promise<void>,
): Promise<void> {
  const failed = new AbortController();
  const stop = AbortSignal.any([signal, failed.signal]);
  const rest = items.values();
  let first: { readonly error: unknown } | null = null;
  const worker = async (): Promise<void> => {
    for (const item of rest) {
      if (stop.aborted) return;
      try {
        await work(item, stop);
      } catch (error) {
        first ??= { error };
        failed.abort(new CoveyError('cancelled', 'Another one failed.'));
      }
    }
  };
  await Promise.all(Array.from({ length: count }, worker));
  signal.throwIfAborted();
  if (first !== null) throw (first as { readonly error: unknown }).error;
}
