import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import { encodeGgufHeader, type GgufInput } from '#shared/gguf/encode.ts';
import type { TransferProgress } from '#shared/protocol/requests.ts';
import { hubToken, startHubServer, type Fault, type HubServer } from '../../e2e/support/hub-server.ts';
import { collectingLogger } from '../runtime/fixtures.ts';
import { downloadModel, type DownloadOptions } from './download.ts';
import { createModelHandlers } from './handlers.ts';
import { openModelLibrary, type ModelLibrary } from './library.ts';
import { generatePredictableModel } from './predictable.ts';

const SOURCE = 'hf:some/stories/tiny/story.gguf';
let made: string;
let story: string;
let storyBytes: number;
let directory: string;
let library: ModelLibrary;
let hub: HubServer;

beforeAll(async () => {
  made = await mkdtemp(join(tmpdir(), 'covey-download-made-'));
  story = join(made, 'story.gguf');
  storyBytes = await generatePredictableModel({ path: story });
});
afterAll(async () => {
  await rm(made, { recursive: true, force: true });
});
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-download-'));
  library = await openModelLibrary(directory, { clock: { now: () => 7 }, logger: collectingLogger().logger });
  hub = await startHubServer();
  await hub.add('some/stories', 'tiny/story.gguf', story);
});
afterEach(async () => {
  await hub.close();
  await rm(directory, { recursive: true, force: true });
});

function pull(source = SOURCE, options: Partial<DownloadOptions> = {}) {
  const { hub: settings, ...rest } = options;
  return downloadModel(source, library, {
    hub: { baseUrl: hub.url, retryMs: 5, stallMs: 400, connectMs: 2000, ...settings },
    now: Date.now(),
    ...rest,
  });
}

async function refusal(work: Promise<unknown>): Promise<CoveyError> {
  const thrown = await work.then(
    () => null,
    (error: unknown) => error,
  );
  if (!(thrown instanceof CoveyError)) throw new Error(`expected a refusal, got ${String(thrown)}`);
  return thrown;
}

const contentRequests = () => hub.requests.filter((request) => request.at === 'cdn');

/** Where each request for content began. */
const ranges = (): number[] =>
  contentRequests().map((request) => Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? 'bytes=0-')?.[1]));

/** Partial files, by name and size. */
async function partials(): Promise<Record<string, number>> {
  const root = join(directory, '.downloads');
  const found: Record<string, number> = {};
  for (const folder of await readdir(root).catch(() => [])) {
    for (const name of await readdir(join(root, folder)))
      found[name] = (await stat(join(root, folder, name))).size;
  }
  return found;
}

