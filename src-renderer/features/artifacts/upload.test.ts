import { expect, it, vi } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import type { ApiClient } from '../../api-client/api-client.ts';
import {
  fileSource,
  folderSource,
  looksExecutable,
  sourceProblem,
  upload,
  type UploadProgress,
} from './upload.ts';

const MiB = 1024 * 1024;
const hexOf = async (bytes: Uint8Array<ArrayBuffer>): Promise<string> => {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
};
const content = Uint8Array.from({ length: 9 * MiB + 5 }, (_, index) => (index * 31) & 255);
content.fill(7, 4 * MiB, 8 * MiB);

interface Announced {
  readonly files: readonly {
    readonly sha256: string;
    readonly chunks: readonly string[];
    readonly executable: boolean;
  }[];
}

/** A controller that needs what `needed` says of what was announced. */
function fakeApi(needed: (chunks: readonly string[]) => readonly string[]) {
  const announced: Announced[] = [];
  const sent: string[] = [];
  const failures: CoveyError[] = [];
  const call = vi.fn((route: string, options: { body?: Announced }) => {
    if (route === 'finishUpload') return Promise.resolve({ id: 'done' });
    announced.push(options.body as Announced);
    const chunks = options.body?.files.flatMap((file) => file.chunks) ?? [];
    return Promise.resolve({ id: 'u 1', needed: needed(chunks), expiresAt: 0 });
  });
  const bytes = vi.fn(async (_method: string, path: string, _signal: AbortSignal, body: Blob) => {
    const failure = failures.shift();
    if (failure) throw failure;
    expect(path.endsWith(await hexOf(new Uint8Array(await body.arrayBuffer())))).toBe(true);
    sent.push(path);
  });
  return { api: { call, bytes } as unknown as ApiClient, announced, sent, failures };
}
const run = (
  api: ApiClient,
  source = fileSource(new File([content], 'a.bin')),
  signal = new AbortController().signal,
) => {
  const steps: UploadProgress[] = [];
  return { steps, result: upload(api, source, signal, (progress) => steps.push(progress)) };
};

it('announces digests of the whole and of each chunk, and sends what is needed', async () => {
  const { api, announced, sent } = fakeApi((chunks) => chunks.slice(1));
  const { steps, result } = run(api);
  await result;
  const [file] = announced[0]?.files ?? [];
  expect(file?.sha256).toBe(await hexOf(content));
  expect(file?.chunks).toHaveLength(3);
  expect(sent).toHaveLength(2);
  expect(steps.at(-1)?.step).toBe('verifying');
  const sending = steps.filter(({ step }) => step === 'sending');
  expect(sending.at(-1)).toEqual({ step: 'sending', doneBytes: 5 * MiB + 5, totalBytes: 5 * MiB + 5 });
  expect(steps.find(({ doneBytes }) => doneBytes === content.length)?.step).toBe('preparing');
});

it('an empty file has no chunk, a small one is its only chunk', async () => {
  for (const bytes of [new Uint8Array(), content.slice(0, 100)]) {
    const { api, announced } = fakeApi((chunks) => chunks);
    await run(api, fileSource(new File([bytes], 'a'))).result;
    const id = await hexOf(bytes);
    expect(announced[0]?.files[0]).toMatchObject({ sha256: id, chunks: bytes.length === 0 ? [] : [id] });
  }
});

it('a connection that breaks for a moment is tried again, a refusal is not', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    const one = fakeApi((chunks) => chunks.slice(0, 1));
    one.failures.push(new CoveyError('controller_unreachable', 'gone'));
    const { result } = run(one.api);
    await vi.waitFor(() => expect(one.failures).toEqual([]), { timeout: 5_000 });
    await vi.advanceTimersByTimeAsync(2_000);
    await result;
    expect(one.sent).toHaveLength(1);
  } finally {
    vi.useRealTimers();
  }
  const two = fakeApi((chunks) => chunks.slice(0, 1));
  two.failures.push(new CoveyError('artifact_quota', 'full'));
  await expect(run(two.api).result).rejects.toMatchObject({ code: 'artifact_quota' });
});

it('stops when it is told to', async () => {
  const stop = new AbortController();
  stop.abort(new CoveyError('cancelled', 'Cancelled.'));
  const { api, announced } = fakeApi((chunks) => chunks);
  await expect(run(api, fileSource(new File([content], 'a.bin')), stop.signal).result).rejects.toThrow();
  expect(announced).toEqual([]);
});

it('takes a folder by its paths, and says which name cannot be', () => {
  const inFolder = (path: string): File => {
    const file = new File(['x'], path.split('/').at(-1) ?? '');
    Object.defineProperty(file, 'webkitRelativePath', { value: path });
    return file;
  };
  const source = folderSource([inFolder('tool/run.sh'), inFolder('tool/lib/a')]);
  expect(source).toMatchObject({
    kind: 'tree',
    name: 'tool',
    files: [{ path: 'run.sh' }, { path: 'lib/a' }],
  });
  expect(sourceProblem(source)).toBeNull();
  expect(sourceProblem(folderSource([]))).toMatch(/no file/);
  expect(sourceProblem(folderSource([inFolder('tool/a:b')]))).toMatch(/"a:b"/);
});

it('gives a file a name that can be seen whole', () => {
  expect(fileSource(new File(['x'], 'a\u202eb\u0007')).name).toBe('a_b_');
});

it('knows programs by how they begin', () => {
  expect(looksExecutable(new TextEncoder().encode('#!/bin/sh'))).toBe(true);
  expect(looksExecutable(Uint8Array.of(0x7f, 0x45, 0x4c, 0x46, 2))).toBe(true);
  expect(looksExecutable(new TextEncoder().encode('hello'))).toBe(false);
  expect(looksExecutable(new Uint8Array())).toBe(false);
});
