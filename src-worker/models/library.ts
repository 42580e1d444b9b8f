import { randomUUID } from 'node:crypto';
import { mkdir, rename, rm } from 'node:fs/promises';
import { basename, isAbsolute, join, resolve } from 'node:path';
import { CoveyError } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { LibraryModel, ResolvedModel, TransferProgress } from '#shared/protocol/requests.ts';
import { sizeText } from '#shared/lib/size-text.ts';
import { abortError } from './abort.ts';
import { copyWhole, namedDiskError, progressMeter, syncDirectory } from './files.ts';
import { inspectModelFile, type InspectedModel } from './inspect.ts';
import { readIndex, toLibraryModel, writeIndex, type IndexEntry } from './library-index.ts';
import { checkModelName, sanitiseModelName } from './names.ts';
import { modelStem } from './shards.ts';

export interface ImportOptions {
  /** Default: made from the file's name. */
  readonly name?: string | undefined;
  readonly onProgress?: (progress: TransferProgress) => void;
  readonly signal?: AbortSignal;
}

export interface AdoptOptions {
  readonly name: string;
  readonly source: string;
  /** SHA-256 of a single-file model that was verified in full. */
  readonly contentHash?: string | undefined;
}

/** Where unfinished imports and removals lie, on the same disk as the library. */
const incoming = '.incoming';

/** Opens the library in `directory`, made if it is missing, and puts its index right. */
export async function openModelLibrary(
  directory: string,
  options: {
    readonly clock: Clock;
    readonly logger: Logger;
    /** How much the owner lends for models now; null: the disk is the limit. */
    readonly quotaBytes?: () => number | null;
    /** May raise that by so many bytes. */
    readonly makeRoom?: (bytes: number) => Promise<void>;
  },
): Promise<ModelLibrary> {
  const path = resolve(directory);
  await mkdir(path, { recursive: true, mode: 0o700 });
  await rm(join(path, incoming), { recursive: true, force: true });
  const { entries, changed } = await readIndex(path, options.clock.now(), options.logger);
  if (changed) await writeIndex(path, entries.values());
  return new ModelLibrary(
    path,
    entries,
    options.clock,
    options.quotaBytes ?? (() => null),
    options.makeRoom ?? (async () => undefined),
  );
}

/**
 * The models of one node: one directory per model, named as the model, and an index. Used by one process, which
 * holds the data directory's lock. Methods reject with CoveyError.
 */
export class ModelLibrary {
  readonly directory: string;
  readonly #clock: Clock;
  readonly #quotaBytes: () => number | null;
  readonly #makeRoom: (bytes: number) => Promise<void>;
  /** Of imports and downloads under way. */
  #comingBytes = 0;
  readonly #entries: Map<string, IndexEntry>;
  /** Lower-case names that an import or download is about to take. */
  readonly #reserved = new Set<string>();
  #writing: Promise<void> = Promise.resolve();

  constructor(
    directory: string,
    entries: Map<string, IndexEntry>,
    clock: Clock,
    quotaBytes: () => number | null,
    makeRoom: (bytes: number) => Promise<void>,
  ) {
    this.#quotaBytes = quotaBytes;
    this.#makeRoom = makeRoom;
    this.directory = directory;
    this.#entries = entries;
    this.#clock = clock;
  }

