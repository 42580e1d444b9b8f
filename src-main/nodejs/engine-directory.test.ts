import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm, truncate, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { locateEngineDirectory, openEngineDirectory, verifyEngineDirectory } from './engine-directory.ts';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'covey-engine-'));
});
afterEach(async () => {
  await rm(root, { recursive: true, force: true });
});

const suffix = process.platform === 'win32' ? '.exe' : '';
const programs = ['llama-server', 'ggml-rpc-server', 'covey-launch'].map((name) => `${name}${suffix}`);

/** An engine directory with small files in it; `change` edits its manifest before it is written. */
async function makeEngine(
  directory: string,
  change: (manifest: Record<string, unknown>) => void = () => undefined,
): Promise<string> {
  await mkdir(directory, { recursive: true });
  const files = [];
  for (const name of [...programs, 'libggml-base.so']) {
    const content = `content of ${name}`;
    await writeFile(join(directory, name), content);
    files.push({
      name,
      bytes: content.length,
      sha256: createHash('sha256').update(content).digest('hex'),
    });
  }
  const manifest: Record<string, unknown> = {
    formatVersion: 1,
    buildId: 'v1-rpc6.0.0-abc',
    llamaTag: 'v1',
    nodeLlamaCppVersion: '3.0.0',
    sourceCommit: 'a'.repeat(40),
    rpcProtocolVersion: '6.0.0',
    platform: process.platform,
    arch: process.arch,
    compiler: 'GNU 12.2.0',
    files,
  };
  change(manifest);
  await writeFile(join(directory, 'manifest.json'), JSON.stringify(manifest));
  return directory;
}

async function refusalOf(directory: string): Promise<{ kind: string; message: string }> {
  const opened = await openEngineDirectory(directory);
  if (opened.ok) throw new Error('it was opened');
  return opened.error;
}

describe('openEngineDirectory', () => {
  it('gives absolute paths of the programs, and what nodes compare', async () => {
    const directory = await makeEngine(join(root, 'e'));
    const opened = await openEngineDirectory(relative(process.cwd(), directory));
    expect(opened.ok && opened.value).toMatchObject({
      dir: directory,
      buildId: 'v1-rpc6.0.0-abc',
      rpcProtocolVersion: '6.0.0',
      platform: process.platform,
      arch: process.arch,
      llamaServer: join(directory, `llama-server${suffix}`),
      rpcServer: join(directory, `ggml-rpc-server${suffix}`),
      launcher: join(directory, `covey-launch${suffix}`),
    });
  });

  it('refuses a folder that does not exist or has no manifest', async () => {
    expect(await refusalOf(join(root, 'nowhere'))).toMatchObject({ kind: 'missing' });
    await mkdir(join(root, 'empty'));
    expect(await refusalOf(join(root, 'empty'))).toMatchObject({ kind: 'missing' });
  });

  it.each([
    ['is not JSON', () => '{"formatVersion": 1, "build', 'expected object'],
    ['is a huge file', () => ' '.repeat(2 * 1024 * 1024), 'manifest.json'],
  ])('refuses a manifest that %s', async (_, text, words) => {
    const directory = await makeEngine(join(root, 'e'));
    await writeFile(join(directory, 'manifest.json'), text());
    expect((await refusalOf(directory)).message).toContain(words);
  });

  it.each([
    ['another format', 'formatVersion', (m: Record<string, unknown>) => (m['formatVersion'] = 2)],
    ['no build id', 'buildId', (m: Record<string, unknown>) => delete m['buildId']],
    [
      'a version that is none',
      'rpcProtocolVersion',
      (m: Record<string, unknown>) => (m['rpcProtocolVersion'] = 'six'),
    ],
    ['no files', 'files', (m: Record<string, unknown>) => (m['files'] = [])],
    [
      'a file outside of the folder',
      'files.0.name',
      (m: Record<string, unknown>) => (m['files'] = [{ name: '../x', bytes: 1, sha256: 'a'.repeat(64) }]),
    ],
    [
      'no server',
      'llama-server',
      (m: Record<string, unknown>) => (m['files'] = (m['files'] as { name: string }[]).slice(1)),
    ],
  ])('refuses a manifest with %s and names it', async (_, field, change) => {
    const directory = await makeEngine(join(root, 'e'), change);
    expect(await refusalOf(directory)).toMatchObject({
      kind: 'bad_manifest',
      message: expect.stringContaining(field) as string,
    });
  });

  it('refuses an engine for another system', async () => {
    const directory = await makeEngine(join(root, 'e'), (manifest) => (manifest['arch'] = 'mips'));
    expect(await refusalOf(directory)).toMatchObject({
      kind: 'wrong_platform',
      message: expect.stringContaining(`${process.platform}-mips`) as string,
    });
  });

  it('refuses missing and truncated files, naming them', async () => {
    const directory = await makeEngine(join(root, 'e'));
    await truncate(join(directory, 'libggml-base.so'), 3);
    expect(await refusalOf(directory)).toMatchObject({
      kind: 'file_mismatch',
      message: expect.stringMatching(/libggml-base\.so has 3 bytes instead of 26/) as string,
    });
    await unlink(join(directory, 'libggml-base.so'));
    expect(await refusalOf(directory)).toMatchObject({
      kind: 'file_mismatch',
      message: expect.stringMatching(/libggml-base\.so is missing/) as string,
    });
  });
});

