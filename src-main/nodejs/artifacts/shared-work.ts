import { CoveyError } from '#shared/errors.ts';

/** Work that several wait for and that is done once; it is given up when nobody waits any more. */
export interface SharedWork<T> {
  /** Joins what runs under this key, or starts it. */
  run(key: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T>;
}

interface Entry<T> {
  readonly stop: AbortController;
  readonly result: Promise<T>;
  waiting: number;
}

export function createSharedWork<T>(): SharedWork<T> {
  const running = new Map<string, Entry<T>>();
  return {
    run: (key, signal, work) =>
      new Promise((resolve, reject) => {
        if (signal.aborted) return reject(CoveyError.from(signal.reason));
        let entry = running.get(key);
        if (!entry) {
          const stop = new AbortController();
          const created: Entry<T> = { stop, waiting: 0, result: work(stop.signal) };
          const over = (): void => {
            if (running.get(key) === created) running.delete(key);
          };
          created.result.then(over, over);
          running.set(key, created);
          entry = created;
        }
        const joined = entry;
        joined.waiting += 1;
        const leave = (): void => {
          signal.removeEventListener('abort', onAbort);
          joined.waiting -= 1;
        };
        const onAbort = (): void => {
          leave();
          if (joined.waiting === 0) {
            running.delete(key);
            joined.stop.abort(signal.reason);
          }
          reject(CoveyError.from(signal.reason));
        };
        signal.addEventListener('abort', onAbort, { once: true });
        joined.result.then(
          (value) => {
            leave();
            resolve(value);
          },
          (error: unknown) => {
            leave();
            reject(error instanceof Error ? error : new Error(String(error)));
          },
        );
        return undefined;
      }),
  };
}