describe('downloadModel', () => {
  it('fetches a file, checks it and puts it into the library', async () => {
    const seen: TransferProgress[] = [];
    const model = await pull(SOURCE, { onProgress: (progress) => seen.push(progress) });
    const sha256 = createHash('sha256')
      .update(await readFile(story))
      .digest('hex');
    expect(model).toMatchObject({ name: 'story', source: SOURCE, fileBytes: storyBytes, addedAt: 7 });
    expect(model.info?.contentHash).toBe(sha256);
    expect((await readFile(model.path)).equals(await readFile(story))).toBe(true);
    expect(seen.at(-1)).toMatchObject({ doneBytes: storyBytes, totalBytes: storyBytes });
    expect(await partials()).toEqual({});
    expect((await library.resolve(SOURCE)).path).toBe(model.path);
  });

  it('asks for no byte beyond what the owner lends', async () => {
    library = await openModelLibrary(directory, {
      clock: { now: () => 7 },
      logger: collectingLogger().logger,
      quotaBytes: () => storyBytes - 1,
    });
    const progress: number[] = [];
    const error = await refusal(pull(SOURCE, { onProgress: ({ doneBytes }) => progress.push(doneBytes) }));
    expect(error.code).toBe('disk_full');
    expect(progress.every((doneBytes) => doneBytes === 0)).toBe(true);
  });

  it('does not fetch again what is there', async () => {
    const model = await pull();
    const requests = hub.requests.length;
    expect(await pull()).toEqual(model);
    expect(hub.requests).toHaveLength(requests);
  });

  it('pins the commit that the hub named', async () => {
    await pull();
    const gets = hub.requests.filter((request) => request.at === 'hub' && request.method === 'GET');
    expect(gets.map((request) => request.path)).toEqual([
      '/some/stories/resolve/0123456789abcdef0123456789abcdef01234567/tiny/story.gguf',
    ]);
  });

  it('chooses the best file of a repository over all pages of its list', async () => {
    for (const name of ['README.md', 'story-Q8_0.gguf', 'mmproj-f16.gguf', 'story-Q4_K_M.gguf', 'z.gguf']) {
      await hub.add('some/many', name, story);
    }
    const model = await pull('hf:some/many');
    expect(model).toMatchObject({ name: 'story-Q4_K_M', source: 'hf:some/many' });
    expect(hub.requests.filter((request) => request.path.includes('/tree/'))).toHaveLength(3);
    await hub.add('some/none', 'README.md', story);
    expect((await refusal(pull('hf:some/none'))).code).toBe('download_not_found');
  });

  it('fetches all shards, whichever is named', async () => {
    for (const index of [1, 2]) {
      const metadata = new Map<string, GgufInput>([
        ['general.architecture', { type: 'str', value: 'llama' }],
        ['split.no', { type: 'u16', value: index - 1 }],
        ['split.count', { type: 'u16', value: 2 }],
        ['llama.block_count', { type: 'u32', value: 1 }],
        ['llama.context_length', { type: 'u32', value: 64 }],
        ['llama.embedding_length', { type: 'u32', value: 32 }],
      ]);
      const tensors = [
        { name: index === 1 ? 'output.weight' : 'blk.0.x.weight', type: 'F32', dimensions: [32, 8] },
      ];
      const encoded = encodeGgufHeader(metadata, tensors);
      const shard = join(made, `shard${index}.gguf`);
      await writeFile(
        shard,
        Buffer.concat([encoded.bytes, Buffer.alloc(encoded.fileBytes - encoded.bytes.length)]),
      );
      await hub.add('some/shards', `Q4/m-0000${index}-of-00002.gguf`, shard);
    }
    const model = await pull('hf:some/shards/Q4/m-00002-of-00002.gguf');
    expect(model.name).toBe('m');
    expect(model.path).toMatch(/m-00001-of-00002\.gguf$/);
    expect(model.info?.split).toEqual({ index: 0, count: 2 });
    expect((await library.resolve('m')).info.fileBytes).toBe(model.fileBytes);
  });

  it('gives a name that is taken the repository in front', async () => {
    await library.importFile(story, { name: 'other' });
    await pull();
    await hub.add('else/where', 'story.gguf', story);
    expect((await pull('hf:else/where/story.gguf')).name).toBe('where-story');
  });
});

