import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readFile, readdir, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateRawSync, gzipSync, crc32 } from 'node:zlib';
import tar from 'tar-stream';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { unpack } from './unpack.ts';

let directory: string;
const signal = new AbortController().signal;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-unpack-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

type Entry = { name: string; content?: Buffer | string; type?: string; linkname?: string; mode?: number };

async function tarOf(entries: readonly Entry[]): Promise<Buffer> {
  const pack = tar.pack();
  for (const { content = '', ...header } of entries) {
    pack.entry(header as Parameters<typeof pack.entry>[0], content as string);
  }
  pack.finalize();
  const parts: Buffer[] = [];
  for await (const part of pack) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

/** One stored or deflated entry and the central directory; `claimed` is what it says that it unpacks to. */
function zipOf(
  name: string,
  content: Buffer,
  options: { claimed?: number; mode?: number; times?: number } = {},
): Buffer {
  const packed = deflateRawSync(content);
  const claimed = options.claimed ?? content.length;
  const fields = Buffer.alloc(26);
  fields.writeUInt16LE(20, 0);
  fields.writeUInt16LE(8, 4);
  fields.writeUInt32LE(crc32(content), 10);
  fields.writeUInt32LE(packed.length, 14);
  fields.writeUInt32LE(claimed, 18);
  fields.writeUInt16LE(name.length, 22);
  const local = Buffer.concat([Buffer.from('PK\u0003\u0004'), fields, Buffer.from(name), packed]);
  const central = Buffer.concat([
    Buffer.from('PK\u0001\u0002'),
    Buffer.of(20, 3),
    fields,
    Buffer.alloc(6),
    Buffer.alloc(8),
    Buffer.from(name),
  ]);
  central.writeUInt32LE(((options.mode ?? 0o100644) << 16) >>> 0, 38);
  // Each with a name of its own and the same bytes.
  const entries = Array.from({ length: options.times ?? 1 }, (_, index) => {
    const entry = Buffer.from(central);
    if (index > 0) entry.write(String(index).padStart(name.length, '0'), 46);
    return entry;
  });
  const directory = Buffer.concat(entries);
  const end = Buffer.alloc(22);
  end.write('PK\u0005\u0006', 'latin1');
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(directory.length, 12);
  end.writeUInt32LE(local.length, 16);
  return Buffer.concat([local, directory, end]);
}

async function attempt(bytes: Buffer): Promise<string> {
  const archive = join(directory, 'archive');
  await writeFile(archive, bytes);
  return unpack(archive, join(directory, 'out'), { signal }).then(
    () => 'unpacked',
    (error: unknown) => `${(error as { code: string }).code}: ${(error as Error).message}`,
  );
}

test('files, folders and the executable bit come out of tar, gzip and zip', async () => {
  const source = join(directory, 'source');
  await mkdir(join(source, 'bin', 'empty'), { recursive: true });
  await writeFile(join(source, 'bin', 'tool'), '#!/bin/sh\n', { mode: 0o755 });
  await writeFile(join(source, 'data.txt'), 'hello');
  const plain = execFileSync('tar', ['-C', source, '-cf', '-', '.'], { maxBuffer: 1e8 });
  for (const bytes of [plain, gzipSync(plain)]) {
    expect(await attempt(bytes)).toBe('unpacked');
    const out = join(directory, 'out');
    expect(await readFile(join(out, 'data.txt'), 'utf8')).toBe('hello');
    expect(((await stat(join(out, 'bin', 'tool'))).mode & 0o777).toString(8)).toBe('700');
    expect((await readdir(join(out, 'bin'))).sort()).toEqual(['empty', 'tool']);
    await rm(out, { recursive: true });
  }
  expect(await attempt(zipOf('a/b.txt', Buffer.from('zipped')))).toBe('unpacked');
  expect(await readFile(join(directory, 'out', 'a', 'b.txt'), 'utf8')).toBe('zipped');
});

test('an empty tar is an empty folder', async () => {
  expect(await attempt(await tarOf([]))).toBe('unpacked');
  expect(await readdir(join(directory, 'out'))).toEqual([]);
  await rm(join(directory, 'out'), { recursive: true });
  expect(await attempt(Buffer.alloc(10_240))).toBe('unpacked');
});

const hostile: readonly (readonly [string, () => Promise<Buffer> | Buffer, RegExp])[] = [
  ['a path out of the folder', () => tarOf([{ name: '../evil', content: 'x' }]), /leads out of the folder/],
  ['a path in the middle', () => tarOf([{ name: 'a/../../evil', content: 'x' }]), /leads out of the folder/],
  ['an absolute path', () => tarOf([{ name: '/etc/evil', content: 'x' }]), /leads out of the folder/],
  [
    'a drive',
    () => tarOf([{ name: 'C:\\evil', content: 'x' }]),
    /has a .{1,4} in its name, which Windows cannot have/,
  ],
  [
    'a control character',
    () => tarOf([{ name: 'a\u001b[2J', content: 'x' }]),
    /has a control character in its name/,
  ],
  [
    'a symbolic link',
    () => tarOf([{ name: 'l', type: 'symlink', linkname: '/etc' }]),
    /is a link or a device/,
  ],
  [
    'a hard link',
    () => tarOf([{ name: 'l', type: 'link', linkname: '/etc/passwd' }]),
    /is a link or a device/,
  ],
  ['a device', () => tarOf([{ name: 'd', type: 'character-device' }]), /is a link or a device/],
  [
    'a file in place of another',
    () =>
      tarOf([
        { name: 'a', content: '1' },
        { name: 'A', content: '2' },
      ]),
    /is there twice/,
  ],
  [
    'a file as a folder',
    () =>
      tarOf([
        { name: 'a', content: '1' },
        { name: 'a/b', content: '2' },
      ]),
    /is below a file/,
  ],
  [
    'a gzip bomb',
    async () => gzipSync(await tarOf([{ name: 'z', content: Buffer.alloc(1e8) }])),
    /times its own size/,
  ],
  ['a zip bomb', () => zipOf('z', Buffer.alloc(1e8)), /times its own size/],
  [
    'a zip whose entries are the same bytes again and again',
    () => zipOf('0000', Buffer.concat([randomBytes(20_000), Buffer.alloc(1e6)]), { times: 90 }),
    /times its own size/,
  ],
  [
    'nothing but long names, which are no entries',
    async () => {
      const long = await tarOf([{ name: 'n'.repeat(90_000), content: '' }]);
      // Its extended header alone: the entry that it is for never comes.
      return gzipSync(Buffer.concat(Array.from({ length: 1_000 }, () => long.subarray(0, 512 + 90_112))));
    },
    /times its own size/,
  ],
  [
    'folders that differ in case only',
    () =>
      tarOf([
        { name: 'lib/a', content: '1' },
        { name: 'Lib/b', content: '2' },
      ]),
    /differs from another name in case only/,
  ],
  [
    'a zip that claims less than it has',
    () => zipOf('z', Buffer.alloc(1e6), { claimed: 10 }),
    /too many bytes/,
  ],
  [
    'a zip with a path out',
    () => zipOf('../evil', Buffer.from('x')),
    /leads out of the folder|invalid relative path/,
  ],
  ['a zip with a link', () => zipOf('l', Buffer.from('/etc'), { mode: 0o120777 }), /is a link or a device/],
  [
    'half a tar',
    async () => (await tarOf([{ name: 'a', content: Buffer.alloc(5000) }])).subarray(0, 2000),
    /cannot be unpacked/,
  ],
  ['something else', () => Buffer.alloc(2000, 'x'), /neither a tar/],
  ['nothing', () => Buffer.alloc(0), /neither a tar/],
  ['a large file of zeros', () => Buffer.alloc(1_048_576), /neither a tar/],
];

/** Files of the test that this process has open. */
async function openFiles(): Promise<string[]> {
  const links = await Promise.all(
    (await readdir('/proc/self/fd')).map((fd) => readlink(join('/proc/self/fd', fd)).catch(() => '')),
  );
  return links.filter((path) => path.startsWith(directory));
}

test.each(hostile)('%s is refused and leaves nothing', async (_what, make, sentence) => {
  const outcome = await attempt(await make());
  expect(outcome).toMatch(/^artifact_invalid: /);
  expect(outcome).toMatch(sentence);
  expect(await readdir(directory)).toEqual(['archive']);
  if (process.platform === 'linux') await expect.poll(openFiles).toEqual([]);
});

test('folders that are only named by what is in them count as entries', async () => {
  const archive = join(directory, 'archive');
  const deep = Array.from({ length: 5 }, (_, index) => ({ name: `${index}/a/b/c/d/e/f/g`, content: 'x' }));
  await writeFile(archive, await tarOf(deep));
  const limits = { entries: 30, bytes: 1e9, ratio: 1e9, ratioFromBytes: 0 };
  await expect(unpack(archive, join(directory, 'out'), { signal, limits })).rejects.toThrow(
    /more than 30 entries/,
  );
});

test('more entries than allowed are refused', async () => {
  const archive = join(directory, 'archive');
  await writeFile(archive, await tarOf(Array.from({ length: 12 }, (_, index) => ({ name: `f${index}` }))));
  const limits = { entries: 10, bytes: 1e9, ratio: 1e9, ratioFromBytes: 0 };
  await expect(unpack(archive, join(directory, 'out'), { signal, limits })).rejects.toThrow(
    /more than 10 entries/,
  );
});