  /** By models that are here and on their way. */
  get takenBytes(): number {
    return [...this.#entries.values()].reduce((sum, entry) => sum + entry.fileBytes, this.#comingBytes);
  }

  /** By name. */
  list(): LibraryModel[] {
    return [...this.#entries.values()]
      .map((entry) => toLibraryModel(this.directory, entry))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** The model that was fetched from `source` (`hf:...`), if it is here. */
  findBySource(source: string): LibraryModel | null {
    const entry = [...this.#entries.values()].find((candidate) => candidate.source === source);
    return entry === undefined ? null : toLibraryModel(this.directory, entry);
  }

  /**
   * A model by its name here (with or without `.gguf`), by where it was fetched from (`hf:...`), or by the absolute
   * path of any file on this node. Its header is read anew. Rejects with `model_not_found`, or as inspectModelFile.
   */
  async resolve(reference: string, options: { readonly signal?: AbortSignal } = {}): Promise<ResolvedModel> {
    const path = isAbsolute(reference) ? reference : this.#find(reference);
    const model = await inspectModelFile(path, options);
    if (!model.ok) throw model.error;
    const { contentHash } = this.#entryAt(path)?.info ?? {};
    const info = contentHash === undefined ? model.value.info : { ...model.value.info, contentHash };
    return { path: model.value.path, info, hash: model.value.hash };
  }

  /**
   * Copies a model (all its shards) into the library. The same content under the same name is there already and
   * is returned; another is `model_name_taken`.
   */
  async importFile(path: string, options: ImportOptions = {}): Promise<LibraryModel> {
    const signal = options.signal ?? new AbortController().signal;
    const found = await inspectModelFile(path, { signal });
    if (!found.ok) throw found.error;
    const name = options.name ?? sanitiseModelName(modelStem(basename(found.value.path)));
    const { fileBytes } = found.value.info;
    const copyIn = async (): Promise<LibraryModel> => {
      const folder = await this.#incomingFolder();
      const meter = progressMeter(found.value.info.fileBytes, options.onProgress);
      try {
        for (const file of found.value.files) {
          const copy = join(folder, basename(file.path));
          await copyWhole(file.path, copy, file.bytes, (bytes) => meter.advance(bytes), signal);
        }
        const model = await this.#settle(folder, name, path, found.value);
        meter.finish();
        return model;
      } catch (thrown) {
        await rm(folder, { recursive: true, force: true });
        if (signal.aborted) throw abortError(signal, `importing ${path}`);
        throw namedDiskError(thrown, this.directory, found.value.info.fileBytes);
      }
    };
    return await this.withName(name, found.value, () => this.withRoom(fileBytes, copyIn));
  }

  /**
   * Takes files over that lie on the library's own disk (a finished download), by moving their directory. They are
   * inspected first, and stay where they are when they are no model.
   */
  async adopt(folder: string, firstFile: string, options: AdoptOptions): Promise<LibraryModel> {
    const found = await inspectModelFile(join(folder, firstFile));
    if (!found.ok) throw found.error;
    return await this.withName(options.name, found.value, async () =>
      this.#settle(folder, options.name, options.source, found.value, options.contentHash),
    );
  }

  /**
   * Runs `work`, which adds so many bytes to the library. Rejects with `disk_full` when the owner lends less.
   */
  async withRoom<T>(bytes: number, work: () => Promise<T>): Promise<T> {
    const over = (): number => this.takenBytes + bytes - (this.#quotaBytes() ?? Infinity);
    if (over() > 0) await this.#makeRoom(over());
    if (over() > 0) {
      const quota = Math.max(0, this.#quotaBytes() ?? 0);
      throw new CoveyError(
        'disk_full',
        `this machine lends ${sizeText(quota)} of its disk for models: ${sizeText(this.takenBytes)} are taken, and this one needs ${sizeText(bytes)}`,
      );
    }
    this.#comingBytes += bytes;
    try {
      return await work();
    } finally {
      this.#comingBytes -= bytes;
    }
  }

  /** Deletes a model's files. Whether it is in use is for the caller to know. */
  async remove(name: string): Promise<void> {
    const entry = this.#entries.get(name);
    if (entry === undefined) throw this.#notFound(name);
    const folder = join(await this.#incomingFolder(), 'removed');
    await rename(join(this.directory, name), folder);
    this.#entries.delete(name);
    await this.#save();
    await rm(folder, { recursive: true, force: true });
  }

  /** Runs `work` with the name kept from others; returns the model that is there already when it is the same. */
  private async withName(
    name: string,
    model: InspectedModel,
    work: () => Promise<LibraryModel>,
  ): Promise<LibraryModel> {
    const checked = checkModelName(name);
    if (!checked.ok) throw checked.error;
    const key = name.toLowerCase();
    const taken = [...this.#entries.values()].find((entry) => entry.name.toLowerCase() === key);
    if (taken?.hash === model.hash) return toLibraryModel(this.directory, taken);
    if (taken !== undefined || this.#reserved.has(key)) {
      const how = taken === undefined ? 'is being added right now' : 'is another one';
      throw new CoveyError(
        'model_name_taken',
        `the model "${taken?.name ?? name}" in the library ${how}; choose another name`,
        {
          field: 'name',
        },
      );
    }
    this.#reserved.add(key);
    try {
      return await work();
    } finally {
      this.#reserved.delete(key);
    }
  }

  /** Makes a directory with a model's files the library's directory of that name. */
  async #settle(
    folder: string,
    name: string,
    source: string,
    expected: InspectedModel,
    contentHash?: string,
  ): Promise<LibraryModel> {
    const here = await inspectModelFile(join(folder, basename(expected.path)));
    if (!here.ok) throw here.error;
    if (here.value.hash !== expected.hash) {
      throw new CoveyError('model_invalid', `${source} changed while it was read`, { field: 'model' });
    }
    const entry: IndexEntry = {
      name,
      files: expected.files.map((file) => basename(file.path)),
      fileBytes: expected.info.fileBytes,
      addedAt: this.#clock.now(),
      source: source.slice(0, 1024),
      hash: expected.hash,
      info: contentHash === undefined ? expected.info : { ...expected.info, contentHash },
    };
    await syncDirectory(folder);
    await rename(folder, join(this.directory, name));
    this.#entries.set(name, entry);
    await this.#save();
    return toLibraryModel(this.directory, entry);
  }

  async #incomingFolder(): Promise<string> {
    const folder = join(this.directory, incoming, randomUUID());
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return folder;
  }

  /** Index writes go one after the other; each writes what is true when its turn comes. */
  async #save(): Promise<void> {
    const write = this.#writing.then(() => writeIndex(this.directory, this.#entries.values()));
    this.#writing = write.catch(() => undefined);
    await write;
  }

  #find(reference: string): string {
    const bySource = reference.startsWith('hf:') ? this.findBySource(reference) : null;
    const entry = this.#entries.get(reference) ?? this.#entries.get(modelStem(reference));
    if (bySource !== null) return bySource.path;
    if (entry !== undefined) return toLibraryModel(this.directory, entry).path;
    throw this.#notFound(reference);
  }

  #entryAt(path: string): IndexEntry | undefined {
    return [...this.#entries.values()].find((entry) => toLibraryModel(this.directory, entry).path === path);
  }

  #notFound(reference: string): CoveyError {
    const names = this.list().map((model) => `"${model.name}"`);
    const shown =
      names.length > 20 ? `${names.slice(0, 20).join(', ')} and ${names.length - 20} more` : names.join(', ');
    const hint =
      /[/\\]/.test(reference) && !reference.startsWith('hf:') ? '; a file is given by its absolute path' : '';
    return new CoveyError(
      'model_not_found',
      `this node has no model "${reference.slice(0, 256)}" (it has ${shown || 'none'})${hint}`,
      { field: 'model' },
    );
  }
}
