import { randomBytes } from 'node:crypto';
import { lstat, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { CoveyError } from '#shared/errors.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { readIdentity } from '../identity/identity.ts';
import { databaseName, maxDatabaseBytes, maxFileBytes, smallFiles, type Manifest } from './contents.ts';
import { naming, syncDirectory } from './durable.ts';
import { requireStrong } from './format.ts';
import { seal } from './sealed-stream.ts';

export interface BackupOptions {
  readonly dataDirectory: string;
  /** Where the backup goes. */
  readonly file: string;
  readonly passphrase: string;
  /** Whether a file of that name may be replaced. */
  readonly force: boolean;
  readonly version: string;
  readonly now: number;
  readonly logger: Logger;
  /** Copies a database that may be in use, as one consistent moment of it. */
  readonly copyDatabase: (source: string, destination: string) => Promise<void>;
}

export interface BackupReport {
  readonly file: string;
  readonly bytes: number;
  readonly nodeId: string;
  readonly contents: readonly string[];
}

const pieceBytes = 1024 * 1024;
const leftoverMs = 3_600_000;

/**
 * Writes what makes this node that node into one encrypted file, whether or not it runs. The file appears whole, mode
 * 0600, or not at all. Throws `passphrase_weak`, `disk_full` naming the file, `invalid_request` when the file exists
 * or cannot be written, and `data_directory_unusable` when there is no identity.
 */
export async function createBackup(options: BackupOptions): Promise<BackupReport> {
  const { dataDirectory } = options;
  const file = resolve(options.file);
  requireStrong(options.passphrase);
  if (!options.force && (await exists(file))) {
    throw new CoveyError('invalid_request', `${file} exists. Use --force to replace it.`, { field: 'file' });
  }
  const identity = await readIdentity(join(dataDirectory, 'identity'), options.logger);
  if (!identity) {
    throw new CoveyError(
      'data_directory_unusable',
      `${dataDirectory} holds no identity: there is nothing to back up. --data names another directory.`,
      { field: 'data' },
    );
  }
  await removeLeftovers(dataDirectory, options.now);
  const staging = join(dataDirectory, `${stagingPrefix}${randomBytes(6).toString('hex')}`);
  const temporary = join(dirname(file), `.${basename(file)}.${randomBytes(6).toString('hex')}.tmp`);
  try {
    const parts = await readSmall(dataDirectory);
    const database = join(dataDirectory, databaseName);
    let databaseBytes: number | null = null;
    const copy = join(staging, databaseName);
    if (await exists(database)) {
      databaseBytes = await naming(copy, 'data', async () => {
        await mkdir(staging, { mode: 0o700 });
        await options.copyDatabase(database, copy);
        return (await stat(copy)).size;
      });
      requireSize(database, databaseBytes, maxDatabaseBytes);
    }
    const manifest: Manifest = {
      version: options.version,
      nodeId: identity.nodeId,
      createdAt: options.now,
      files: [
        ...parts.map(({ path, content }) => ({ path, bytes: content.length })),
        ...(databaseBytes === null ? [] : [{ path: databaseName, bytes: databaseBytes }]),
      ],
    };
    const bytes = await naming(file, 'file', async () => {
      const handle = await open(temporary, 'wx', 0o600);
      try {
        await seal(
          handle,
          options.passphrase,
          plaintext(manifest, parts, databaseBytes === null ? null : copy),
        );
        await handle.sync();
        return (await handle.stat()).size;
      } finally {
        await handle.close();
      }
    });
    await naming(file, 'file', async () => {
      await rename(temporary, file);
      await syncDirectory(dirname(file));
    });
    return { file, bytes, nodeId: identity.nodeId, contents: manifest.files.map(({ path }) => path) };
  } finally {
    await rm(temporary, { force: true }).catch(() => undefined);
    await rm(staging, { recursive: true, force: true }).catch(() => undefined);
  }
}

const stagingPrefix = '.backup-';

interface Part {
  readonly path: string;
  readonly content: Buffer;
}

async function readSmall(dataDirectory: string): Promise<Part[]> {
  const parts: Part[] = [];
  for (const path of await smallFiles(dataDirectory)) {
    const full = join(dataDirectory, path);
    await naming(full, 'data', async () => {
      const found = await stat(full).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return null;
        throw error;
      });
      if (!found) return;
      requireSize(full, found.size, maxFileBytes);
      const handle = await open(full, 'r');
      try {
        parts.push({ path, content: await handle.readFile() });
      } finally {
        await handle.close();
      }
    });
  }
  return parts;
}

function requireSize(path: string, bytes: number, most: number): void {
  if (bytes <= most) return;
  throw new CoveyError(
    'invalid_request',
    `${path} has ${bytes} bytes; a backup takes at most ${most} of it.`,
    { field: 'data' },
  );
}

async function* plaintext(
  manifest: Manifest,
  parts: readonly Part[],
  database: string | null,
): AsyncGenerator<Buffer> {
  const json = Buffer.from(JSON.stringify(manifest));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(json.length);
  yield length;
  yield json;
  for (const { content } of parts) yield content;
  if (database === null) return;
  const handle = await open(database, 'r');
  try {
    for (;;) {
      const piece = Buffer.alloc(pieceBytes);
      const { bytesRead } = await handle.read(piece, 0, pieceBytes);
      if (bytesRead === 0) return;
      yield piece.subarray(0, bytesRead);
    }
  } finally {
    await handle.close();
  }
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

/** Copies of the database that a killed backup has left; one that runs now is younger. */
async function removeLeftovers(dataDirectory: string, now: number): Promise<void> {
  const names = await readdir(dataDirectory).catch(() => []);
  for (const name of names.filter((one) => one.startsWith(stagingPrefix))) {
    const path = join(dataDirectory, name);
    const found = await stat(path).catch(() => null);
    if (found && now - found.mtimeMs > leftoverMs) await rm(path, { recursive: true, force: true });
  }
}
