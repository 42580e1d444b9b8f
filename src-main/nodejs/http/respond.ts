import { Buffer } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { openAiError, type CoveyError } from '#shared/errors.ts';

/** Turns an error into the JSON body that callers of one part of the API expect. */
export type ErrorShape = (error: CoveyError) => object;

/** `/v1`: as OpenAI's clients parse it. */
export const openAiShape: ErrorShape = openAiError;
/** `/api` and everything else. */
export const coveyShape: ErrorShape = (error) => ({ error: error.toBody() });

/** How long a client may go on sending a body that nobody reads, so that it gets to read the refusal. */
const lingerMs = 2_000;
const defaultRetryAfterS = 2;

export function respondJson(
  res: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  respondBytes(res, status, Buffer.from(JSON.stringify(body)), {
    'content-type': 'application/json; charset=utf-8',
    ...headers,
  });
}

/** Answers with the error's status and body; does nothing when an answer has begun. */
export function respondError(res: ServerResponse, error: CoveyError, shape: ErrorShape): void {
  if (res.headersSent || res.destroyed) return;
  respondJson(res, error.status, shape(error), errorHeaders(error));
}

export function errorHeaders(error: CoveyError): Record<string, string> {
  // RFC 9110, 11.6.1. Browsers show no dialog for this scheme.
  if (error.status === 401) return { 'www-authenticate': 'Bearer' };
  const busy = error.status === 503 || error.status === 429;
  if (!busy && error.details.retryAfterS === undefined) return {};
  return { 'retry-after': String(Math.max(1, Math.ceil(error.details.retryAfterS ?? defaultRetryAfterS))) };
}

/** The request announces a body; at the time of its head that is all that can be known. */
export function hasBody(req: IncomingMessage): boolean {
  return req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? 0) > 0;
}

export function expectsContinue(req: IncomingMessage): boolean {
  return req.headers.expect?.toLowerCase() === '100-continue';
}

function respondBytes(
  res: ServerResponse,
  status: number,
  body: Buffer,
  headers: Readonly<Record<string, string>>,
): void {
  const { req } = res;
  const all = {
    ...headers,
    'content-length': body.length,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  };
  if (req.complete || !hasBody(req)) {
    res.writeHead(status, all);
    res.end(body);
    return;
  }
  // Closing at once would reset the connection under the client's own writes, and the answer with it.
  res.writeHead(status, { ...all, connection: 'close' });
  res.write(body);
  const end = (): void => {
    clearTimeout(timer);
    res.end();
  };
  const timer = setTimeout(end, expectsContinue(req) ? 0 : lingerMs);
  req.once('end', end);
  req.once('close', end);
  req.resume();
}