describe('verifyEngineDirectory', () => {
  it('accepts what was built, and refuses changed content and files too many', async () => {
    const directory = await makeEngine(join(root, 'e'));
    const opened = await openEngineDirectory(directory);
    if (!opened.ok) throw new Error(opened.error.message);
    expect(await verifyEngineDirectory(opened.value)).toEqual({ ok: true, value: undefined });

    await writeFile(join(directory, 'libggml-evil.so'), 'x');
    expect(await verifyEngineDirectory(opened.value)).toMatchObject({
      ok: false,
      error: { kind: 'file_mismatch', message: expect.stringContaining('libggml-evil.so') as string },
    });
    await unlink(join(directory, 'libggml-evil.so'));

    await writeFile(join(directory, 'libggml-base.so'), 'CONTENT of libggml-base.so');
    expect(await verifyEngineDirectory(opened.value)).toMatchObject({
      ok: false,
      error: { kind: 'file_mismatch', message: expect.stringContaining('libggml-base.so') as string },
    });
  });

  it('can be cancelled', async () => {
    const opened = await openEngineDirectory(await makeEngine(join(root, 'e')));
    if (!opened.ok) throw new Error(opened.error.message);
    await expect(
      verifyEngineDirectory(opened.value, { signal: AbortSignal.abort(new Error('enough')) }),
    ).rejects.toThrow('enough');
  });
});

describe('locateEngineDirectory', () => {
  it('takes the override, then the installed one, then the one that the checkout built', async () => {
    const built = join(root, 'cache', 'built');
    await mkdir(join(root, 'build'));
    await writeFile(join(root, 'build', 'engine.json'), JSON.stringify({ dir: built, buildId: 'x' }));
    expect(await locateEngineDirectory({ appRoot: root })).toEqual({ ok: true, value: built });

    const installed = await makeEngine(join(root, 'engine'));
    expect(await locateEngineDirectory({ appRoot: root })).toEqual({ ok: true, value: installed });

    expect(await locateEngineDirectory({ appRoot: root, override: '/elsewhere' })).toMatchObject({
      ok: true,
      value: expect.stringMatching(/elsewhere$/) as string,
    });
  });

  it('says what to do when there is none, or the record is damaged', async () => {
    expect(await locateEngineDirectory({ appRoot: root })).toMatchObject({
      ok: false,
      error: { kind: 'missing', message: expect.stringContaining('npm run build:engine') as string },
    });
    await mkdir(join(root, 'build'));
    await writeFile(join(root, 'build', 'engine.json'), '{"dir": 5}');
    expect(await locateEngineDirectory({ appRoot: root })).toMatchObject({
      ok: false,
      error: { kind: 'bad_manifest', message: expect.stringContaining('dir') as string },
    });
  });
});
