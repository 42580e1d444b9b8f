import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeEach, describe, expect, test } from 'vitest';
import type { ArtifactView } from '#shared/domain/artifact.ts';
import type { RunningController } from '../support/cluster.ts';
import { runCovey, type CliOutcome } from '../support/cli.ts';
import { useCluster } from '../support/use-cluster.ts';

/** Artifacts by command line and API, with a real controller. */
const MiB = 1024 * 1024;
const chunkBytes = 4 * MiB;
const cluster = useCluster();
let controller: RunningController;
let directory: string;
beforeEach(async () => {
  controller = await cluster.current.startController();
  directory = path.join(cluster.current.directory, 'files');
  mkdirSync(directory);
});

const sha256 = (data: Uint8Array): string => createHash('sha256').update(data).digest('hex');
const at = (name: string): string => path.join(directory, name);
const covey = (...args: string[]): Promise<CliOutcome> => runCovey(controller, ['artifacts', ...args]);

async function done(...args: string[]): Promise<ArtifactView & { sentBytes: number; path: string }> {
  const outcome = await covey(...args, '--json');
  expect(outcome).toMatchObject({ code: 0 });
  return JSON.parse(outcome.stdout) as ArtifactView & { sentBytes: number; path: string };
}

/** `/api` as any program speaks it. */
function api(
  method: string,
  target: string,
  body?: Uint8Array | object,
  headers: Record<string, string> = {},
): Promise<Response> {
  const bytes = body instanceof Uint8Array;
  return fetch(`${controller.api}${target}`, {
    method,
    headers: {
      authorization: `Bearer ${controller.token}`,
      ...(body === undefined
        ? {}
        : { 'content-type': bytes ? 'application/octet-stream' : 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: bytes ? Buffer.from(body) : JSON.stringify(body) }),
  });
}

async function refusal(
  response: Promise<Response>,
): Promise<{ status: number; code: string; field?: string; message: string }> {
  const answer = await response;
  const { error } = (await answer.json()) as { error: { code: string; field?: string; message: string } };
  return { status: answer.status, ...error };
}

/** What an upload of one file announces. */
function announce(content: Uint8Array, name = 'data'): { kind: string; name: string; files: object[] } {
  const chunks = Array.from({ length: Math.ceil(content.length / chunkBytes) }, (_, index) =>
    sha256(content.subarray(index * chunkBytes, (index + 1) * chunkBytes)),
  );
  return {
    kind: 'file',
    name,
    files: [{ path: name, bytes: content.length, sha256: sha256(content), chunks }],
  };
}

const start = async (body: object): Promise<{ id: string; needed: string[] }> =>
  (await (await api('POST', '/api/artifacts/uploads', body)).json()) as { id: string; needed: string[] };

describe('put and get', () => {
  test('a file comes back as it was; putting it again sends nothing', async () => {
    const content = randomBytes(13 * MiB + 7);
    writeFileSync(at('data.bin'), content);
    const put = await done('put', at('data.bin'));
    expect(put).toMatchObject({
      id: sha256(content),
      kind: 'file',
      name: 'data.bin',
      sentBytes: content.length,
    });
    expect((await done('put', at('data.bin'), '--name', 'other')).sentBytes).toBe(0);
    const got = await done('get', 'other', at('back'));
    expect(readFileSync(got.path).equals(content)).toBe(true);
    const list = await covey('ls');
    expect(list.stdout).toMatch(/^[0-9a-f]{12} +other +\d/m);
    expect(list.stdout.split('\n').every((line) => line.length <= 80)).toBe(true);
    expect((await covey('get', 'other', at('back'))).code).toBe(1);
    expect((await covey('get', 'nobody')).stderr).toMatch(/There is no artifact "nobody"/);
    expect((await covey('put', at('missing'))).code).toBe(2);
  });

  test('of a folder that has changed a little, a little moves', async () => {
    const tree = at('tree');
    mkdirSync(path.join(tree, 'sub', 'empty'), { recursive: true });
    for (let index = 0; index < 100; index += 1)
      writeFileSync(path.join(tree, `f${index}`), randomBytes(200_000));
    const large = randomBytes(60 * MiB);
    writeFileSync(path.join(tree, 'sub', 'large'), large);
    writeFileSync(path.join(tree, 'sub', 'run'), '#!/bin/sh\n');
    chmodSync(path.join(tree, 'sub', 'run'), 0o755);
    const first = await done('put', tree);
    expect(first).toMatchObject({ kind: 'tree', files: 102 });
    writeFileSync(path.join(tree, 'f7'), randomBytes(200_000));
    const second = await done('put', tree, '--name', 'tree2');
    expect(second.sentBytes).toBe(200_000);
    expect(second.sentBytes).toBeLessThan(0.02 * second.bytes);
    await done('get', 'tree2', at('back'));
    expect(readFileSync(at('back/sub/large')).equals(large)).toBe(true);
    expect(statSync(at('back/sub/run')).mode & 0o100).toBe(0o100);
    expect(readdirSync(at('back/sub')).sort()).toEqual(['empty', 'large', 'run']);
    // One file of it, and a part of that.
    const target = `/api/artifacts/tree/content?path=${encodeURIComponent('sub/large')}`;
    const part = await api('GET', target, undefined, { range: 'bytes=1000-1999' });
    expect(part.status).toBe(206);
    expect(Buffer.from(await part.arrayBuffer()).equals(large.subarray(1000, 2000))).toBe(true);
  });

  test('an upload goes on where it was when the controller was killed', async () => {
    const content = randomBytes(10 * MiB);
    const body = announce(content);
    const first = await start(body);
    expect(first.needed).toHaveLength(3);
    for (const index of [0, 1]) {
      const chunk = content.subarray(index * chunkBytes, (index + 1) * chunkBytes);
      const answer = await api(
        'PUT',
        `/api/artifacts/uploads/${first.id}/chunks/${first.needed[index]}`,
        chunk,
      );
      expect(answer.status).toBe(200);
    }
    expect(await refusal(api('POST', `/api/artifacts/uploads/${first.id}/finish`, {}))).toMatchObject({
      status: 409,
      code: 'upload_incomplete',
    });
    await controller.crash();
    controller = await cluster.current.startController({ dataDirectory: controller.dataDirectory });
    writeFileSync(at('data'), content);
    expect((await done('put', at('data'))).sentBytes).toBe(2 * MiB);
    await controller.stop();
    controller = await cluster.current.startController({ dataDirectory: controller.dataDirectory });
    await done('get', 'data', at('back'));
    expect(readFileSync(at('back')).equals(content)).toBe(true);
  });

  test('a put that is cut off by a kill of the controller at any point is whole after the next', async () => {
    const tree = at('tree');
    mkdirSync(tree);
    const files = new Map([5, 9, 1].map((size, index) => [`f${index}`, randomBytes(size * MiB)]));
    for (const [name, content] of files) writeFileSync(path.join(tree, name), content);
    for (const delayMs of [0, 40, 120, 250, 400]) {
      // Something of it is new each time.
      const changed = randomBytes(3 * MiB);
      files.set('changed', changed);
      writeFileSync(path.join(tree, 'changed'), changed);
      const cut = covey('put', tree, '--name', `tree-${delayMs}`);
      await new Promise((resolve) => setTimeout(resolve, 300 + delayMs));
      await controller.crash();
      await cut;
      controller = await cluster.current.startController({ dataDirectory: controller.dataDirectory });
      await done('put', tree, '--name', `tree-${delayMs}`);
      await done('get', `tree-${delayMs}`, at(`back-${delayMs}`));
      for (const [name, content] of files) {
        expect(readFileSync(path.join(at(`back-${delayMs}`), name)).equals(content)).toBe(true);
      }
      expect(readdirSync(path.join(controller.dataDirectory, 'artifacts', 'incoming'))).toEqual([]);
    }
  });

  test('what the setting says of their room counts at once', async () => {
    writeFileSync(at('small'), randomBytes(MiB));
    writeFileSync(at('large'), randomBytes(8 * MiB));
    const set = (value: string): Promise<CliOutcome> =>
      runCovey(controller, ['config', 'set', 'artifacts.quotaBytes', value]);
    expect(await set('a lot')).toMatchObject({ code: 2 });
    expect((await set('4MB')).stdout).toBe('artifacts.quotaBytes is 4 MiB now.\n');
    const refused = await covey('put', at('large'));
    expect(refused.code).toBe(1);
    expect(refused.stderr).toMatch(/needs 8 MiB of the controller's store, which has room for 4 MiB/);
    await done('put', at('small'));
    expect((await covey('ls')).stdout).toMatch(/1\.0 MiB of 4\.0 MiB used/);
    expect(await set('none')).toMatchObject({ code: 0 });
    await done('put', at('large'));
  });

  test('what is not kept any more stays for its grace time', async () => {
    writeFileSync(at('data'), 'content');
    await done('put', at('data'));
    expect((await covey('rm', 'data')).stdout).toMatch(/not kept any more/);
    expect(await done('gc')).toEqual({ removed: 0, freedBytes: 0 });
    const { artifacts } = (await (await api('GET', '/api/artifacts')).json()) as {
      artifacts: ArtifactView[];
    };
    expect(artifacts).toMatchObject([{ pinned: false }]);
    expect(artifacts[0]?.collectableAt).toBeGreaterThan(Date.now());
  });
});

describe('what must not come in', () => {
  const artifacts = async (): Promise<number> => {
    const { usedBytes } = (await (await api('GET', '/api/artifacts')).json()) as { usedBytes: number };
    return usedBytes;
  };

  test('a chunk that is something else is found out, and asked for again', async () => {
    const content = randomBytes(9 * MiB);
    const { id, needed } = await start(announce(content));
    for (const [index, chunk] of needed.entries()) {
      const bytes = Buffer.from(content.subarray(index * chunkBytes, (index + 1) * chunkBytes));
      if (index === 1) bytes[77] = (bytes[77] ?? 0) ^ 1;
      await api('PUT', `/api/artifacts/uploads/${id}/chunks/${chunk}`, bytes);
    }
    expect(await refusal(api('POST', `/api/artifacts/uploads/${id}/finish`, {}))).toMatchObject({
      code: 'artifact_corrupt',
    });
    expect(await artifacts()).toBe(0);
    const again = await start(announce(content));
    expect(again.needed).toEqual([needed[1]]);
    await api(
      'PUT',
      `/api/artifacts/uploads/${id}/chunks/${needed[1]}`,
      content.subarray(chunkBytes, 2 * chunkBytes),
    );
    expect((await api('POST', `/api/artifacts/uploads/${id}/finish`, {})).status).toBe(200);
  });

  test('more than was announced, paths out of the tree, and lies about chunks are refused by name', async () => {
    const small = announce(Buffer.alloc(10));
    const { id, needed } = await start(small);
    const target = `/api/artifacts/uploads/${id}/chunks/${needed[0]}`;
    expect(await refusal(api('PUT', target, Buffer.alloc(1_000)))).toMatchObject({
      status: 400,
      code: 'artifact_invalid',
      field: 'body',
    });
    expect(await refusal(api('PUT', target, Buffer.alloc(5 * MiB)))).toMatchObject({
      code: 'body_too_large',
    });
    const file = { bytes: 0, sha256: sha256(Buffer.alloc(0)), chunks: [] };
    for (const wrong of ['../evil', '/etc/passwd', 'a/../../b', 'C:\\x', 'a\u0000b', 'nul']) {
      const body = { kind: 'tree', name: 't', files: [{ ...file, path: wrong }] };
      expect(await refusal(api('POST', '/api/artifacts/uploads', body))).toMatchObject({
        status: 400,
        code: 'artifact_invalid',
        field: 'files',
      });
    }
    const lie = { kind: 'file', name: 'x', files: [{ ...file, path: 'x', bytes: 10_000_000_000 }] };
    expect(await refusal(api('POST', '/api/artifacts/uploads', lie))).toMatchObject({
      code: 'artifact_invalid',
      field: 'files.0.chunks',
    });
    const huge = 2 ** 45;
    const filler = { ...file, path: 'x', bytes: huge, chunks: [] };
    expect((await refusal(api('POST', '/api/artifacts/uploads', { ...lie, files: [filler] }))).status).toBe(
      400,
    );
    expect(await artifacts()).toBe(0);
  });

  test('nobody without the right gets at it, and content comes as nothing that a page could run', async () => {
    writeFileSync(at('page.html'), '<script>alert(1)</script>');
    await done('put', at('page.html'));
    const content = '/api/artifacts/page.html/content';
    expect((await fetch(`${controller.api}${content}`)).status).toBe(401);
    expect(
      (
        await fetch(`${controller.api}/api/artifacts/uploads/x/chunks/${'a'.repeat(64)}`, {
          method: 'PUT',
          body: 'x',
        })
      ).status,
    ).toBe(401);
    const answer = await api('GET', content);
    expect(answer.headers.get('content-type')).toBe('application/octet-stream');
    expect(answer.headers.get('content-disposition')).toMatch(/^attachment/);
    expect((await api('GET', `${content}?path=../../covey.db`)).status).toBe(404);
    expect((await api('GET', '/api/artifacts/..%2f..%2fcovey.db/content')).status).toBe(404);
  });

  test('an archive that would fill the disk or leaves its folder is not unpacked, and nothing stays', async () => {
    const before = readdirSync(tmpdir()).filter((name) => name.startsWith('covey-unpack-')).length;
    const header = Buffer.alloc(512);
    header.write('big', 0);
    header.write('0000644\u00000000000\u00000000000\u0000', 100, 'latin1');
    header.write('05753604000\u000000000000000\u0000', 124, 'latin1');
    header.write('        0', 148, 'latin1');
    header.write('ustar\u000000', 257, 'latin1');
    const sum = header.reduce((total, byte) => total + byte, 0);
    header.write(`${sum.toString(8).padStart(6, '0')}\u0000 `, 148, 'latin1');
    writeFileSync(at('bomb.tgz'), gzipSync(Buffer.concat([header, Buffer.alloc(800_000_000)])));
    const bomb = await covey('put', at('bomb.tgz'), '--unpack');
    expect(bomb.code).toBe(1);
    expect(bomb.stderr).toMatch(/times its own size/);
    expect(readdirSync(tmpdir()).filter((name) => name.startsWith('covey-unpack-')).length).toBe(before);
    expect(existsSync(at('evil'))).toBe(false);
    expect(await artifacts()).toBe(0);
  });
});
