import type { ApiAnswer, CallArguments, JsonRoute } from '#shared/api/calls.ts';
import { fillPath } from '#shared/api/calls.ts';
import { apiRoutes, errorResponseSchema, type ApiEvent, type LogLine } from '#shared/api/schema.ts';
import { CoveyError, isErrorCode } from '#shared/errors.ts';
import { readEvents } from './event-reader.ts';

/**
 * The only place that talks to the server. Answers are checked against the contract; every failure is a
 * CoveyError: the server's own refusal, `controller_unreachable` when nothing answers, `timeout`, `cancelled`.
 */
export interface ApiClient {
  call<R extends JsonRoute>(route: R, ...options: CallArguments<R>): Promise<ApiAnswer<R>>;
  /**
   * Events that happen from now on, and after `afterId` those that were missed, with live figures about once a
   * second. Ends when the connection does, also when it has been silent for too long. `onOpen`: it stands.
   */
  events(options: {
    readonly afterId: number | null;
    readonly signal: AbortSignal;
    readonly onOpen: () => void;
  }): AsyncGenerator<ApiEvent>;
  /**
   * The machines' log lines: those that are kept first, then what is added, while they come. Ends as `events` does.
   */
  logLines(options: {
    readonly signal: AbortSignal;
    readonly onOpen: () => void;
  }): AsyncGenerator<readonly LogLine[]>;
  /** Bytes in, or out, of a path of `/api`: chunks and contents of artifacts. */
  bytes(method: 'GET' | 'PUT', path: `/api/${string}`, signal: AbortSignal, body?: Blob): Promise<Response>;
  /** The answer to a POST to `/v1`, as text while it arrives. */
  streamText(
    path: `/v1/${string}`,
    body: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): AsyncGenerator<string>;
}

export interface ApiClientOptions {
  /** The login; null: there is none. */
  readonly token: () => string | null;
  /** The server says that the login is over. `token`: the one it was asked with. */
  readonly onLoggedOut: (token: string) => void;
}

const defaultTimeoutMs = 30_000;
/** To the first byte of a stream. */
const openMs = 15_000;
/** The server says something every 15 s at least. */
const silenceMs = 20_000;

export function createApiClient({ token, onLoggedOut }: ApiClientOptions): ApiClient {
  async function send(
    method: string,
    target: string,
    body: unknown,
    signal: AbortSignal,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Response> {
    const login = token();
    let response: Response;
    try {
      response = await fetch(target, {
        method,
        headers: {
          ...(login === null ? {} : { authorization: `Bearer ${login}` }),
          ...(body === undefined || body instanceof Blob ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: body instanceof Blob ? body : JSON.stringify(body) }),
        credentials: 'omit',
        cache: 'no-store',
        redirect: 'error',
        signal,
      });
    } catch (error) {
      throw connectionError(error, signal);
    }
    if (response.ok) return response;
    const error = await refusal(response, signal);
    if (login !== null && error.code === 'token_invalid') onLoggedOut(login);
    throw error;
  }

  async function* stream(
    query: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
    onOpen: () => void,
  ): AsyncGenerator<ApiEvent> {
    const watch = silenceWatch(signal, openMs);
    try {
      const response = await send('GET', `${apiRoutes.events.path}?${query}`, undefined, watch.signal, {
        accept: 'text/event-stream',
        ...headers,
      });
      watch.extend(silenceMs);
      onOpen();
      yield* readEvents(textOf(response, watch.signal, () => watch.extend(silenceMs)));
    } finally {
      watch.end();
    }
  }

  return {
    async call(route, ...[options]) {
      const { method, path, response: schema } = apiRoutes[route];
      const query = options?.query ? `?${new URLSearchParams(options.query).toString()}` : '';
      const timeout = AbortSignal.timeout(options?.timeoutMs ?? defaultTimeoutMs);
      const signal = options?.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
      const target = fillPath(path, options?.params ?? {}) + query;
      const key = options?.idempotencyKey;
      const response = await send(method, target, options?.body, signal, {
        ...(key === undefined ? {} : { 'idempotency-key': key }),
      });
      const parsed = schema.safeParse(await json(response, signal));
      if (parsed.success) return parsed.data as ApiAnswer<typeof route>;
      const issue = parsed.error.issues[0];
      const where = issue?.path.join('.') ?? '';
      throw new CoveyError(
        'internal_error',
        `The answer to ${method} ${path} is not what this page expects (${where}: ${issue?.message}). ` +
          'Covey may have been updated: reload the page.',
      );
    },

    events: ({ afterId, signal, onOpen }) =>
      stream('live=1', afterId === null ? {} : { 'last-event-id': String(afterId) }, signal, onOpen),

    async *logLines({ signal, onOpen }) {
      for await (const { lines } of stream('logs=1', {}, signal, onOpen))
        if (lines !== undefined) yield lines;
    },

    bytes: (method, path, signal, body) => send(method, path, body, signal),

    async *streamText(path, body, signal) {
      const response = await send('POST', path, body, signal);
      yield* textOf(response, signal, () => undefined);
    },
  };
}

/** A signal that aborts with a timeout when nobody extends it, or as `outer` does. */
function silenceWatch(outer: AbortSignal, firstMs: number) {
  const controller = new AbortController();
  const give = (): void => controller.abort(new DOMException('silent for too long', 'TimeoutError'));
  let timer = setTimeout(give, firstMs);
  return {
    signal: AbortSignal.any([outer, controller.signal]),
    extend(ms: number) {
      clearTimeout(timer);
      timer = setTimeout(give, ms);
    },
    /** Also lets go of the connection. */
    end() {
      clearTimeout(timer);
      controller.abort();
    },
  };
}

async function* textOf(
  response: Response,
  signal: AbortSignal,
  onBytes: () => void,
): AsyncGenerator<string, void> {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onBytes();
      yield value;
    }
  } catch (error) {
    throw connectionError(error, signal);
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

async function json(response: Response, signal: AbortSignal): Promise<unknown> {
  try {
    return (await response.json()) as unknown;
  } catch (error) {
    if (error instanceof SyntaxError) {
      throw new CoveyError('internal_error', `The server answered ${response.status} with what is not JSON.`);
    }
    throw connectionError(error, signal);
  }
}

/** `/api` refuses in our shape, `/v1` in OpenAI's. */
async function refusal(response: Response, signal: AbortSignal): Promise<CoveyError> {
  const value = await json(response, signal);
  const ours = errorResponseSchema.safeParse(value);
  if (ours.success) return CoveyError.fromBody(ours.data.error);
  const other = (value as { error?: { message?: unknown; code?: unknown } } | null)?.error;
  const code = typeof other?.code === 'string' && isErrorCode(other.code) ? other.code : 'internal_error';
  const message =
    typeof other?.message === 'string' ? other.message : `The server answered ${response.status}.`;
  return new CoveyError(code, message);
}

function connectionError(error: unknown, signal: AbortSignal): CoveyError {
  if (error instanceof CoveyError) return error;
  const timedOut = signal.aborted && (signal.reason as Error | undefined)?.name === 'TimeoutError';
  if (timedOut) return new CoveyError('timeout', 'Covey did not answer in time.', {}, error);
  if (signal.aborted) return new CoveyError('cancelled', 'Cancelled.', {}, error);
  return new CoveyError(
    'controller_unreachable',
    'Covey does not answer. Is it running on this machine?',
    {},
    error,
  );
}
