import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ListenAddress } from '#shared/config.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { checkLoopbackCaller } from './guard.ts';
import { listenLocalSocket, listenLoopback } from './listen.ts';
import { errorHeaders, hasBody, openAiShape, respondError } from './respond.ts';
import { createRouter, type RouteGroup } from './router.ts';

export interface HttpServerOptions {
  /** A loopback address (with Host and Origin checks), or the path of a local socket for members' requests. */
  readonly listen: { readonly loopback: ListenAddress } | { readonly socketPath: string };
  readonly groups: readonly RouteGroup[];
  readonly logger: Logger;
}

export interface HttpServer {
  /** 0 for a local socket. */
  readonly port: number;
  /** Lets running requests finish for a moment, then ends them with `shutting_down`. */
  close(): Promise<void>;
}

const headersTimeoutMs = 10_000;
/** For the whole request, its body included; answers may last for ever. */
const requestTimeoutMs = 60_000;
const timeoutCheckMs = 2_000;
const keepAliveMs = 75_000;
const maxConnections = 2_048;
const closeGraceMs = 2_000;
const closeEndMs = 1_000;

/** An HTTP/1.1 server for one router. One bad request, connection or handler never affects another. */
export async function startHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const { groups, logger, listen } = options;
  const router = createRouter(groups);
  const stopping = new AbortController();
  const closing = new AbortController();
  const running = new Set<ServerResponse>();
  let port = 0;
  let onIdle: (() => void) | null = null;
  const caller = 'socketPath' in listen ? 'member' : 'local';

  const onRequest = (req: IncomingMessage, res: ServerResponse): void => {
    running.add(res);
    res.once('close', () => {
      running.delete(res);
      if (running.size === 0) onIdle?.();
    });
    // A broken client connection shows as 'close'; the error itself is of no use.
    req.on('error', () => undefined);
    res.on('error', () => undefined);
    if (stopping.signal.aborted) res.shouldKeepAlive = false;
    const path = pathOf(req);
    void dispatch(path, req, res).catch((thrown: unknown) => onFailure(path, res, thrown));
  };

  const dispatch = async (path: string, req: IncomingMessage, res: ServerResponse): Promise<void> => {
    if (caller === 'local') checkLoopbackCaller(req, port);
    const { route, params } = router.match(req.method ?? '', path);
    requireJson(req);
    const query = new URLSearchParams(req.url?.slice(path.length + 1));
    await route.handle({
      req,
      res,
      params,
      query,
      caller,
      stopping: stopping.signal,
      closing: closing.signal,
    });
  };

  const onFailure = (path: string, res: ServerResponse, thrown: unknown): void => {
    let error = CoveyError.from(thrown);
    if (error.code === 'internal_error') {
      logger.error('a request failed', { path, reason: error.message });
      // What an unexpected exception says is for the log.
      error = new CoveyError('internal_error', 'The request failed for an internal reason; the log has it.');
    }
    if (error.code === 'method_not_allowed') res.setHeader('allow', router.allowed(path).join(', '));
    if (res.headersSent) res.destroy();
    else respondError(res, error, router.errorShape(path));
  };

  const makeServer = (): Server => {
    const server = createServer({
      headersTimeout: headersTimeoutMs,
      requestTimeout: requestTimeoutMs,
      connectionsCheckingInterval: timeoutCheckMs,
      keepAliveTimeout: keepAliveMs,
      keepAlive: true,
    });
    server.maxConnections = maxConnections;
    server.on('request', onRequest);
    server.on('checkContinue', onRequest);
    server.on('clientError', (error: Error, socket: Duplex) => refuseConnection(error, socket, running));
    return server;
  };

  const servers: Server[] = [];
  if ('socketPath' in listen) {
    const server = makeServer();
    await listenLocalSocket(server, listen.socketPath);
    servers.push(server);
  } else {
    const bound = await listenLoopback(listen.loopback, makeServer);
    servers.push(...(bound.servers as Server[]));
    port = bound.port;
  }
  for (const server of servers) {
    server.on('error', (error) => logger.error('the listener failed', { reason: error.message }));
  }

  const idle = (limitMs: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, running.size === 0 ? 0 : limitMs);
      onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  return {
    port,
    async close() {
      const closed = servers.map((server) => new Promise((resolve) => server.close(resolve)));
      stopping.abort();
      await idle(closeGraceMs);
      closing.abort(new CoveyError('shutting_down', 'Covey is shutting down on this machine.'));
      await idle(closeEndMs);
      servers.forEach((server) => server.closeAllConnections());
      await Promise.all(closed);
    },
  };
}

/** @returns the part before "?", "/" for a target that is no path (such as `*` or an absolute URI) */
function pathOf(req: IncomingMessage): string {
  const url = req.url ?? '/';
  if (!url.startsWith('/')) return '/';
  const end = url.indexOf('?');
  return end < 0 ? url : url.slice(0, end);
}

/** A body of another type could come from a form of any page, without asking first. */
function requireJson(req: IncomingMessage): void {
  const type = req.headers['content-type'];
  if (!hasBody(req) && type === undefined) return;
  if (req.method === 'GET' || req.method === 'HEAD') return;
  if (type !== undefined && /^application\/json\s*(;|$)/i.test(type)) return;
  throw new CoveyError(
    'unsupported_media_type',
    'The body must be JSON: send the header "Content-Type: application/json".',
    { field: 'Content-Type' },
  );
}

/** Answers bytes that are no HTTP request, or one that took too long, and closes that connection. */
function refuseConnection(
  error: NodeJS.ErrnoException,
  socket: Duplex,
  running: ReadonlySet<ServerResponse>,
): void {
  const current = [...running].find((res) => res.socket === socket);
  if (!socket.writable || error.code === 'ECONNRESET' || current?.headersSent === true) {
    socket.destroy();
    return;
  }
  const refusal = connectionRefusal(error.code);
  const body = JSON.stringify(openAiShape(refusal));
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    ...errorHeaders(refusal),
    connection: 'close',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const length = `content-length: ${Buffer.byteLength(body)}\r\n`;
  socket.end(`HTTP/1.1 ${refusal.status} Refused\r\n${lines.join('')}${length}\r\n${body}`, () =>
    socket.destroy(),
  );
}

function connectionRefusal(code: string | undefined): CoveyError {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new CoveyError('request_timeout', `The request did not arrive whole within its time limit.`);
  }
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new CoveyError('invalid_request', 'The headers of the request are larger than 16 KiB.');
  }
  return new CoveyError('invalid_request', 'The bytes on this connection are not a valid HTTP/1.1 request.');
}
