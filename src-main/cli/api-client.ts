import { request as httpRequest, Agent, type IncomingMessage } from 'node:http';
import type { Access } from '#shared/api/access.ts';
import { fillPath, type ApiAnswer, type CallArguments, type JsonRoute } from '#shared/api/calls.ts';
import { apiEventSchema, apiRoutes, errorResponseSchema, type ApiEvent } from '#shared/api/schema.ts';
import { CoveyError } from '#shared/errors.ts';

export type { ApiAnswer, CallOptions, JsonRoute } from '#shared/api/calls.ts';

/** `/api` of one controller. Every answer is checked against the contract; refusals come back as CoveyError. */
export interface ApiClient {
  readonly baseUrl: string;
  /**
   * Rejects with the controller's own refusal, with `controller_unreachable` when nothing answers there, and
   * with `internal_error` when what answers does not speak the contract.
   */
  call<R extends JsonRoute>(route: R, ...options: CallArguments<R>): Promise<ApiAnswer<R>>;
  /** Sends bytes and reads nothing but whether they were taken. Rejects as `call`. */
  putBytes(path: string, body: Uint8Array, signal: AbortSignal): Promise<void>;
  /**
   * The answer's bytes, from `fromByte` on where the other side can. Rejects as `call`; the stream ends with `timeout`
   * when nothing comes for two minutes.
   */
  getBytes(path: string, fromByte: number, signal: AbortSignal): Promise<IncomingMessage>;
  /**
   * Events after `afterId` that are still kept (null: none of them), then those that happen, until the signal
   * or the connection ends.
   */
  events(options: { afterId: number | null; signal: AbortSignal }): AsyncGenerator<ApiEvent>;
  close(): void;
}

const maxAnswerBytes = 64 * 1024 * 1024;
const defaultTimeoutMs = 30_000;
/** For one chunk of 4 MiB, over a slow line too. */
const bytesMs = 10 * 60_000;
/** Bytes that are waited for: how long none may come. */
const silenceMs = 120_000;

export interface ApiClientOptions {
  /** Sent as `Authorization: Bearer`; a function chooses by what the route asks for, null: none. */
  readonly token?: string | ((access: Access) => string | null);
}

/** The client of an API that is not there: every call is refused with `error`, and nothing is dialled. */
export function absentApi(error: CoveyError): ApiClient {
  return {
    baseUrl: '',
    call: () => Promise.reject(error),
    putBytes: () => Promise.reject(error),
    getBytes: () => Promise.reject(error),
    async *events() {
      throw error;
    },
    close: () => undefined,
  };
}