describe('a download that breaks', () => {
  it('goes on where the connection broke', async () => {
    hub.misbehave({ kind: 'cut', afterBytes: 1_000_000, times: 3 });
    await pull();
    // What was still on its way within this process when the connection broke may be asked for again.
    const asked = ranges();
    expect(asked).toHaveLength(4);
    for (const [index, from] of asked.entries()) {
      expect(from).toBeLessThanOrEqual((asked[index - 1] ?? 0) + (index === 0 ? 0 : 1_000_000));
      if (index > 0) expect(from).toBeGreaterThan((asked[index - 1] ?? 0) + 500_000);
    }
    expect(contentRequests()[1]?.headers['if-range']).toMatch(/^"[0-9a-f]{32}"$/);
  });

  it('takes silence for a break', async () => {
    hub.misbehave({ kind: 'stall', afterBytes: 1_000_000, times: 1 });
    await pull();
    expect(ranges()).toEqual([0, 1_000_000]);
  });

  it('gives up when nothing more comes, and is continued by the next', async () => {
    const then: Fault = { kind: 'cdn-status', status: 503, times: 100 };
    hub.misbehave({ kind: 'cut', afterBytes: 1_000_000, times: 1, then });
    const error = await refusal(pull());
    expect(error.code).toBe('download_failed');
    expect(error.message).toContain('503');
    const { 'story.gguf.part': kept = 0 } = await partials();
    expect(kept).toBeGreaterThan(500_000);

    hub.misbehave(null);
    const seen: TransferProgress[] = [];
    await pull(SOURCE, { onProgress: (progress) => seen.push(progress) });
    expect(ranges().at(-1)).toBe(kept);
    expect(seen.at(-1)?.doneBytes).toBe(storyBytes);
  });

  it('stops when told to, with the reason given, and is continued by the next', async () => {
    hub.misbehave({ kind: 'slow', pieceBytes: 16_384, pauseMs: 2 });
    const reason = new CoveyError('timeout', 'out of time');
    const stop = new AbortController();
    const stopped = pull(SOURCE, {
      signal: stop.signal,
      onProgress: ({ doneBytes }) => {
        if (doneBytes > 0) stop.abort(reason);
      },
    });
    expect(await refusal(stopped)).toBe(reason);
    const { 'story.gguf.part': kept = 0 } = await partials();
    expect(kept).toBeGreaterThan(0);
    expect(kept).toBeLessThan(storyBytes);
    hub.misbehave(null);
    await pull();
    expect(ranges().at(-1)).toBe(kept);
    expect(library.list()).toHaveLength(1);
  });

  it('begins again where ranges are not served', async () => {
    hub.misbehave({ kind: 'cut', afterBytes: 1_000_000, times: 1, then: { kind: 'no-ranges' } });
    const seen: number[] = [];
    await pull(SOURCE, { onProgress: ({ doneBytes }) => seen.push(doneBytes) });
    expect(seen.at(-1)).toBe(storyBytes);
    expect(contentRequests().map((request) => request.status)).toEqual([200, 200]);
  });

  it('refuses content with another hash, and keeps none of it', async () => {
    hub.misbehave({ kind: 'wrong-content' });
    const error = await refusal(pull());
    expect(error.code).toBe('download_corrupt');
    expect(library.list()).toEqual([]);
    expect(await partials()).toEqual({});
  });

  it('fetches all of it once more when a continued file turns out wrong', async () => {
    hub.misbehave({ kind: 'cut', afterBytes: 1_000_000, times: 100 });
    const stop = new AbortController();
    await refusal(pull(SOURCE, { signal: stop.signal, onProgress: () => stop.abort() }));
    const [folder = ''] = await readdir(join(directory, '.downloads'));
    const part = join(directory, '.downloads', folder, 'story.gguf.part');
    await writeFile(part, Buffer.alloc((await stat(part)).size, 1));
    hub.misbehave(null);
    const model = await pull();
    expect((await readFile(model.path)).equals(await readFile(story))).toBe(true);
  });

  it('refuses more than was announced', async () => {
    hub.misbehave({ kind: 'too-much' });
    expect((await refusal(pull())).code).toBe('download_failed');
  });

  it('refuses to run twice for one source', async () => {
    hub.misbehave({ kind: 'slow', pieceBytes: 65_536, pauseMs: 5 });
    const first = pull();
    expect((await refusal(pull())).message).toContain('already');
    await first;
  });

  it('forgets partial files after a week', async () => {
    hub.misbehave({ kind: 'cut', afterBytes: 1_000_000, times: 100 });
    const stop = new AbortController();
    await refusal(pull(SOURCE, { signal: stop.signal, onProgress: () => stop.abort() }));
    const [folder = ''] = await readdir(join(directory, '.downloads'));
    await utimes(join(directory, '.downloads', folder), 1, 1);
    hub.misbehave(null);
    await pull();
    expect(contentRequests().at(-1)?.headers.range).toBeUndefined();
  });
});

