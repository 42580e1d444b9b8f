import { join } from 'node:path';
import { CoveyError } from '#shared/errors.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { LibraryModel } from '#shared/protocol/requests.ts';
import type { LentDisk } from '../lend/lent-disk.ts';
import type { RequestHandlers } from '../runtime/requests.ts';
import { downloadModel } from './download.ts';
import { isHubAddress, type HubSettings } from './hub/request.ts';
import { openModelLibrary } from './library.ts';

/** The requests about models. */
export type ModelHandlers = Pick<RequestHandlers, Extract<keyof RequestHandlers, `model.${string}`>>;

/** A list must fit a session frame: beyond this it goes without the models' details. */
const LIST_BYTES = 512 * 1024;
/** A download nobody set a limit for. */
const MAX_DOWNLOAD_MS = 7 * 24 * 60 * 60_000;

/**
 * Answers the controller's requests about models on this node. The library is `models` in the data directory. The
 * hub, its token and another hub's address are taken from HF_TOKEN and HF_ENDPOINT, as other programs do.
 */
export async function createModelHandlers(options: {
  readonly dataDirectory: string;
  readonly logger: Logger;
  /** What the owner lends of it. */
  readonly disk?: LentDisk;
  readonly environment?: NodeJS.ProcessEnv;
}): Promise<ModelHandlers> {
  const { dataDirectory, logger, disk, environment = process.env } = options;
  const clock = { now: Date.now };
  const library = await openModelLibrary(join(dataDirectory, 'models'), {
    clock,
    logger,
    ...(disk
      ? {
          quotaBytes: () => disk.shareOf('models'),
          makeRoom: (bytes: number) => disk.askOthers('models', bytes),
        }
      : {}),
  });
  // Models are dear: none is given up but by a person.
  disk?.use('models', { bytes: () => library.takenBytes, giveUp: async () => undefined });
  const hub = hubFrom(environment, logger);
  return {
    'model.resolve': async ({ model }, { signal }) => await library.resolve(model, { signal }),
    'model.list': async () => ({ models: bounded(library.list()) }),
    'model.import': async ({ path, name }, { signal, progress }) =>
      await library.importFile(path, { name, signal, onProgress: progress }),
    'model.pull': async ({ source, deadlineMs }, { signal, progress }) => {
      const limit = new AbortController();
      const limitMs = deadlineMs ?? MAX_DOWNLOAD_MS;
      const timer = setTimeout(() => {
        const message = `${source} could not be downloaded within ${Math.round(limitMs / 1000)} s`;
        limit.abort(new CoveyError('timeout', message));
      }, limitMs);
      try {
        return await downloadModel(source, library, {
          hub,
          signal: AbortSignal.any([signal, limit.signal]),
          onProgress: progress,
          now: clock.now(),
        });
      } finally {
        clearTimeout(timer);
      }
    },
    'model.remove': async ({ name }) => {
      await library.remove(name);
      return {};
    },
  };
}

function bounded(models: readonly LibraryModel[]): LibraryModel[] {
  let left = LIST_BYTES;
  return models.map((model) => {
    left -= JSON.stringify(model).length;
    return left >= 0 ? model : { ...model, info: null };
  });
}

function hubFrom(environment: NodeJS.ProcessEnv, logger: Logger): Partial<HubSettings> {
  const endpoint = environment['HF_ENDPOINT']?.replace(/\/+$/, '');
  const token = environment['HF_TOKEN']?.trim();
  const usable = endpoint !== undefined && isHubAddress(endpoint);
  if (endpoint !== undefined && !usable) logger.warn('HF_ENDPOINT is not used: it must be an https address');
  return {
    ...(usable ? { baseUrl: endpoint } : {}),
    ...(token === undefined || token === '' ? {} : { token }),
  };
}
