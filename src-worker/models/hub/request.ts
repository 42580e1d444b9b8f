import http from 'node:http';
import https from 'node:https';
import { CoveyError } from '#shared/errors.ts';

export interface HubSettings {
  /** Without a slash at the end. */
  readonly baseUrl: string;
  /** Sent to the hub's own host only. */
  readonly token: string | null;
  readonly connectMs: number;
  /** Without a byte for this long a transfer is dead. */
  readonly stallMs: number;
  /** First wait before another try; it doubles. */
  readonly retryMs: number;
}

export const publicHub: HubSettings = {
  baseUrl: 'https://huggingface.co',
  token: null,
  connectMs: 10_000,
  stallMs: 30_000,
  retryMs: 1_000,
};

export interface HubRequest {
  readonly method: 'GET' | 'HEAD';
  /** On the hub, percent-encoded, beginning with a slash. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** How far redirects are followed: `hub` stops at the one that leaves the hub and returns that answer. */
  readonly follow: 'hub' | 'anywhere';
  readonly signal: AbortSignal;
}

const MAX_REDIRECTS = 5;

/** A connection that failed or stalled: worth another try. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
}

/**
 * One request with its redirects. They lead to https only, or to http on loopback when the hub itself is that.
 * The token goes to the hub's origin and nowhere else. The caller reads the body or destroys it.
 */
export async function hubRequest(settings: HubSettings, request: HubRequest): Promise<http.IncomingMessage> {
  const hub = new URL(settings.baseUrl);
  let url = new URL(hub.pathname.replace(/\/$/, '') + request.path, hub);
  for (let redirects = 0; ; redirects++) {
    const own = url.origin === hub.origin;
    const headers: Record<string, string> = {
      'user-agent': 'covey',
      'accept-encoding': 'identity',
      ...request.headers,
      ...(own && settings.token !== null ? { authorization: `Bearer ${settings.token}` } : {}),
    };
    const response = await send(url, request.method, headers, settings, request.signal);
    const location = response.headers.location;
    const redirected = [301, 302, 303, 307, 308].includes(response.statusCode ?? 0);
    if (!redirected || location === undefined) return response;

    const next = URL.canParse(location, url.href) ? new URL(location, url) : null;
    if (next === null || !allowed(next, hub)) {
      response.destroy();
      const target = next === null ? 'an address that is none' : `${next.protocol}//${next.host}`;
      throw new CoveyError('download_failed', `the hub redirects to ${target}, which is not followed`);
    }
    if (request.follow === 'hub' && next.origin !== hub.origin) return response;
    response.destroy();
    if (redirects === MAX_REDIRECTS) {
      throw new CoveyError('download_failed', `the hub redirects more than ${MAX_REDIRECTS} times`);
    }
    url = next;
  }
}

/** Whether a hub may be asked at this address: its token must not travel in the clear. */
export function isHubAddress(address: string): boolean {
  if (!URL.canParse(address)) return false;
  const url = new URL(address);
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url));
}

function allowed(url: URL, hub: URL): boolean {
  if (url.username !== '' || url.password !== '') return false;
  return (
    url.protocol === 'https:' ||
    (url.protocol === 'http:' && isLoopback(url) && isLoopback(hub) && hub.protocol === 'http:')
  );
}

function isLoopback(url: URL): boolean {
  return url.hostname === 'localhost' || url.hostname === '[::1]' || /^127\./.test(url.hostname);
}

/** Proxies are taken from the environment (HTTPS_PROXY, NO_PROXY), as people set them for such downloads. */
const agents = {
  'https:': new https.Agent({ proxyEnv: process.env }),
  'http:': new http.Agent(),
};

function send(
  url: URL,
  method: string,
  headers: Record<string, string>,
  settings: HubSettings,
  signal: AbortSignal,
): Promise<http.IncomingMessage> {
  return new Promise((resolve, reject) => {
    const secure = url.protocol === 'https:';
    const request = (secure ? https : http).request(url, {
      method,
      headers,
      signal,
      agent: agents[secure ? 'https:' : 'http:'],
    });
    const fail = (why: string) => {
      request.destroy(new ConnectionError(`${url.host} ${why}`));
    };
    const connecting = setTimeout(() => {
      fail(`could not be reached within ${settings.connectMs / 1000} s`);
    }, settings.connectMs);
    request.on('socket', (socket) => {
      const connected = (): void => {
        clearTimeout(connecting);
      };
      if (socket.connecting) socket.once(secure ? 'secureConnect' : 'connect', connected);
      else connected();
    });
    request.setTimeout(settings.stallMs, () => {
      fail(`sent nothing for ${settings.stallMs / 1000} s`);
    });
    request.on('error', (error) => {
      clearTimeout(connecting);
      reject(
        error instanceof ConnectionError || signal.aborted
          ? error
          : new ConnectionError(`${url.host}: ${reason(error)}`),
      );
    });
    request.on('response', (response) => {
      clearTimeout(connecting);
      // Errors of the body reach whoever reads it; without a reader they must not be unhandled.
      response.on('error', () => undefined);
      resolve(response);
    });
    request.end();
  });
}

function reason(error: Error): string {
  const code = (error as NodeJS.ErrnoException).code;
  switch (code) {
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'the name cannot be resolved';
    case 'ECONNREFUSED':
      return 'the connection was refused';
    default:
      return error.message || code || 'the connection failed';
  }
}

/** The whole body as text, at most `limit` bytes. */
export async function readText(response: http.IncomingMessage, limit: number): Promise<string> {
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of response as AsyncIterable<Buffer>) {
    length += piece.length;
    if (length > limit) {
      response.destroy();
      throw new CoveyError('download_failed', `the hub's answer is longer than ${limit} bytes`);
    }
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('utf8');
}
