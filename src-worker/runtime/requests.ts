import { CoveyError } from '#shared/errors.ts';
import type { ControllerFrame, WorkerFrame } from '#shared/protocol/session.ts';
import {
  workerRequests,
  type WorkerMethod,
  type WorkerParams,
  type WorkerResult,
} from '#shared/protocol/requests.ts';
import { throttled } from './throttle.ts';

type Request = Extract<ControllerFrame, { type: 'request' }>;

export interface RequestContext {
  /** Aborts when the controller cancels, the session ends or the deadline has passed; the reason is a CoveyError. */
  readonly signal: AbortSignal;
  /** Sent on at most four times a second. */
  readonly progress: (value: unknown) => void;
}

export type RequestHandlers = {
  readonly [M in WorkerMethod]: (
    params: WorkerParams<M>,
    context: RequestContext,
  ) => Promise<WorkerResult<M>>;
};

export interface RequestServer {
  handle(request: Request): void;
  cancel(id: number): void;
  /** The session they belong to is gone: nobody waits for an answer. */
  abortAll(): void;
}

const maxRunning = 32;
const progressEveryMs = 250;

/**
 * Answers the requests of one session. Parameters are checked by their schema, each request has its deadline, and
 * each is answered exactly once, whatever its handler does; after `abortAll` none is, since another session may
 * use the same numbers.
 */
export function createRequestServer(
  handlers: RequestHandlers,
  send: (frame: WorkerFrame) => void,
): RequestServer {
  const running = new Map<number, AbortController>();
  let over = false;

  const answer = async (request: Request, controller: AbortController): Promise<unknown> => {
    const { method } = request;
    if (!isMethod(method))
      throw new CoveyError('invalid_request', `this worker does not know the request "${method}"`, {
        field: 'method',
      });
    const params = workerRequests[method].params.safeParse(request.params);
    if (!params.success) {
      const issue = params.error.issues[0];
      const field = issue?.path.join('.') || 'params';
      throw new CoveyError('invalid_request', `${method}: ${field}: ${issue?.message ?? 'invalid'}`, {
        field,
      });
    }
    let latest: unknown;
    const progress = throttled(
      () => void (over || send({ type: 'progress', id: request.id, value: latest })),
      progressEveryMs,
    );
    const aborted = new Promise<never>((_resolve, reject) => {
      controller.signal.addEventListener('abort', () => reject(controller.signal.reason as CoveyError), {
        once: true,
      });
    });
    try {
      const handler = handlers[method] as (params: unknown, context: RequestContext) => Promise<unknown>;
      const work = handler(params.data, {
        signal: controller.signal,
        progress: (value) => {
          latest = value;
          progress.call();
        },
      });
      return await Promise.race([work, aborted]);
    } finally {
      progress.cancel();
    }
  };

  return {
    handle(request) {
      const { id, method, deadlineMs } = request;
      const respond = (result: Extract<WorkerFrame, { type: 'response' }>['result']): void => {
        if (!over) send({ type: 'response', id, result });
      };
      if (running.has(id)) return;
      if (running.size >= maxRunning) {
        const error = new CoveyError(
          'too_many_requests',
          `this worker already handles ${maxRunning} requests`,
        );
        respond({ ok: false, error: error.toBody() });
        return;
      }
      const controller = new AbortController();
      running.set(id, controller);
      const timer = setTimeout(
        () => {
          controller.abort(
            new CoveyError('timeout', `${method} took longer than ${Math.round(deadlineMs / 1000)} s`),
          );
        },
        Math.min(deadlineMs, 2 ** 31 - 1),
      );
      void answer(request, controller)
        .then(
          (value) => respond({ ok: true, value }),
          (error: unknown) => respond({ ok: false, error: CoveyError.from(error).toBody() }),
        )
        .finally(() => {
          clearTimeout(timer);
          running.delete(id);
        });
    },
    cancel(id) {
      running.get(id)?.abort(new CoveyError('cancelled', 'the controller cancelled the request'));
    },
    abortAll() {
      over = true;
      for (const controller of running.values()) {
        controller.abort(new CoveyError('cancelled', 'the session with the controller ended'));
      }
    },
  };
}

function isMethod(method: string): method is WorkerMethod {
  return Object.hasOwn(workerRequests, method);
}
