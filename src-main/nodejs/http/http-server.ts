import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { Duplex } from 'node:stream';
import type { ListenAddress } from '#shared/config.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { limitPerAddress, plainAddress } from './connection-limit.ts';
import { checkCaller, loopbackNames } from './guard.ts';
import type { Authenticate, CallerVia } from './http-call.ts';
import { listenEverywhere, listenLocalSocket, listenLoopback } from './listen.ts';
import { requireKeyHeader } from './member-headers.ts';
import { respondNoPage, wantsPage } from './no-page.ts';
import { checkRequest, requireJson } from './request-check.ts';
import { errorHeaders, openAiShape, respondError } from './respond.ts';
import { createRouter, type RouteGroup } from './router.ts';

export interface TlsCertificate {
  /** PEM. `cert` with its chain. */
  readonly key: string;
  readonly cert: string;
}

export type HttpListen =
  /** This machine, with Host and Origin checks. */
  | { readonly loopback: ListenAddress }
  /** Members' requests, by a local socket or pipe. */
  | { readonly socketPath: string }
  /** Other machines, by HTTPS. `names`: under which this machine may be called there, see HostPolicy. */
  | {
      readonly lan: {
        readonly port: number;
        readonly certificate: TlsCertificate;
        readonly names: () => readonly string[];
      };
    };

export interface HttpServerOptions {
  readonly listen: HttpListen;
  readonly groups: readonly RouteGroup[];
  readonly authenticate: Authenticate;
  /** The setting `api.allowedHosts`, asked at every request. */
  readonly allowedHosts?: () => readonly string[];
  /** Hears of requests that a web page or a wrong name made. */
  readonly onRefused?: (error: CoveyError, remoteAddress: string) => void;
  readonly logger: Logger;
  readonly limits?: Partial<HttpLimits>;
}

export interface HttpLimits {
  readonly headersMs: number;
  /** For the whole request, its body included; answers may last for ever. */
  readonly requestMs: number;
  /** How often the two are looked at. */
  readonly checkMs: number;
  /** LAN only. */
  readonly handshakeMs: number;
  /** LAN: a quarter, so that what is this machine's own never lacks descriptors. */
  readonly connections: number;
  /** LAN only. */
  readonly connectionsPerAddress: number;
}

export interface HttpServer {
  /** 0 for a local socket. */
  readonly port: number;
  /** LAN only: for connections from now on. @throws when the pair does not fit or is no PEM */
  setCertificate(certificate: TlsCertificate): void;
  /** Lets running requests finish for a moment, then ends them with `shutting_down`. */
  close(): Promise<void>;
}

const defaultLimits: HttpLimits = {
  headersMs: 10_000,
  requestMs: 60_000,
  checkMs: 2_000,
  handshakeMs: 10_000,
  connections: 2_048,
  connectionsPerAddress: 64,
};
const headBytes = 16 * 1024;
const keepAliveMs = 75_000;
const closeGraceMs = 2_000;
const closeEndMs = 1_000;