/** @param baseUrl `http://HOST:PORT` */
export function createApiClient(baseUrl: string, options: ApiClientOptions = {}): ApiClient {
  const { token } = options;
  const authorization = (access: Access): Record<string, string> => {
    if (access === 'public') return {};
    const value = typeof token === 'function' ? token(access) : (token ?? null);
    if (value !== null) return { authorization: `Bearer ${value}` };
    // What is asked may itself be a secret: it goes to nobody whom we cannot show that we know them.
    throw new CoveyError(
      'token_missing',
      `There is no token for ${baseUrl} here, so nothing was sent there.`,
    );
  };
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  const open = (
    method: string,
    path: string,
    headers: Record<string, string>,
    body: string | Uint8Array | undefined,
    signal: AbortSignal,
  ): Promise<IncomingMessage> =>
    new Promise((resolve, reject) => {
      const request = httpRequest(new URL(path, baseUrl), { method, headers, agent, signal }, resolve);
      request.on('error', (error) => reject(connectionError(baseUrl, error, signal)));
      request.end(body);
    });

  return {
    baseUrl,
    async call(route, ...[options]) {
      const { method, path, access, response: schema } = apiRoutes[route];
      const query = options?.query ? `?${new URLSearchParams(options.query).toString()}` : '';
      const target = fillPath(path, options?.params ?? {}) + query;
      const body = options?.body === undefined ? undefined : JSON.stringify(options.body);
      const timeoutMs = options?.timeoutMs ?? defaultTimeoutMs;
      const timeout = AbortSignal.timeout(timeoutMs);
      const signal = options?.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
      const headers = {
        accept: 'application/json',
        ...authorization(access),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(options?.idempotencyKey === undefined ? {} : { 'idempotency-key': options.idempotencyKey }),
      };
      const answer = await open(method, target, headers, body, signal);
      const text = await readAll(answer, baseUrl, signal);
      const value = parseJson(text, baseUrl, answer.statusCode ?? 0);
      if ((answer.statusCode ?? 0) >= 400) throw refusal(value, answer.statusCode ?? 0, baseUrl);
      const parsed = schema.safeParse(value);
      if (parsed.success) return parsed.data as ApiAnswer<typeof route>;
      const issue = parsed.error.issues[0];
      throw new CoveyError(
        'internal_error',
        `The answer of ${baseUrl} to ${method} ${path} is not what this version of covey expects: ` +
          `${issue?.path.join('.') || 'the body'}: ${issue?.message ?? 'invalid'}.`,
      );
    },
    async putBytes(path, body, signal) {
      const headers = { ...authorization('admin'), 'content-type': 'application/octet-stream' };
      const limit = AbortSignal.any([signal, AbortSignal.timeout(bytesMs)]);
      const sized = { ...headers, 'content-length': String(body.length) };
      const answer = await open('PUT', path, sized, body, limit);
      const text = await readAll(answer, baseUrl, limit);
      const status = answer.statusCode ?? 0;
      if (status >= 400) throw refusal(parseJson(text, baseUrl, status), status, baseUrl);
    },
    async getBytes(path, fromByte, signal) {
      const headers: Record<string, string> = authorization('admin');
      if (fromByte > 0) headers['range'] = `bytes=${fromByte}-`;
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(new DOMException('late', 'TimeoutError')), silenceMs);
      const limit = AbortSignal.any([signal, late.signal]);
      const answer = await open('GET', path, headers, undefined, limit).finally(() => clearTimeout(timer));
      const status = answer.statusCode ?? 0;
      if (status < 400) {
        const silent = new CoveyError('timeout', `Nothing came from ${baseUrl} for ${silenceMs / 1_000} s.`);
        return answer.setTimeout(silenceMs, () => answer.destroy(silent));
      }
      throw refusal(parseJson(await readAll(answer, baseUrl, signal), baseUrl, status), status, baseUrl);
    },
    async *events({ afterId, signal }) {
      const { path, access } = apiRoutes.events;
      const headers: Record<string, string> = { accept: 'text/event-stream', ...authorization(access) };
      if (afterId !== null) headers['last-event-id'] = String(afterId);
      const answer = await open('GET', path, headers, undefined, signal);
      if (answer.statusCode !== 200) {
        const text = await readAll(answer, baseUrl, signal);
        const value = parseJson(text, baseUrl, answer.statusCode ?? 0);
        throw refusal(value, answer.statusCode ?? 0, baseUrl);
      }
      try {
        yield* readEvents(answer);
      } catch (error) {
        if (signal.aborted) return;
        throw connectionError(baseUrl, error as Error, signal);
      } finally {
        answer.destroy();
      }
    },
    close: () => agent.destroy(),
  };
}

async function readAll(answer: IncomingMessage, baseUrl: string, signal: AbortSignal): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > maxAnswerBytes)
        throw new CoveyError('internal_error', `${baseUrl} answered more than 64 MiB.`);
    }
  } catch (error) {
    throw error instanceof CoveyError ? error : connectionError(baseUrl, error as Error, signal);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parseJson(text: string, baseUrl: string, status: number): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new CoveyError(
      'internal_error',
      `${baseUrl} is not Covey's API: it answered ${status} with something that is not JSON. Check --api.`,
    );
  }
}

function refusal(value: unknown, status: number, baseUrl: string): CoveyError {
  const parsed = errorResponseSchema.safeParse(value);
  if (parsed.success) return CoveyError.fromBody(parsed.data.error);
  return new CoveyError(
    'internal_error',
    `${baseUrl} answered ${status} in a form that is not Covey's. Check --api.`,
  );
}

function connectionError(baseUrl: string, error: Error, signal: AbortSignal): CoveyError {
  if (signal.aborted && (signal.reason as Error | undefined)?.name === 'TimeoutError') {
    return new CoveyError('timeout', `${baseUrl} did not answer in time.`, {}, error);
  }
  if (signal.aborted) return new CoveyError('cancelled', 'Cancelled.', {}, error);
  const code = (error as NodeJS.ErrnoException).code;
  const why =
    code === 'ECONNREFUSED'
      ? 'nothing listens there'
      : code === 'ECONNRESET'
        ? 'the connection was cut'
        : error.message;
  return new CoveyError(
    'controller_unreachable',
    `No covey answers at ${baseUrl}: ${why || code || 'unknown'}.`,
    {},
    error,
  );
}

/** Parses server-sent events whose data is an ApiEvent; comments and anything else are passed over. */
async function* readEvents(answer: IncomingMessage): AsyncGenerator<ApiEvent> {
  answer.setEncoding('utf8');
  let buffered = '';
  for await (const chunk of answer as AsyncIterable<string>) {
    buffered += chunk;
    if (buffered.length > maxAnswerBytes) throw new Error('an event of more than 64 MiB');
    const blocks = buffered.split(/\r?\n\r?\n/);
    buffered = blocks.pop() ?? '';
    for (const block of blocks) {
      const data = block
        .split(/\r?\n/)
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice('data:'.length).trimStart())
        .join('\n');
      if (data === '') continue;
      const parsed = apiEventSchema.safeParse(JSON.parse(data));
      if (parsed.success) yield parsed.data;
    }
  }
}
