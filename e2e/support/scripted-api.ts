import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { ApiAccess } from '../../src-main/nodejs/access/local-access.ts';
import { newToken } from '../../src-main/nodejs/access/tokens.ts';
import { apiRoutes, type ApiRoute } from '../../src-main/shared/api/schema.ts';
import { CoveyError } from '../../src-main/shared/errors.ts';

/** What moves bytes in place of JSON; its script gets a Buffer, or returns one. */
const byteRoutes = {
  artifactChunk: { method: 'PUT', path: '/api/artifacts/uploads/:id/chunks/:sha256' },
  artifactContent: { method: 'GET', path: '/api/artifacts/:artifact/content' },
} as const;
type ByteRoute = keyof typeof byteRoutes;
export type ScriptRoute = ApiRoute | ByteRoute;
export type Scripts = Partial<Record<ScriptRoute, RouteScript>>;

export interface ScriptedRequest {
  readonly route: ScriptRoute;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: IncomingMessage['headers'];
  readonly body: unknown;
}

/** Returns the answer, throws a CoveyError for a refusal, or answers by itself through `response`. */
export type RouteScript = (request: ScriptedRequest, response: ServerResponse) => unknown;

export interface ScriptedApi {
  readonly url: string;
  /** Of a node that seems to run in this process and to serve this API. Removed by `close`. */
  readonly dataDirectory: string;
  /** In the order they came. */
  readonly requests: readonly ScriptedRequest[];
  close(): Promise<void>;
}

/**
 * An HTTP server that speaks the contract of `/api` with scripted answers. Bodies and answers are checked
 * against the contract, so a script cannot drift from it. A route without a script answers 404.
 */
export async function startScriptedApi(scripts: Scripts): Promise<ScriptedApi> {
  const requests: ScriptedRequest[] = [];
  const server = createServer((request, response) => {
    void answer(request, response).catch((error: unknown) => {
      const covey = CoveyError.from(error);
      respond(response, covey.status, { error: covey.toBody() });
    });
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://localhost');
    const found = matchRoute(request.method ?? 'GET', url.pathname);
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    const script = found && scripts[found.route];
    if (!found || !script) throw new CoveyError('route_not_found', `There is no ${url.pathname}.`);
    const route = isByteRoute(found.route) ? null : apiRoutes[found.route];
    const scripted: ScriptedRequest = {
      ...found,
      query: Object.fromEntries(url.searchParams),
      headers: request.headers,
      body: route ? bodyOf(route, bytes) : bytes,
    };
    requests.push(scripted);
    const value = await script(scripted, response);
    if (value instanceof Buffer) response.writeHead(200, { 'content-length': value.length }).end(value);
    else if (value !== undefined) respond(response, 200, route ? route.response.parse(value) : value);
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const dataDirectory = mkdtempSync(path.join(os.tmpdir(), 'covey-scripted-'));
  seemToRun(dataDirectory, { token: newToken('local'), apiAddress: url, role: 'controller' });
  return {
    url,
    dataDirectory,
    requests,
    async close() {
      rmSync(dataDirectory, { recursive: true, force: true });
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Writes what a node that runs in this process would have left in its data directory. */
export function seemToRun(dataDirectory: string, access: ApiAccess): void {
  writeFileSync(path.join(dataDirectory, 'api-access.json'), JSON.stringify(access));
  writeFileSync(path.join(dataDirectory, 'lock'), JSON.stringify({ pid: process.pid, startedAt: null }));
}

function bodyOf(route: (typeof apiRoutes)[ApiRoute], bytes: Buffer): unknown {
  return 'body' in route ? route.body.parse(JSON.parse(bytes.toString('utf8'))) : undefined;
}

function isByteRoute(route: ScriptRoute): route is ByteRoute {
  return Object.hasOwn(byteRoutes, route);
}

function respond(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

function matchRoute(
  method: string,
  pathname: string,
): { route: ScriptRoute; params: Record<string, string> } | null {
  const segments = pathname.split('/');
  for (const [route, { method: wanted, path: template }] of Object.entries({
    ...apiRoutes,
    ...byteRoutes,
  })) {
    const pattern = template.split('/');
    if (wanted !== method || pattern.length !== segments.length) continue;
    if (!pattern.every((part, index) => part.startsWith(':') || part === segments[index])) continue;
    const params = Object.fromEntries(
      pattern.flatMap((part, index) =>
        part.startsWith(':') ? [[part.slice(1), decodeURIComponent(segments[index] ?? '')]] : [],
      ),
    );
    return { route: route as ScriptRoute, params };
  }
  return null;
}