/** An HTTP/1.1 server for one router. One bad request, connection or handler never affects another. */
export async function startHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const { groups, logger, listen, authenticate } = options;
  const limits = { ...defaultLimits, ...options.limits };
  const router = createRouter(groups);
  const stopping = new AbortController();
  const closing = new AbortController();
  const running = new Set<ServerResponse>();
  /** Nothing more on them is believed: what looks like the next request may be part of the one that was refused. */
  const doubtful = new WeakSet<object>();
  let port = 0;
  let onIdle: (() => void) | null = null;
  let closeSockets = (): void => undefined;
  /** TLS connections whose handshake is over: before that there is no way to say anything. */
  const secured = new WeakSet<Duplex>();
  const via: CallerVia = 'socketPath' in listen ? 'member' : 'lan' in listen ? 'lan' : 'loopback';
  const scheme = via === 'lan' ? 'https' : 'http';
  const names = 'lan' in listen ? listen.lan.names : () => loopbackNames;
  const allowedHosts = options.allowedHosts ?? (() => []);

  const onRequest = (req: IncomingMessage, res: ServerResponse): void => {
    if (doubtful.has(req.socket)) return;
    running.add(res);
    res.once('close', () => {
      running.delete(res);
      if (running.size === 0) onIdle?.();
    });
    // A broken client connection shows as 'close'; the error itself is of no use.
    req.on('error', () => undefined);
    res.on('error', () => undefined);
    if (stopping.signal.aborted) res.shouldKeepAlive = false;
    void dispatch(req, res).catch((thrown: unknown) => onFailure(req, res, thrown));
  };

  const soundPath = (req: IncomingMessage, res: ServerResponse): string => {
    try {
      return checkRequest(req);
    } catch (error) {
      doubtful.add(req.socket);
      res.shouldKeepAlive = false;
      throw error;
    }
  };

  /** Up to its first wait it runs before the parser looks at what follows. */
  const dispatch = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const path = soundPath(req, res);
    if (via !== 'member') checkCaller(req, { scheme, port, names: names(), allowedHosts: allowedHosts() });
    const { route, params } = router.match(req.method ?? '', path);
    const remoteAddress = via === 'member' ? '' : plainAddress(req.socket.remoteAddress);
    const { authorization } = req.headers;
    const principal = authenticate({
      needs: route.access,
      via,
      authorization,
      requireKey: via === 'member' && req.headers[requireKeyHeader] !== undefined,
      remoteAddress,
    });
    if (!route.bytes) requireJson(req);
    await route.handle({
      req,
      res,
      params,
      query: new URLSearchParams(req.url?.slice(path.length + 1)),
      via,
      principal,
      remoteAddress,
      stopping: stopping.signal,
      closing: closing.signal,
    });
  };

  const onFailure = (req: IncomingMessage, res: ServerResponse, thrown: unknown): void => {
    const path = pathOf(req);
    let error = CoveyError.from(thrown);
    if (error.code === 'internal_error') {
      logger.error('a request failed', { path, reason: error.message });
      // What an unexpected exception says is for the log.
      error = new CoveyError('internal_error', 'The request failed for an internal reason; the log has it.');
    }
    if (error.code === 'host_not_allowed' || error.code === 'origin_not_allowed') {
      options.onRefused?.(error, plainAddress(req.socket.remoteAddress));
    }
    if (error.code === 'method_not_allowed') res.setHeader('allow', router.allowed(path).join(', '));
    if (res.headersSent) res.destroy();
    else if (error.code === 'route_not_found' && !router.hasGroup(path) && wantsPage(req)) respondNoPage(res);
    else respondError(res, error, router.errorShape(path));
  };

  const settings = {
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    connectionsCheckingInterval: limits.checkMs,
    keepAliveTimeout: keepAliveMs,
    keepAlive: true,
    maxHeaderSize: headBytes,
    // Upgrades are refused as requests, see checkRequest.
    insecureHTTPParser: false,
    requireHostHeader: true,
  };
  const prepare = <S extends Server | TlsServer>(server: S): S => {
    server.maxConnections = via === 'lan' ? Math.ceil(limits.connections / 4) : limits.connections;
    server.on('request', onRequest);
    server.on('checkContinue', onRequest);
    // Any other expectation is ignored, as RFC 9110, 10.1.1 has it.
    server.on('checkExpectation', onRequest);
    server.on('clientError', (error: Error, socket: Duplex) => {
      if (via === 'lan' && !secured.has(socket)) socket.destroy();
      else refuseConnection(error, socket, running);
    });
    return server;
  };

  const servers: (Server | TlsServer)[] = [];
  if ('socketPath' in listen) {
    const server = prepare(createServer(settings));
    await listenLocalSocket(server, listen.socketPath);
    servers.push(server);
  } else if ('lan' in listen) {
    const { certificate } = listen.lan;
    const server = prepare(
      createTlsServer({
        ...settings,
        ...certificate,
        minVersion: 'TLSv1.2',
        handshakeTimeout: limits.handshakeMs,
        ALPNProtocols: ['http/1.1'],
      }),
    );
    closeSockets = limitPerAddress(server, limits.connectionsPerAddress);
    server.on('secureConnection', (socket) => secured.add(socket));
    port = await listenEverywhere(server, listen.lan.port);
    servers.push(server);
  } else {
    const bound = await listenLoopback(listen.loopback, () => prepare(createServer(settings)));
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
    setCertificate(certificate) {
      for (const server of servers) if ('setSecureContext' in server) server.setSecureContext(certificate);
    },
    async close() {
      const closed = servers.map((server) => new Promise((resolve) => server.close(resolve)));
      stopping.abort();
      await idle(closeGraceMs);
      closing.abort(new CoveyError('shutting_down', 'Covey is shutting down on this machine.'));
      await idle(closeEndMs);
      servers.forEach((server) => server.closeAllConnections());
      closeSockets();
      await Promise.all(closed);
    },
  };
}

/** For the shape of a refusal only: the path of a target that may be no path. */
function pathOf(req: IncomingMessage): string {
  const url = req.url ?? '/';
  const end = url.indexOf('?');
  return end < 0 ? url : url.slice(0, end);
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
    return new CoveyError('headers_too_large', 'The headers of the request are larger than 16 KiB.');
  }
  return new CoveyError('invalid_request', 'The bytes on this connection are not a valid HTTP/1.1 request.');
}
