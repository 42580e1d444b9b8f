import { createHash } from 'node:crypto';
import type { Stats } from 'node:fs';
import { lstat, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import type { JobResult, JobView } from '#shared/domain/job.ts';
import { resultPaths, safeName } from '#shared/domain/result-paths.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { digestFile } from '../nodejs/artifacts/digest.ts';
import { makeFolders } from '../nodejs/make-folders.ts';
import { getContent, partialPath, treeDigest } from './artifact-get.ts';
import type { CommandContext } from './context.ts';
import { bar, isFinished } from './job-text.ts';
import { createLiveLine } from './live-line.ts';
import { cannotWrite, inTheWay, whatIs } from './local-write.ts';
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
 * was broken off goes on, and nothing else that is there is touched: before anything is fetched, all is looked at. No
 * link below the folder is followed; the folder itself may be one.
 * @param directory default: one that is called as the job
 * @throws CoveyError `job_not_finished`, `artifact_not_found` when it has no results; `invalid_request` when something
 *   else is where a result goes
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
  await openRoot(context, root);
  const live = createLiveLine(io);
  const step = `Getting ${printable(job.name)}`;
  try {
    const { artifacts } = result;
    const paths = resultPaths(artifacts.map(({ name }) => name));
    const placed = artifacts.map((artifact, index) => ({ artifact, path: join(root, paths[index] ?? '') }));
    const here = new Set<string>();
    const found = await lookBelow(context, root, placed);
    let looked = 0;
    for (const { artifact, path } of placed) {
      const there = found.get(path);
      if (there === undefined) continue;
      live.update(`Looking at ${printable(root)}`, `${looked} of ${found.size}`);
      looked += 1;
      if (!(await isWhole(artifact, path, there, signal))) throw taken(context, path, wrong(there));
      here.add(path);
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
      await makeFoldersBelow(context, root, path);
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
  const size = Buffer.byteLength(text);
  const there = await lstat(path).catch(() => null);
  const wasHere = there?.isFile() === true && there.size === size && (await readFile(path, 'utf8')) === text;
  if (there && !wasHere) throw taken(context, path, wrong(there));
  if (!wasHere) {
    const partial = `${path}.${createHash('sha256').update(text).digest('hex').slice(0, 12)}.part`;
    try {
      await rm(partial, { force: true });
      await writeFile(partial, text, { flag: 'wx' });
      await rename(partial, path);
    } catch (error) {
      throw cannotWrite(path, error);
    }
  }
  return [{ name: 'value', path, bytes: size, artifact: null, wasHere }];
}

/** The folder that people named, which may be a link to one: made where nothing is. */
async function openRoot(context: CommandContext, root: string): Promise<void> {
  const there = await stat(root).catch(() => null);
  if (there?.isDirectory()) return;
  const own = await lstat(root).catch(() => null);
  if (own) {
    const leadsNowhere = own.isSymbolicLink() && there === null;
    throw taken(context, root, leadsNowhere ? 'is a link to nothing' : whatIs(there ?? own));
  }
  await makeFolders(root).catch((error: unknown) => {
    throw cannotWrite((error as NodeJS.ErrnoException).path ?? root, error);
  });
}

interface Placed {
  readonly artifact: ResultArtifact;
  readonly path: string;
}

/**
 * What is where results go, without following a link below the folder.
 * @throws CoveyError for what is no folder above one of them, or where one is put while it comes
 */
async function lookBelow(
  context: CommandContext,
  root: string,
  placed: readonly Placed[],
): Promise<ReadonlyMap<string, Stats>> {
  const found = new Map<string, Stats>();
  /** Whether it is there. */
  const folders = new Map<string, boolean>([[root, true]]);
  const isThere = async (folder: string): Promise<boolean> => {
    const known = folders.get(folder);
    if (known !== undefined) return known;
    const there = (await isThere(dirname(folder))) ? await lookAt(folder) : null;
    if (there && !there.isDirectory()) throw taken(context, folder, `${whatIs(there)}, no folder`);
    folders.set(folder, there !== null);
    return there !== null;
  };
  for (const { artifact, path } of placed) {
    if (!(await isThere(dirname(path)))) continue;
    const there = await lookAt(path);
    if (there) {
      found.set(path, there);
      continue;
    }
    const partial = partialPath(artifact, path);
    const begun = await lookAt(partial);
    const fits = artifact.kind === 'file' ? begun?.isFile() : begun?.isDirectory();
    if (begun && fits !== true) throw taken(context, partial, whatIs(begun));
  }
  return found;
}

/** null: nothing is there. */
async function lookAt(path: string): Promise<Stats | null> {
  try {
    return await lstat(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw cannotWrite(path, error);
  }
}

/** Those above a result, each looked at again: something else may have come meanwhile. */
async function makeFoldersBelow(context: CommandContext, root: string, path: string): Promise<void> {
  let folder = root;
  for (const name of relative(root, dirname(path)).split(sep)) {
    if (name === '') continue;
    folder = join(folder, name);
    const made = await mkdir(folder).then(
      () => true,
      (error: unknown) => {
        if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
        throw cannotWrite(folder, error);
      },
    );
    const there = made ? null : await lookAt(folder);
    if (there && !there.isDirectory()) throw taken(context, folder, `${whatIs(there)}, no folder`);
  }
}

/** Whether it is the result, verified. */
async function isWhole(
  artifact: ResultArtifact,
  path: string,
  there: Stats,
  signal: AbortSignal,
): Promise<boolean> {
  if (artifact.kind === 'file') {
    const fits = there.isFile() && there.size === artifact.bytes;
    return fits && (await digestFile(path, { signal })).sha256 === artifact.id;
  }
  if (!there.isDirectory()) return false;
  const digest = await treeDigest(path, signal).catch((error: unknown) => {
    if (signal.aborted) throw error;
    return null;
  });
  return digest === artifact.id;
}

function wrong(there: Stats): string {
  return there.isFile() || there.isDirectory() ? 'is something else' : whatIs(there);
}

function taken({ io }: CommandContext, path: string, what: string): CoveyError {
  const shown = relative(io.workingDirectory, path);
  const todo = 'nothing was replaced, so name another folder or move it away';
  return inTheWay(shown === '' || shown.startsWith('..') ? path : shown, what, todo);
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