describe('what the hub refuses', () => {
  it('tells a missing file, a missing repository and a private one', async () => {
    const file = await refusal(pull('hf:some/stories/none.gguf'));
    expect(file).toMatchObject({ code: 'download_not_found', details: { field: 'source' } });
    const repository = await refusal(pull('hf:no/thing/x.gguf'));
    expect(repository.code).toBe('download_not_found');
    expect(repository.message).toContain('HF_TOKEN');
    await hub.add('some/secret', 'story.gguf', story, { access: 'private' });
    expect((await refusal(pull('hf:some/secret'))).code).toBe('download_not_found');
    await hub.add('some/gated', 'story.gguf', story, { access: 'gated' });
    const gated = await refusal(pull('hf:some/gated/story.gguf'));
    expect(gated.code).toBe('download_denied');
    expect(gated.message).toContain('terms');
    const known = await pull('hf:some/secret', { hub: { token: hubToken } });
    expect(known.name).toBe('story');
  });

  it('sends the token to the hub and to nobody else', async () => {
    await pull(SOURCE, { hub: { token: hubToken } });
    const withToken = hub.requests.filter((request) => request.headers.authorization !== undefined);
    expect(withToken.length).toBeGreaterThan(0);
    expect(withToken.every((request) => request.at === 'hub')).toBe(true);
    expect(contentRequests()).toHaveLength(1);
  });

  it.each([
    ['too_many_requests', { kind: 'status', status: 429, headers: { 'retry-after': '17' } }],
    ['download_denied', { kind: 'status', status: 403 }],
    ['download_failed', { kind: 'status', status: 500 }],
    ['download_failed', { kind: 'no-hash' }],
    ['download_failed', { kind: 'redirect', location: 'http://example.com/x' }],
    ['download_failed', { kind: 'redirect', location: 'ftp://127.0.0.1/x' }],
    ['download_failed', { kind: 'redirect', location: 'https://user:word@127.0.0.1/x' }],
    ['download_failed', { kind: 'redirect', location: '/some/stories/resolve/main/tiny/story.gguf' }],
  ] as [string, Fault][])('gives %s for %o', async (code, fault) => {
    hub.misbehave(fault);
    const error = await refusal(pull());
    expect(error.code).toBe(code);
    if (code === 'too_many_requests') expect(error.details.retryAfterS).toBe(17);
  });

  it('names a hub that cannot be reached, one that never answers, and bad sources', async () => {
    await hub.close();
    expect((await refusal(pull())).code).toBe('hub_unreachable');
    const silent = createServer((socket) => socket.resume());
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const { port } = silent.address() as { port: number };
    const error = await refusal(pull(SOURCE, { hub: { baseUrl: `http://127.0.0.1:${port}` } }));
    expect(error).toMatchObject({
      code: 'hub_unreachable',
      message: expect.stringContaining('0.4 s') as string,
    });
    await new Promise((resolve) => silent.close(resolve));
    expect((await refusal(pull('hf:nothing'))).code).toBe('invalid_request');
    hub = await startHubServer();
  });

  it('refuses what is no model although its hash is right', async () => {
    const text = join(made, 'notes.gguf');
    await writeFile(text, 'no model');
    await hub.add('some/text', 'notes.gguf', text);
    expect((await refusal(pull('hf:some/text/notes.gguf'))).code).toBe('model_not_gguf');
    expect(library.list()).toEqual([]);
  });
});

describe('createModelHandlers', () => {
  const handlers = (environment: NodeJS.ProcessEnv = {}) =>
    createModelHandlers({
      dataDirectory: directory,
      logger: collectingLogger().logger,
      environment: { HF_ENDPOINT: `${hub.url}/`, ...environment },
    });
  const context = (signal = new AbortController().signal) => ({ signal, progress: () => undefined });

  it('answers the controller: pull, list, resolve, import, remove', async () => {
    const models = await handlers({ HF_TOKEN: hubToken });
    const pulled = await models['model.pull']({ source: SOURCE }, context());
    expect(hub.requests[0]?.headers.authorization).toBe(`Bearer ${hubToken}`);
    expect((await models['model.list']({}, context())).models).toEqual([pulled]);
    expect((await models['model.resolve']({ model: 'story' }, context())).path).toBe(pulled.path);
    const copy = await models['model.import']({ path: story, name: 'copy' }, context());
    expect(copy.name).toBe('copy');
    await models['model.remove']({ name: 'story' }, context());
    expect((await models['model.list']({}, context())).models).toEqual([copy]);
  });

  it('keeps a deadline for a pull', async () => {
    hub.misbehave({ kind: 'slow', pieceBytes: 4096, pauseMs: 20 });
    const models = await handlers();
    const error = await refusal(models['model.pull']({ source: SOURCE, deadlineMs: 300 }, context()));
    expect(error.code).toBe('timeout');
  });

  it('does not ask a hub whose address would show the token', async () => {
    const { logger, lines } = collectingLogger();
    await createModelHandlers({
      dataDirectory: directory,
      logger,
      environment: { HF_ENDPOINT: 'http://mirror.example' },
    });
    expect(lines.join('\n')).toContain('HF_ENDPOINT is not used');
  });
});
