import type { NodeId } from '#shared/lib/ids.ts';
import type { TransferView } from '#shared/api/schema.ts';
import { CoveyError } from '#shared/errors.ts';
import type { LibraryModel, TransferProgress } from '#shared/protocol/requests.ts';
import type { SessionRegistry } from '../sessions/session-registry.ts';

/** Imports and downloads that workers do; the controller only watches. Kept in memory: the files are the truth. */
export interface Transfers {
  start(kind: TransferView['kind'], nodeId: NodeId, source: string, name?: string): TransferView;
  /** Newest first. An entry is another object when it has changed. */
  list(): TransferView[];
  get(id: string): TransferView;
  cancel(id: string): TransferView;
}

interface Entry {
  view: TransferView;
  readonly abort: AbortController;
}

const keptTransfers = 200;
const maxRunning = 16;
const deadlineMs = 24 * 60 * 60_000;

/** @param onFailed hears of each that failed; not of those that a person cancelled */
export function createTransfers(
  sessions: Pick<SessionRegistry, 'request'>,
  onFailed: (transfer: TransferView, error: CoveyError) => void,
): Transfers {
  const entries = new Map<string, Entry>();
  let last = 0;

  const find = (id: string): Entry => {
    const entry = entries.get(id);
    if (!entry) throw new CoveyError('route_not_found', `There is no transfer "${id}".`, { field: 'id' });
    return entry;
  };
  const isRunning = (entry: Entry): boolean => entry.view.status === 'running';

  return {
    start(kind, nodeId, source, name) {
      const running = [...entries.values()].filter(isRunning);
      const same = running.find((entry) => entry.view.nodeId === nodeId && entry.view.source === source);
      if (same) return same.view;
      if (running.length >= maxRunning)
        throw new CoveyError('too_many_requests', `${maxRunning} transfers run already.`);
      const id = `t-${(last += 1)}`;
      const entry: Entry = {
        abort: new AbortController(),
        view: {
          id,
          kind,
          nodeId,
          source,
          status: 'running',
          doneBytes: 0,
          totalBytes: null,
          bytesPerS: null,
          model: null,
          error: null,
        },
      };
      entries.set(id, entry);
      const options = {
        deadlineMs,
        signal: entry.abort.signal,
        onProgress: (value: unknown) => {
          if (isRunning(entry)) entry.view = { ...entry.view, ...(value as TransferProgress) };
        },
      };
      const done: Promise<LibraryModel> =
        kind === 'import'
          ? sessions.request(
              nodeId,
              'model.import',
              { path: source, ...(name === undefined ? {} : { name }) },
              options,
            )
          : sessions.request(nodeId, 'model.pull', { source, deadlineMs }, options);
      done.then(
        (model) => {
          entry.view = {
            ...entry.view,
            status: 'done',
            model: model.name,
            doneBytes: model.fileBytes,
            totalBytes: model.fileBytes,
          };
        },
        (thrown: unknown) => {
          const error = CoveyError.from(thrown);
          if (error.code !== 'cancelled' && isRunning(entry)) onFailed(entry.view, error);
          entry.view = {
            ...entry.view,
            status: error.code === 'cancelled' ? 'cancelled' : 'failed',
            error: error.toBody(),
          };
        },
      );
      for (const [oldId, old] of entries) {
        if (entries.size <= keptTransfers) break;
        if (!isRunning(old)) entries.delete(oldId);
      }
      return entry.view;
    },
    list: () => [...entries.values()].map((entry) => entry.view).reverse(),
    get: (id) => find(id).view,
    cancel(id) {
      const entry = find(id);
      if (isRunning(entry)) {
        entry.abort.abort();
        entry.view = { ...entry.view, status: 'cancelled' };
      }
      return entry.view;
    },
  };
}
