import { randomBytes } from 'node:crypto';
import { chmod, lstat, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { CoveyError } from '#shared/errors.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { openDataDirectory } from '../data-directory.ts';
import { readIdentity, restoreMarker } from '../identity/identity.ts';
import { manifestSchema, maxManifestBytes, replacedNames, type Manifest } from './contents.ts';
import { naming, syncDirectory } from './durable.ts';
import { invalid } from './format.ts';
import { moveAside } from './move-aside.ts';
import { unseal, type Unsealed } from './sealed-stream.ts';

export interface RestoreOptions {
  readonly dataDirectory: string;
  readonly file: string;
  readonly passphrase: string;
  /** Whether the identity that is there may be moved aside. */
  readonly force: boolean;
  readonly now: number;
  readonly logger: Logger;
}

export interface RestoreReport {
  readonly dataDirectory: string;
  readonly nodeId: string;
  /** When the backup was made. */
  readonly createdAt: number;
  readonly contents: readonly string[];
  /** Where what was there before is now; null: there was nothing. */
  readonly movedTo: string | null;
}

/**
 * Makes the data directory that node again. Steps:
 * 1. the directory is locked, so nothing runs there; an identity in it is refused without `force`;
 * 2. the whole backup is decrypted beside it, each file flushed, and its key is checked to be the node's;
 * 3. a marker says that a restore is under way: no node starts there without an identity;
 * 4. what was there is moved aside, what was decrypted is moved in, the identity last; the marker goes.
 * Until step 3 nothing is changed. Throws `data_directory_locked` naming the process, `already_member` when there is
 * an identity, `backup_invalid`, `passphrase_wrong`, `disk_full`.
 */
export async function restoreBackup(options: RestoreOptions): Promise<RestoreReport> {
  const file = resolve(options.file);
  const handle = await naming(file, 'file', () => open(file, 'r'));
  try {
    const fileBytes = await naming(file, 'file', async () => {
      const found = await handle.stat();
      if (!found.isFile()) throw invalid('is no ordinary file');
      return found.size;
    });
    // Before anything is made: a directory for a backup that cannot be read would only be in the way.
    const content = await naming(file, 'file', () => unseal(handle, fileBytes, options.passphrase));
    const data = await openDataDirectory(options.dataDirectory, { logger: options.logger });
    try {
      return await restoreInto(data.path, content, options);
    } finally {
      await data.close();
    }
  } finally {
    await handle.close();
  }
}

async function restoreInto(
  directory: string,
  content: Unsealed,
  options: RestoreOptions,
): Promise<RestoreReport> {
  if (!options.force && (await has(directory, 'identity'))) {
    throw new CoveyError(
      'invalid_request',
      `${directory} holds an identity already. Use --force to move what is there aside, or --data to restore into another directory.`,
      { field: 'data' },
    );
  }
  for (const name of await readdir(directory)) {
    if (name.startsWith(stagingPrefix)) await rm(join(directory, name), { recursive: true, force: true });
  }
  const staging = join(directory, `${stagingPrefix}${randomBytes(6).toString('hex')}`);
  try {
    await naming(staging, 'data', () => mkdir(staging, { mode: 0o700 }));
    const manifest = await unpack(content, staging);
    const identity = await readIdentity(join(staging, 'identity'), options.logger).catch(() => null);
    if (identity?.nodeId !== manifest.nodeId) throw invalid('holds an identity that is damaged');

    const marker = join(directory, restoreMarker);
    await naming(marker, 'data', () => writeDurably(marker, [Buffer.from('see "covey restore"\n')]));
    await syncDirectory(directory);
    let movedTo: string | null;
    try {
      // The identity goes first and comes last: without one, and with the marker, nothing starts here.
      movedTo = await moveAside(directory, replacedNames.toReversed(), options.now);
      const arrived = new Set(await readdir(staging));
      for (const name of replacedNames) {
        if (arrived.has(name)) await rename(join(staging, name), join(directory, name));
      }
      await syncDirectory(directory);
    } finally {
      if (await has(directory, 'identity')) await rm(marker, { force: true });
    }
    return {
      dataDirectory: directory,
      nodeId: manifest.nodeId,
      createdAt: manifest.createdAt,
      contents: manifest.files.map(({ path }) => path),
      movedTo,
    };
  } finally {
    await rm(staging, { recursive: true, force: true }).catch(() => undefined);
  }
}

const stagingPrefix = '.restore-';

async function unpack(content: Unsealed, staging: string): Promise<Manifest> {
  const length = (await whole(content, 4)).readUInt32BE();
  if (length > maxManifestBytes) throw invalid('has a table of contents that is too large');
  const manifest = parseManifest(await whole(content, length));
  for (const { path, bytes } of manifest.files) {
    const target = join(staging, path);
    await naming(target, 'data', async () => {
      await mkdir(dirname(target), { recursive: true, mode: 0o700 });
      await writeDurably(target, content.read(bytes));
    });
  }
  await content.end();
  const directories = new Set(manifest.files.map(({ path }) => dirname(join(staging, path))));
  for (const directory of directories) await syncDirectory(directory);
  await syncDirectory(staging);
  return manifest;
}

function parseManifest(json: Buffer): Manifest {
  let value: unknown;
  try {
    value = JSON.parse(json.toString('utf8'));
  } catch {
    throw invalid('has no table of contents');
  }
  const parsed = manifestSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw invalid(`has a wrong table of contents (${issue?.path.join('.') ?? ''} ${issue?.message ?? ''})`);
}

async function whole(content: Unsealed, bytes: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of content.read(bytes)) pieces.push(piece);
  return Buffer.concat(pieces);
}

async function writeDurably(path: string, pieces: AsyncIterable<Buffer> | Iterable<Buffer>): Promise<void> {
  const file = await open(path, 'w', 0o600);
  try {
    for await (const piece of pieces) await file.writeFile(piece);
    await file.sync();
  } finally {
    await file.close();
  }
  if (process.platform !== 'win32') await chmod(path, 0o600);
}

async function has(directory: string, name: string): Promise<boolean> {
  return lstat(join(directory, name)).then(
    () => true,
    () => false,
  );
}
