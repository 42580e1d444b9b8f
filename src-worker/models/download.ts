import { createHash } from 'node:crypto';
import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { parseHubSource, type HubSource } from '#shared/domain/hub-source.ts';
import { CoveyError } from '#shared/errors.ts';
import type { LibraryModel, TransferProgress } from '#shared/protocol/requests.ts';
import { abortError } from './abort.ts';
import { progressMeter, requireSpace } from './files.ts';
import { downloadFile, partialBytes } from './hub/download-file.ts';
import { describeFile, listFiles, unreachable, type RemoteFile } from './hub/hub-api.ts';
import { publicHub, type HubSettings } from './hub/request.ts';
import { bestModel, modelFiles } from './hub/source.ts';
import type { ModelLibrary } from './library.ts';
import { sanitiseModelName } from './names.ts';
import { modelStem } from './shards.ts';

export interface DownloadOptions {
  readonly hub?: Partial<HubSettings>;
  readonly onProgress?: (progress: TransferProgress) => void;
  readonly signal?: AbortSignal;
  /** Epoch ms, for the age of forgotten partial files. */
  readonly now: number;
}

/** Partial files nobody came back for in this time are removed. */
const FORGOTTEN_MS = 7 * 24 * 60 * 60_000;
const downloads = '.downloads';

/** Sources that are being fetched by this process, by the library they go to. */
const running = new WeakMap<ModelLibrary, Set<string>>();

/**
 * Fetches a model from the hub into the library: `hf:owner/repo/file.gguf` (with all its shards), or
 * `hf:owner/repo` for the best file there (see `bestModel`). What was fetched before is not fetched again; a download
 * that ended early is continued. Nothing enters the library whose SHA-256 is not the one the hub names.
 *
 * Rejects with CoveyError: `invalid_request`, `hub_unreachable`, `download_not_found`, `download_denied`,
 * `too_many_requests`, `download_failed`, `download_corrupt`, `disk_full`, `cancelled` (or the signal's own), and the
 * codes of inspectModelFile for files that are no model.
 */
export async function downloadModel(
  source: string,
  library: ModelLibrary,
  options: DownloadOptions,
): Promise<LibraryModel> {
  const parsed = parseHubSource(source);
  if (!parsed.ok) throw parsed.error;
  const present = library.findBySource(source);
  if (present !== null) return present;

  const active = running.get(library) ?? new Set();
  running.set(library, active);
  if (active.has(source)) throw new CoveyError('model_name_taken', `${source} is being downloaded already`);
  active.add(source);
  const signal = options.signal ?? new AbortController().signal;
  try {
    return await download(parsed.value, source, library, options, signal);
  } catch (thrown) {
    throw signal.aborted ? abortError(signal, `downloading ${source}`) : unreachable(thrown);
  } finally {
    active.delete(source);
  }
}

async function download(
  { repository, file }: HubSource,
  source: string,
  library: ModelLibrary,
  options: DownloadOptions,
  signal: AbortSignal,
): Promise<LibraryModel> {
  const settings: HubSettings = { ...publicHub, ...options.hub };
  const paths = file === null ? bestModel(await listFiles(settings, repository, signal)) : modelFiles(file);
  if (paths.length === 0) {
    throw new CoveyError('download_not_found', `${repository} has no model in GGUF form`, {
      field: 'source',
    });
  }
  const files: RemoteFile[] = [];
  for (const path of paths) files.push(await describeFile(settings, repository, path, signal));

  const root = join(library.directory, downloads);
  await removeForgotten(root, options.now);
  const folder = join(root, folderName(repository, files));
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const totalBytes = files.reduce((sum, each) => sum + each.bytes, 0);
  let missingBytes = totalBytes;
  for (const each of files) missingBytes -= await partialBytes(folder, basename(each.path), each);
  await requireSpace(folder, missingBytes);

  const meter = progressMeter(totalBytes, options.onProgress);
  await library.withRoom(totalBytes, async () => {
    for (const each of files) await downloadFile(settings, each, folder, basename(each.path), meter, signal);
  });
  meter.finish();
  const only = files.length === 1 ? files[0] : undefined;
  return await library.adopt(folder, basename(paths[0] as string), {
    name: freeName(library, repository, paths[0] as string),
    source,
    contentHash: only?.sha256,
  });
}

/** One directory per content: a repository that has changed does not continue an old partial file. */
function folderName(repository: string, files: readonly RemoteFile[]): string {
  const hash = createHash('sha256').update(repository);
  for (const file of files) hash.update(`\n${file.path} ${file.sha256}`);
  return hash.digest('hex').slice(0, 32);
}

/** The file's own name, with that of the repository and of its owner in front if it is taken. */
function freeName(library: ModelLibrary, repository: string, path: string): string {
  const stem = modelStem(basename(path));
  const [owner = '', name = ''] = repository.split('/');
  const taken = new Set(library.list().map((model) => model.name.toLowerCase()));
  const names = [stem, `${name}-${stem}`, `${owner}-${name}-${stem}`].map(sanitiseModelName);
  return names.find((candidate) => !taken.has(candidate.toLowerCase())) ?? (names[2] as string);
}

async function removeForgotten(root: string, now: number): Promise<void> {
  for (const name of await readdir(root).catch(() => [])) {
    const folder = join(root, name);
    const status = await stat(folder).catch(() => null);
    if (status !== null && now - status.mtimeMs > FORGOTTEN_MS)
      await rm(folder, { recursive: true, force: true });
  }
}
