import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { lstat, mkdtemp, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fillPath } from '#shared/api/calls.ts';
import { isSafeTreePath, type ArtifactStake, type ArtifactView } from '#shared/domain/artifact.ts';
import { canonicalManifest, makeManifest, type TreeFile } from '#shared/domain/tree-manifest.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { digestFile, sha256 } from '../nodejs/artifacts/digest.ts';
import { defaultUnpackLimits } from '../nodejs/artifacts/unpack-guard.ts';
import { walkTree } from '../nodejs/artifacts/walk-tree.ts';
import type { CommandContext } from './context.ts';
import { UsageError } from './failure.ts';
import { createLiveLine } from './live-line.ts';
import { cannotWrite, checkWritable, isWriteError } from './local-write.ts';
import { bytes, percent, printable } from './text.ts';

const contentPath = '/api/artifacts/:artifact/content';

/**
 * Gets an artifact as a file or folder here, verified. A file that was broken off goes on where it was.
 * @param target where to; default: its name, in the working directory
 * @returns where it is
 */
export async function getArtifact(
  { api, io }: CommandContext,
  ref: string,
  target: string | undefined,
  force: boolean,
  signal: AbortSignal,
): Promise<{ readonly artifact: ArtifactView; readonly path: string }> {
  const artifact = await api.call('artifact', { params: { artifact: ref } });
  const named = basename(artifact.name);
  if (target === undefined && !isSafeTreePath(named)) {
    throw new UsageError('The name of this artifact is no file name here: say where to put it.');
  }
  const path = resolve(io.workingDirectory, target ?? named);
  const there = await lstat(path).catch(() => null);
  if (there && !force)
    throw new UsageError(`${printable(path)} is there already: name another or add --force.`);
  if (there?.isDirectory() && artifact.kind === 'file')
    throw new UsageError(
      `${printable(path)} is a folder, and ${printable(artifact.name)} is a file: name a file.`,
    );
  const live = createLiveLine(io);
  const name = `Getting ${printable(artifact.name)}`;
  try {
    await getContent({
      ...{ api, signal, artifact, path },
      onBytes(done) {
        const share = artifact.bytes > 0 ? (done / artifact.bytes) * 100 : 100;
        live.update(name, `${percent(share)} of ${bytes(artifact.bytes)}`);
      },
      onStep: (step) => live.update(name, step),
    });
  } finally {
    live.end();
  }
  return { artifact, path };
}

export interface Getting {
  readonly api: CommandContext['api'];
  readonly signal: AbortSignal;
  readonly artifact: ArtifactStake & { readonly name: string };
  /** Absolute; a file that is there is replaced, a folder too. */
  readonly path: string;
  /** Of a file: how many bytes of it are here. */
  readonly onBytes: (done: number) => void;
  /** Of a folder. */
  readonly onStep: (step: string) => void;
}

/** Verified; a file that was broken off goes on from `PATH.ID.part`. @throws CoveyError */
export async function getContent(getting: Getting): Promise<void> {
  await checkWritable(getting.path);
  try {
    await (getting.artifact.kind === 'file' ? getFile(getting) : getTree(getting));
  } catch (error) {
    throw isWriteError(error) ? cannotWrite(getting.path, error) : error;
  }
}

function urlOf({ id }: Getting['artifact']): string {
  return fillPath(contentPath, { artifact: id });
}

async function getFile({ api, signal, artifact, path, onBytes }: Getting): Promise<void> {
  const partial = `${path}.${artifact.id.slice(0, 12)}.part`;
  const hash = createHash('sha256');
  const before = (await stat(partial).catch(() => null))?.size ?? 0;
  const from = before <= artifact.bytes ? before : 0;
  if (from > 0) await pipeline(createReadStream(partial, { end: from - 1 }), hash, { end: false });
  let done = from;
  if (from < artifact.bytes || artifact.bytes === 0) {
    const answer = await api.getBytes(urlOf(artifact), from, signal);
    if (from > 0 && answer.statusCode !== 206) {
      answer.destroy();
      throw new CoveyError(
        'internal_error',
        'What answers there cannot go on with a file that was broken off.',
      );
    }
    const counted = new Transform({
      highWaterMark: 1024 * 1024,
      transform(chunk: Buffer, _encoding, next) {
        hash.update(chunk);
        done += chunk.length;
        onBytes(done);
        next(null, chunk);
      },
    });
    const sink = createWriteStream(partial, {
      flags: from > 0 ? 'a' : 'w',
      mode: 0o644,
      highWaterMark: 4 * 1024 * 1024,
    });
    await pipeline(answer, counted, sink, { signal }).catch((error: unknown) => {
      if (signal.aborted) throw CoveyError.from(signal.reason);
      throw error instanceof CoveyError || isWriteError(error)
        ? error
        : brokenOff(artifact, 'the same command goes on', error);
    });
  }
  if (done !== artifact.bytes || hash.digest('hex') !== artifact.id) {
    await rm(partial, { force: true });
    throw new CoveyError('artifact_corrupt', `What came of ${artifact.name} is something else: try again.`);
  }
  await rename(partial, path);
}

function brokenOff({ name }: Getting['artifact'], then: string, error: unknown): CoveyError {
  return new CoveyError(
    'controller_unreachable',
    `The connection ended before all of ${name} was here: ${then}.`,
    {},
    error,
  );
}

async function getTree({ api, signal, artifact, path, onStep }: Getting): Promise<void> {
  const { unpackStream } = await import('../nodejs/artifacts/unpack.ts');
  // Beside the target, so that it can be renamed.
  const folder = await mkdtemp(join(dirname(path), '.covey-get-'));
  const tree = join(folder, 'tree');
  try {
    onStep(bytes(artifact.bytes));
    const limits = { ...defaultUnpackLimits, bytes: artifact.bytes };
    await unpackStream(await api.getBytes(urlOf(artifact), 0, signal), artifact.name, tree, {
      signal,
      limits,
    }).catch((error: unknown) => {
      throw error instanceof CoveyError || isWriteError(error)
        ? error
        : brokenOff(artifact, 'try again', error);
    });
    onStep('verifying');
    if ((await treeDigest(tree, signal)) !== artifact.id) {
      throw new CoveyError('artifact_corrupt', `What came of ${artifact.name} is something else: try again.`);
    }
    await rm(path, { recursive: true, force: true });
    await rename(tree, path);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The id that a folder here would have; null: it holds what no tree can. */
export async function treeDigest(path: string, signal: AbortSignal): Promise<ArtifactId | null> {
  const walked = await walkTree(path);
  const files: TreeFile[] = [];
  for (const file of walked.files) {
    const digest = await digestFile(file.absolute, { signal });
    files.push({
      path: file.path,
      executable: file.executable,
      bytes: digest.bytes,
      sha256: digest.sha256,
    });
  }
  const made = makeManifest(files, walked.directories);
  return made.ok ? sha256(canonicalManifest(made.manifest)) : null;
}
