import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile, readdir, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { z } from 'zod';
import { err, ok, type Result } from '#shared/lib/result.ts';

/** The layout that this program reads. scripts/engine/inputs.mjs has the one that is written. */
const formatVersion = 1;
const manifestName = 'manifest.json';
const maxManifestBytes = 1024 * 1024;

const fileSchema = z.object({
  name: z
    .string()
    .min(1)
    .max(255)
    .refine((name) => basename(name) === name && name !== '..' && name !== '.', 'must be a plain file name'),
  bytes: z.number().int().nonnegative(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hex digits'),
});

const manifestSchema = z.object({
  formatVersion: z.literal(formatVersion),
  buildId: z.string().min(1).max(128),
  llamaTag: z.string().max(64),
  nodeLlamaCppVersion: z.string().max(64),
  sourceCommit: z.string().max(64),
  rpcProtocolVersion: z.string().regex(/^\d+\.\d+\.\d+$/, 'must be MAJOR.MINOR.PATCH'),
  platform: z.string().max(32),
  arch: z.string().max(32),
  compiler: z.string().max(256),
  files: z.array(fileSchema).min(1).max(1024),
});
export type EngineManifest = z.infer<typeof manifestSchema>;

/** An engine directory that was opened: every file of its manifest is there, in its size. */
export interface EngineDirectory {
  /** Absolute path. */
  readonly dir: string;
  /** Nodes share a model only if theirs are equal. */
  readonly buildId: string;
  /** `major.minor.patch` */
  readonly rpcProtocolVersion: string;
  /** As `process.platform` and `process.arch` of the machine it was built for. */
  readonly platform: string;
  readonly arch: string;
  /** Absolute paths of the programs. */
  readonly llamaServer: string;
  readonly rpcServer: string;
  readonly launcher: string;
  readonly manifest: EngineManifest;
}

export interface EngineDirectoryError {
  readonly kind: 'missing' | 'bad_manifest' | 'wrong_platform' | 'file_mismatch';
  /** One sentence that names the file and says what to do. */
  readonly message: string;
}

const rebuild = 'Run "npm run build:engine", or install Covey again.';

/**
 * Where the engine is: `override` as it is given, else `engine` in the installed program, else what the checkout's
 * engine build recorded in `build/engine.json`.
 * @returns an absolute path, not opened yet; or `missing`, or `bad_manifest` for a record that does not read
 */
export async function locateEngineDirectory(options: {
  readonly appRoot: string;
  readonly override?: string;
}): Promise<Result<string, EngineDirectoryError>> {
  if (options.override !== undefined) return ok(resolve(options.override));
  const packaged = join(options.appRoot, 'engine');
  if (await exists(join(packaged, manifestName))) return ok(packaged);
  const record = join(options.appRoot, 'build', 'engine.json');
  const text = await readBounded(record);
  if (text === null) {
    return refuse('missing', `there is no engine: neither ${packaged} nor ${record} exists. ${rebuild}`);
  }
  const parsed = z.object({ dir: z.string().min(1) }).safeParse(parseJson(text));
  if (!parsed.success) {
    return refuse('bad_manifest', `${record} does not read: ${firstIssue(parsed.error)}. ${rebuild}`);
  }
  return ok(resolve(options.appRoot, parsed.data.dir));
}

/**
 * Reads an engine directory's manifest and compares names and sizes with what lies there (a stat for each file; see
 * `verifyEngineDirectory` for contents).
 *
 * `missing`: no such directory, or none with a manifest. `bad_manifest`: the manifest does not read, or lacks a
 * program. `wrong_platform`: it was built for another system. `file_mismatch`: a file is missing or has another size.
 */
export async function openEngineDirectory(
  dir: string,
): Promise<Result<EngineDirectory, EngineDirectoryError>> {
  const directory = resolve(dir);
  const text = await readBounded(join(directory, manifestName));
  if (text === null) {
    return refuse(
      'missing',
      `there is no engine in ${directory}: it has no readable ${manifestName}. ${rebuild}`,
    );
  }
  const parsed = manifestSchema.safeParse(parseJson(text));
  if (!parsed.success) {
    return refuse(
      'bad_manifest',
      `${join(directory, manifestName)} does not read: ${firstIssue(parsed.error)}. ${rebuild}`,
    );
  }
  const manifest = parsed.data;
  if (manifest.platform !== process.platform || manifest.arch !== process.arch) {
    return refuse(
      'wrong_platform',
      `the engine in ${directory} is for ${manifest.platform}-${manifest.arch}, this is ` +
        `${process.platform}-${process.arch}. ${rebuild}`,
    );
  }
  const suffix = process.platform === 'win32' ? '.exe' : '';
  const programs = ['llama-server', 'ggml-rpc-server', 'covey-launch'].map((name) => `${name}${suffix}`);
  const lacking = programs.find((name) => !manifest.files.some((file) => file.name === name));
  if (lacking !== undefined) {
    return refuse('bad_manifest', `the manifest of ${directory} does not list ${lacking}. ${rebuild}`);
  }
  for (const file of manifest.files) {
    const path = join(directory, file.name);
    const size = await sizeOf(path);
    if (size === null) return refuse('file_mismatch', `${path} is missing. ${rebuild}`);
    if (size !== file.bytes) {
      return refuse('file_mismatch', `${path} has ${size} bytes instead of ${file.bytes}. ${rebuild}`);
    }
  }
  const [llamaServer = '', rpcServer = '', launcher = ''] = programs.map((name) => join(directory, name));
  const { buildId, rpcProtocolVersion, platform, arch } = manifest;
  return ok({
    ...{ dir: directory, buildId, rpcProtocolVersion, platform, arch },
    ...{ llamaServer, rpcServer, launcher, manifest },
  });
}

/**
 * Compares the content of every file with the manifest (reads all of it: some hundred megabytes with GPU backends)
 * and refuses files that it does not list, since ggml loads whatever backend lies beside its programs.
 * @returns `file_mismatch` naming the first file that differs
 */
export async function verifyEngineDirectory(
  engine: EngineDirectory,
  options: { readonly signal?: AbortSignal } = {},
): Promise<Result<void, EngineDirectoryError>> {
  const listed = new Set([manifestName, ...engine.manifest.files.map((file) => file.name)]);
  for (const name of await readdir(engine.dir)) {
    if (!listed.has(name)) {
      return refuse('file_mismatch', `${join(engine.dir, name)} is not part of the engine. ${rebuild}`);
    }
  }
  for (const file of engine.manifest.files) {
    const path = join(engine.dir, file.name);
    options.signal?.throwIfAborted();
    const hash = createHash('sha256');
    try {
      await pipeline(createReadStream(path), hash, options.signal ? { signal: options.signal } : {});
    } catch (error) {
      options.signal?.throwIfAborted();
      return refuse('file_mismatch', `${path} cannot be read: ${(error as Error).message}. ${rebuild}`);
    }
    if (hash.digest('hex') !== file.sha256) {
      return refuse('file_mismatch', `${path} has other content than the manifest says. ${rebuild}`);
    }
  }
  return ok(undefined);
}

function refuse(
  kind: EngineDirectoryError['kind'],
  message: string,
): { readonly ok: false; readonly error: EngineDirectoryError } {
  return err({ kind, message });
}

/** Text of a small file, null when there is none or it is too large to be what it should be. */
async function readBounded(path: string): Promise<string | null> {
  const size = await sizeOf(path);
  if (size === null || size > maxManifestBytes) return null;
  return readFile(path, 'utf8').catch(() => null);
}

/** Null unless it is a regular file. */
async function sizeOf(path: string): Promise<number | null> {
  const found = await stat(path).catch(() => null);
  return found?.isFile() ? found.size : null;
}

async function exists(path: string): Promise<boolean> {
  return (await sizeOf(path)) !== null;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function firstIssue(error: z.ZodError): string {
  const issue = error.issues[0];
  if (!issue) return 'it is not what it should be';
  return issue.path.length > 0 ? `${issue.path.join('.')}: ${issue.message}` : issue.message;
}
