import type { ServerResponse } from 'node:http';
import { z } from 'zod';
import type { Access } from '#shared/api/access.ts';
import { CoveyError } from '#shared/errors.ts';
import { check, readJson } from './body.ts';
import type { HttpCall } from './http-call.ts';
import { coveyShape, respondJson } from './respond.ts';
import type { HttpRoute, RouteGroup } from './router.ts';

/** One line of a table such as `coreRoutes`. */
export interface ApiTableRoute {
  readonly method: HttpRoute['method'];
  readonly path: string;
  readonly access: Access;
  readonly body?: z.ZodType;
  readonly response: z.ZodType;
}
export type ApiTable = Readonly<Record<string, ApiTableRoute>>;

type BodyOf<R extends ApiTableRoute> = R extends { readonly body: infer S extends z.ZodType }
  ? z.output<S>
  : Record<never, never>;

/** What a handler gets: its input, read and checked. */
export interface ApiInput<R extends ApiTableRoute = ApiTableRoute> {
  readonly body: BodyOf<R>;
  /** A path parameter, 1 to 256 characters. */
  readonly param: (name: string) => string;
  readonly call: HttpCall;
  /** Aborts when the client leaves or the server closes. */
  readonly signal: AbortSignal;
}

/** An answer with another status than 200. */
export class ApiAnswer<T> {
  readonly status: number;
  readonly body: T;

  constructor(status: number, body: T) {
    this.status = status;
    this.body = body;
  }
}

/** The handler has answered, or goes on answering, by itself. */
export const answered = Symbol('answered');

type Result<R extends ApiTableRoute> =
  z.input<R['response']> | ApiAnswer<z.input<R['response']>> | typeof answered;
export type ApiHandler<R extends ApiTableRoute> = (input: ApiInput<R>) => Result<R> | Promise<Result<R>>;
/** One handler for each route of the table. */
export type ApiHandlers<Table extends ApiTable> = { readonly [Name in keyof Table]: ApiHandler<Table[Name]> };

const bodyLimitBytes = 1024 * 1024;
/** From callers whom nobody knows. */
const publicBodyLimitBytes = 16 * 1024;
const noBody = z.strictObject({});
const pathParameter = z.string().min(1).max(256);

/**
 * The HTTP side of a table of `/api` routes: bodies are read and checked against the table, what a handler
 * returns is the answer, what it throws (CoveyError) is the refusal.
 */
export function apiGroup<const Table extends ApiTable>(
  table: Table,
  handlers: ApiHandlers<Table>,
): RouteGroup {
  const routes = Object.entries(table).map(([name, route]): HttpRoute => {
    const handler = handlers[name] as unknown as ApiHandler<ApiTableRoute>;
    const { method, path, access } = route;
    return { method, path, access, handle: (call) => answer(call, route, handler) };
  });
  return { prefix: '/api', errorShape: coveyShape, routes };
}

async function answer(
  call: HttpCall,
  route: ApiTableRoute,
  handler: ApiHandler<ApiTableRoute>,
): Promise<void> {
  const { req, res } = call;
  const reads = route.method === 'POST' || route.method === 'PUT' || route.method === 'PATCH';
  const limitBytes = route.access === 'public' ? publicBodyLimitBytes : bodyLimitBytes;
  const body = reads ? await readJson(req, res, limitBytes, route.body ?? noBody) : {};
  const { signal, release } = whileConnected(res, call.closing);
  const param = (name: string): string =>
    check(z.object({ [name]: pathParameter }), call.params, 'The path')[name] ?? '';
  try {
    const result = await handler({ body: body as Record<never, never>, param, call, signal });
    if (result === answered) return;
    if (result instanceof ApiAnswer) respondJson(res, result.status, result.body);
    else respondJson(res, 200, result);
  } finally {
    release();
  }
}

/** A signal for work that is given up when the client leaves or the server closes. */
function whileConnected(
  res: ServerResponse,
  closing: AbortSignal,
): { signal: AbortSignal; release: () => void } {
  const gone = new AbortController();
  const onClose = (): void => gone.abort(new CoveyError('cancelled', 'The client closed the connection.'));
  res.once('close', onClose);
  return { signal: AbortSignal.any([gone.signal, closing]), release: () => res.off('close', onClose) };
}
