import {
  appendFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import { libraryModelSchema, resolvedModelSchema, type TransferProgress } from '#shared/protocol/requests.ts';
import { collectingLogger } from '../runtime/fixtures.ts';
import { generateModel } from './generate.ts';
import { openModelLibrary, type ModelLibrary } from './library.ts';
import { checkModelName, sanitiseModelName } from './names.ts';
import { generatePredictableModel } from './predictable.ts';

let made: string;
let story: string;
let random: string;
let directory: string;
let library: ModelLibrary;
let now = 1000;
const clock = { now: () => now };

beforeAll(async () => {
  made = await mkdtemp(join(tmpdir(), 'covey-library-made-'));
  story = join(made, 'story.gguf');
  random = join(made, 'random.gguf');
  await generatePredictableModel({ path: story });
  await generateModel({
    path: random,
    layers: 1,
    embeddingLength: 64,
    feedForwardLength: 128,
    headCount: 2,
    headCountKv: 1,
    contextLength: 128,
    seed: 3,
    weightType: 'F32',
  });
});
afterAll(async () => {
  await rm(made, { recursive: true, force: true });
});
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-library-'));
  library = await reopen();
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

async function reopen(): Promise<ModelLibrary> {
  return await openModelLibrary(join(directory, 'models'), { clock, logger: collectingLogger().logger });
}

async function refusal(work: Promise<unknown>): Promise<CoveyError> {
  const thrown = await work.then(
    () => null,
    (error: unknown) => error,
  );
  if (!(thrown instanceof CoveyError)) throw new Error(`expected a refusal, got ${String(thrown)}`);
  return thrown;
}

describe('importing', () => {
  it('copies a model, lists it and finds it by name, file name and path', async () => {
    const seen: TransferProgress[] = [];
    now = 4711;
    const model = await library.importFile(story, { onProgress: (progress) => seen.push(progress) });
    expect(libraryModelSchema.parse(model)).toEqual(model);
    expect(model).toMatchObject({ name: 'story', addedAt: 4711, source: story });
    expect(model.path).toBe(join(directory, 'models', 'story', 'story.gguf'));
    expect((await readFile(model.path)).equals(await readFile(story))).toBe(true);
    expect(seen.at(-1)).toMatchObject({ doneBytes: model.fileBytes, totalBytes: model.fileBytes });
    expect(library.list()).toEqual([model]);
    for (const reference of ['story', 'story.gguf', model.path]) {
      const resolved = await library.resolve(reference);
      expect(resolvedModelSchema.parse(resolved)).toEqual(resolved);
      expect(resolved.path).toBe(model.path);
      expect(resolved.info.layerCount).toBe(8);
    }
    expect((await library.resolve(story)).path).toBe(story);
  });

  it('is there already when it is the same, and taken when it is another', async () => {
    const first = await library.importFile(story, { name: 'mine' });
    expect(await library.importFile(story, { name: 'mine' })).toEqual(first);
    expect((await refusal(library.importFile(random, { name: 'mine' }))).code).toBe('model_name_taken');
    expect((await refusal(library.importFile(random, { name: 'MINE' }))).code).toBe('model_name_taken');
    expect(library.list()).toHaveLength(1);
  });

  it('keeps a name from a second import that runs at the same time', async () => {
    const both = await Promise.allSettled([
      library.importFile(story, { name: 'one' }),
      library.importFile(random, { name: 'one' }),
    ]);
    expect(both.map((result) => result.status).sort()).toEqual(['fulfilled', 'rejected']);
    await Promise.all([
      library.importFile(story, { name: 'two' }),
      library.importFile(random, { name: 'three' }),
    ]);
    expect((await reopen()).list().map((model) => model.name)).toEqual(['one', 'three', 'two']);
  });

  it('takes no name that leaves the library', async () => {
    for (const name of ['../evil', '/etc/x', '.hidden', '', 'a/b', 'a\\b', 'con', 'x'.repeat(129), 'end.']) {
      const error = await refusal(library.importFile(story, { name }));
      expect(error).toMatchObject({ code: 'invalid_request', details: { field: 'name' } });
    }
    expect(await readdir(directory)).toEqual(['models']);
  });

  it('names what is wrong with a file, and leaves nothing behind', async () => {
    const text = join(made, 'text.gguf');
    await writeFile(text, 'hello');
    expect((await refusal(library.importFile(text))).code).toBe('model_not_gguf');
    expect((await refusal(library.importFile(join(made, 'none.gguf')))).code).toBe('model_file_not_found');
    const cancelled = new CoveyError('cancelled', 'enough');
    const stop = new AbortController();
    const stopped = library.importFile(story, {
      signal: stop.signal,
      onProgress: () => stop.abort(cancelled),
    });
    expect(await refusal(stopped)).toBe(cancelled);
    expect(library.list()).toEqual([]);
    expect(await readdir(join(directory, 'models', '.incoming'))).toEqual([]);
  });

  it('follows a link to the file it copies', async () => {
    const link = join(made, 'linked.gguf');
    await symlink(story, link);
    const model = await library.importFile(link);
    expect((await stat(model.path)).isFile()).toBe(true);
    expect(model.name).toBe('linked');
  });
});

describe('a quota', () => {
  it('refuses what the owner does not lend the room for, whatever else is coming in, and leaves nothing', async () => {
    const model = await library.importFile(story);
    let quotaBytes: number | null = model.fileBytes * 2.5;
    const limited = await openModelLibrary(join(directory, 'models'), {
      clock,
      logger: collectingLogger().logger,
      quotaBytes: () => quotaBytes,
    });
    const [second, third] = await Promise.allSettled([
      limited.importFile(story, { name: 'second' }),
      limited.importFile(story, { name: 'third' }),
    ]);
    expect([second.status, third.status].sort()).toEqual(['fulfilled', 'rejected']);
    const error = await refusal(limited.importFile(story, { name: 'fourth' }));
    expect(error.code).toBe('disk_full');
    expect(error.message).toMatch(/lends \d+ MiB of its disk for models: \d+ MiB are taken/);
    expect(await readdir(join(directory, 'models', '.incoming')).catch(() => [])).toEqual([]);
    quotaBytes = null;
    await limited.importFile(story, { name: 'fourth' });
  });
});

describe('room that others can give up', () => {
  it('is asked for before a model is refused', async () => {
    const { fileBytes } = await library.importFile(story);
    let quotaBytes = fileBytes;
    const asked: number[] = [];
    const limited = await openModelLibrary(join(directory, 'models'), {
      clock,
      logger: collectingLogger().logger,
      quotaBytes: () => quotaBytes,
      async makeRoom(bytes) {
        asked.push(bytes);
        quotaBytes += bytes;
      },
    });
    await limited.importFile(story, { name: 'second' });
    expect(asked).toEqual([fileBytes]);
    expect(limited.takenBytes).toBe(2 * fileBytes);
  });
});

describe('resolving', () => {
  it('says which models there are', async () => {
    await library.importFile(story);
    const error = await refusal(library.resolve('nothing'));
    expect(error).toMatchObject({ code: 'model_not_found', details: { field: 'model' } });
    expect(error.message).toContain('"story"');
    expect((await refusal(library.resolve('../story'))).code).toBe('model_not_found');
    expect((await refusal(library.resolve('folder/story.gguf'))).message).toContain('absolute path');
    expect((await refusal(library.resolve(join(directory, 'no.gguf')))).code).toBe('model_file_not_found');
  });

  it('sees a file that was damaged since', async () => {
    const model = await library.importFile(story);
    await truncate(model.path, model.fileBytes - 4096);
    expect((await refusal(library.resolve('story'))).code).toBe('model_truncated');
  });
});

describe('removing', () => {
  it('deletes the files and nothing else', async () => {
    await library.importFile(story);
    await library.importFile(random);
    await library.remove('story');
    expect(library.list().map((model) => model.name)).toEqual(['random']);
    expect(await readdir(join(directory, 'models'))).toEqual(['.incoming', 'index.json', 'random']);
    expect((await refusal(library.remove('story'))).code).toBe('model_not_found');
    expect((await refusal(library.remove('../models'))).code).toBe('model_not_found');
    await library.importFile(story);
    expect((await reopen()).list().map((model) => model.name)).toEqual(['random', 'story']);
  });
});

describe('the index', () => {
  it('outlives a restart', async () => {
    const model = await library.importFile(story);
    expect((await reopen()).list()).toEqual([model]);
  });

  it.each(['', '{', '{"version":2,"models":[]}', '[]', '{"version":1,"models":[{"name":"../x"}]}'])(
    'is rebuilt from the files when it reads %j',
    async (damaged) => {
      await library.importFile(story);
      await writeFile(join(directory, 'models', 'index.json'), damaged);
      now = 9999;
      const rebuilt = await reopen();
      expect(rebuilt.list()).toMatchObject([{ name: 'story', addedAt: 9999, source: '' }]);
      expect((await rebuilt.resolve('story')).info.name).toBe('predictable story');
      expect((await reopen()).list()).toEqual(rebuilt.list());
    },
  );

  it('drops what is gone, takes in what was put there, skips what is no model', async () => {
    await library.importFile(story);
    await library.importFile(random);
    const models = join(directory, 'models');
    await rm(join(models, 'story'), { recursive: true });
    await mkdir(join(models, 'added'));
    await writeFile(join(models, 'added', 'x.gguf'), await readFile(story));
    await mkdir(join(models, 'broken'));
    await appendFile(join(models, 'broken', 'x.gguf'), 'text');
    await mkdir(join(models, 'empty'));
    expect((await reopen()).list().map((model) => model.name)).toEqual(['added', 'random']);
  });

  it('clears away what an import that was killed left', async () => {
    await mkdir(join(directory, 'models', '.incoming', 'x'), { recursive: true });
    await reopen();
    expect(await readdir(join(directory, 'models'))).not.toContain('.incoming');
  });
});

describe('names', () => {
  it('are made from anything, and always allowed', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => {
        const name = sanitiseModelName(text);
        expect(checkModelName(name).ok).toBe(true);
        expect(sanitiseModelName(name)).toBe(name);
      }),
    );
    expect(sanitiseModelName('Llama 3.2 (1B) é')).toBe('Llama-3.2-1B-e');
    expect(sanitiseModelName('../../etc/passwd')).toBe('etc-passwd');
    expect(sanitiseModelName('NUL')).toBe('model-NUL');
    expect(sanitiseModelName('...')).toBe('model');
  });
});
