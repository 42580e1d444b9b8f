import {
  chmod,
  mkdir,
  mkdtemp,
  open,
  rename,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { execFileSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { encodeGgufHeader, type GgufInput } from '#shared/gguf/encode.ts';
import type { CoveyError } from '#shared/errors.ts';
import { generateModel } from './generate.ts';
import { inspectModelFile } from './inspect.ts';

let directory: string;
let model: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-inspect-'));
  model = join(directory, 'model.gguf');
  await generateModel({
    path: model,
    layers: 2,
    embeddingLength: 256,
    feedForwardLength: 1024,
    headCount: 4,
    headCountKv: 2,
    contextLength: 1024,
    seed: 7,
    weightType: 'F32',
  });
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

async function refusal(path: string): Promise<CoveyError> {
  const result = await inspectModelFile(path);
  if (result.ok) throw new Error('expected a refusal');
  return result.error;
}

async function inspected(path: string) {
  const result = await inspectModelFile(path);
  if (!result.ok) throw result.error;
  return result.value;
}

const u16 = (value: number): GgufInput => ({ type: 'u16', value });
const u32 = (value: number): GgufInput => ({ type: 'u32', value });
const str = (value: string): GgufInput => ({ type: 'str', value });

/** Three shards, metadata in the first, one layer in each of the others. */
async function writeShards(folder: string): Promise<string[]> {
  await mkdir(folder, { recursive: true });
  const paths: string[] = [];
  for (let index = 0; index < 3; index++) {
    const metadata = new Map<string, GgufInput>([
      ['general.architecture', str('llama')],
      ['split.no', u16(index)],
      ['split.count', u16(3)],
      ['split.tensors.count', { type: 'i32', value: 2 }],
    ]);
    if (index === 0) {
      metadata.set('llama.block_count', u32(2));
      metadata.set('llama.context_length', u32(128));
      metadata.set('llama.embedding_length', u32(64));
    }
    const tensors =
      index === 0 ? [] : [{ name: `blk.${index - 1}.x.weight`, type: 'F32', dimensions: [64, index] }];
    const encoded = encodeGgufHeader(metadata, tensors);
    const path = join(folder, `big-0000${index + 1}-of-00003.gguf`);
    await writeFile(path, encoded.bytes);
    await truncate(path, encoded.fileBytes);
    paths.push(path);
  }
  return paths;
}

describe('inspectModelFile', () => {
  it('reads a model and names its content', async () => {
    const found = await inspected(model);
    expect(found.info).toMatchObject({
      architecture: 'llama',
      layerCount: 2,
      headCountKv: 2,
      vocabSize: 512,
    });
    expect(found.info.fileBytes).toBe((await stat(model)).size);
    expect(found.files).toEqual([{ path: model, bytes: found.info.fileBytes }]);
    expect(found.hash).toMatch(/^[0-9a-f]{64}$/);
  });

  it('gives one hash to one content, whatever the path, and another to another', async () => {
    const link = join(directory, 'link.gguf');
    await symlink(model, link);
    const first = await inspected(model);
    expect((await inspected(link)).hash).toBe(first.hash);
    const other = join(directory, 'other.gguf');
    await generateModel({
      path: other,
      layers: 2,
      embeddingLength: 256,
      feedForwardLength: 1024,
      headCount: 4,
      headCountKv: 2,
      contextLength: 1024,
      seed: 8,
      weightType: 'F32',
    });
    const second = await inspected(other);
    expect(second.info.fileBytes).toBe(first.info.fileBytes);
    expect(second.hash).not.toBe(first.hash);
  });

  it('names a file that is not there, a directory and a path that cannot be', async () => {
    expect((await refusal(join(directory, 'nothing.gguf'))).code).toBe('model_file_not_found');
    expect((await refusal(join(model, 'below'))).code).toBe('model_file_not_found');
    expect((await refusal('\0')).code).toBe('model_file_not_found');
    expect(await refusal(directory)).toMatchObject({
      code: 'model_file_unreadable',
      message: expect.stringContaining('directory') as string,
    });
  });

  it('does not open a pipe', async () => {
    const pipe = join(directory, 'pipe.gguf');
    execFileSync('mkfifo', [pipe]);
    expect((await refusal(pipe)).code).toBe('model_file_unreadable');
  });

  it('names a file it may not read', async () => {
    const secret = join(directory, 'secret.gguf');
    await writeFile(secret, 'GGUF');
    await chmod(secret, 0);
    await chmod(directory, 0o755);
    // Root may read everything: be nobody for a moment.
    const root = process.geteuid?.() === 0;
    if (root) process.seteuid?.(65_534);
    try {
      expect((await refusal(secret)).code).toBe('model_file_unreadable');
    } finally {
      if (root) process.seteuid?.(0);
    }
  });

  it('names empty files, text, pointers and pages', async () => {
    const path = join(directory, 'fake.gguf');
    await writeFile(path, '');
    expect((await refusal(path)).code).toBe('model_file_empty');
    await writeFile(path, '# Notes\nThis is no model.\n');
    expect(await refusal(path)).toMatchObject({
      code: 'model_not_gguf',
      message: expect.stringContaining('text file') as string,
      details: { field: 'model' },
    });
    await writeFile(path, 'version https://git-lfs.github.com/spec/v1\noid sha256:00\n');
    expect((await refusal(path)).message).toContain('Git LFS pointer');
    await writeFile(path, '<!DOCTYPE html><html></html>');
    expect((await refusal(path)).message).toContain('web page');
  });

  it('says how much of a truncated model is there', async () => {
    const cut = join(directory, 'cut.gguf');
    const { size } = await stat(model);
    await writeFile(cut, '');
    const source = await open(model);
    const bytes = Buffer.alloc(size - 4096);
    await source.read(bytes, 0, bytes.length, 0);
    await source.close();
    await writeFile(cut, bytes);
    const error = await refusal(cut);
    expect(error.code).toBe('model_truncated');
    expect(error.message).toContain(`has ${size - 4096}`);
    expect(error.message).toContain(`must have ${size}`);
    await truncate(cut, 1000);
    expect((await refusal(cut)).code).toBe('model_truncated');
  });

  it('names versions and GGUFs that cannot be served', async () => {
    const path = join(directory, 'odd.gguf');
    await writeFile(path, Buffer.from('GGUF\x01\0\0\0'.padEnd(64, '\0'), 'latin1'));
    expect((await refusal(path)).code).toBe('model_unsupported');
    await writeFile(path, Buffer.from('GGUF\0\0\0\x03'.padEnd(64, '\0'), 'latin1'));
    expect((await refusal(path)).message).toContain('big-endian');
    const clip = encodeGgufHeader(new Map([['general.architecture', str('clip')]]), []);
    await writeFile(path, clip.bytes);
    expect((await refusal(path)).code).toBe('model_unsupported');
    const bare = encodeGgufHeader(new Map([['general.architecture', str('llama')]]), []);
    await writeFile(path, bare.bytes);
    expect(await refusal(path)).toMatchObject({
      code: 'model_invalid',
      message: expect.stringContaining('llama.block_count') as string,
    });
  });

  it('sums the shards of a model, given any of them', async () => {
    const shards = await writeShards(join(directory, 'shards'));
    const whole = await inspected(shards[2] as string);
    expect(whole.path).toBe(shards[0]);
    expect(whole.files.map((file) => file.path)).toEqual(shards);
    expect(whole.info.tensorBytes.layers).toEqual([256, 512]);
    expect(whole.info.split).toEqual({ index: 0, count: 3 });
    expect(whole.info.fileBytes).toBe(whole.files.reduce((sum, file) => sum + file.bytes, 0));
    expect((await inspected(shards[0] as string)).hash).toBe(whole.hash);
  });

  it('names the shard that is missing, and a shard whose name hides the others', async () => {
    const folder = join(directory, 'gaps');
    const shards = await writeShards(folder);
    await rm(shards[1] as string);
    expect(await refusal(shards[0] as string)).toMatchObject({
      code: 'model_shard_missing',
      message: expect.stringContaining('big-00002-of-00003.gguf') as string,
    });
    const renamed = join(folder, 'renamed.gguf');
    await rename(shards[0] as string, renamed);
    expect((await refusal(renamed)).code).toBe('model_shard_missing');
  });

  it('stops when told to, and by itself at its deadline', async () => {
    const cancelled = await inspectModelFile(model, { signal: AbortSignal.abort() });
    expect(cancelled.ok ? null : cancelled.error.code).toBe('cancelled');
    const late = await inspectModelFile(model, { timeoutMs: 0 });
    expect(late.ok ? null : late.error.code).toBe('timeout');
  });
});
