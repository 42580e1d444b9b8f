import { CoveyError, type ErrorBody } from '#shared/errors.ts';
import {
  workerRequests,
  type WorkerMethod,
  type WorkerParams,
  type WorkerResult,
} from '#shared/protocol/requests.ts';
import type { ControllerFrame, WorkerFrame } from '#shared/protocol/session.ts';

interface Pending {
  readonly method: WorkerMethod;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: CoveyError) => void;
  readonly onProgress: ((value: unknown) => void) | undefined;
  readonly stop: () => void;
}

export interface RequestOptions {
  readonly deadlineMs: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (value: unknown) => void;
}

/** Requests under way on one session. Every one ends: answered, refused, cancelled, late, or with the session. */
export interface RequestTracker {
  request<M extends WorkerMethod>(
    method: M,
    params: WorkerParams<M>,
    options: RequestOptions,
  ): Promise<WorkerResult<M>>;
  answered(frame: Extract<WorkerFrame, { type: 'response' }>): void;
  progressed(frame: Extract<WorkerFrame, { type: 'progress' }>): void;
  closeAll(error: ErrorBody): void;
}

const maxPending = 256;

export function createRequestTracker(
  nodeName: string,
  send: (frame: ControllerFrame) => void,
): RequestTracker {
  const pending = new Map<number, Pending>();
  let lastId = 0;

  const finish = (id: number): Pending | undefined => {
    const entry = pending.get(id);
    pending.delete(id);
    entry?.stop();
    return entry;
  };

  return {
    request(method, params, options) {
      if (pending.size >= maxPending) {
        return Promise.reject(new CoveyError('too_many_requests', `${nodeName} has too many requests open.`));
      }
      return new Promise((resolve, reject) => {
        const id = (lastId += 1);
        const giveUp = (error: CoveyError): void => {
          if (!finish(id)) return;
          send({ type: 'cancel', id });
          reject(error);
        };
        const timer = setTimeout(
          () =>
            giveUp(
              new CoveyError(
                'timeout',
                `${nodeName} did not answer "${method}" within ${options.deadlineMs} ms.`,
              ),
            ),
          options.deadlineMs,
        );
        const abort = (): void => giveUp(new CoveyError('cancelled', `"${method}" was cancelled.`));
        options.signal?.addEventListener('abort', abort, { once: true });
        pending.set(id, {
          method,
          resolve: resolve as (value: unknown) => void,
          reject,
          onProgress: options.onProgress,
          stop: () => {
            clearTimeout(timer);
            options.signal?.removeEventListener('abort', abort);
          },
        });
        if (options.signal?.aborted) abort();
        else send({ type: 'request', id, method, params, deadlineMs: options.deadlineMs });
      });
    },
    answered({ id, result }) {
      const entry = finish(id);
      if (!entry) return;
      if (!result.ok) {
        entry.reject(CoveyError.fromBody(result.error));
        return;
      }
      const parsed = workerRequests[entry.method].result.safeParse(result.value);
      if (parsed.success) entry.resolve(parsed.data);
      else {
        entry.reject(
          new CoveyError(
            'internal_error',
            `${nodeName} answered "${entry.method}" with something else.`,
            {},
            parsed.error,
          ),
        );
      }
    },
    progressed({ id, value }) {
      const entry = pending.get(id);
      if (!entry?.onProgress) return;
      const parsed = workerRequests[entry.method].progress.safeParse(value);
      if (parsed.success) entry.onProgress(parsed.data);
    },
    closeAll(error) {
      for (const id of [...pending.keys()]) finish(id)?.reject(CoveyError.fromBody(error));
    },
  };
}
