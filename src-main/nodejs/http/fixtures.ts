import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { Logger } from '#shared/lib/logger.ts';
import type { Authenticate } from './http-call.ts';

/** Lets everybody do everything, for tests that are not about who may. */
export const everybody: Authenticate = () => ({ kind: 'local', access: 'admin', id: null, revoked: null });

/** A peer that speaks bytes, for tests: scripted upstreams and clients that no HTTP library would be. */
export interface ScriptedUpstream {
  readonly port: number;
  /** Requests so far, head and body as they came. */
  readonly requests: readonly UpstreamRequest[];
  close(): Promise<void>;
}

export interface UpstreamRequest {
  readonly head: string;
  readonly body: Buffer;
  readonly socket: Socket;
  /** Resolves when the other side has closed; rejects after `deadlineMs`. */
  readonly closed: Promise<void>;
}

const deadlineMs = 5_000;

/** Accepts requests with a length and lets `script` answer each on its socket. */
export async function startUpstream(script: (request: UpstreamRequest) => void): Promise<ScriptedUpstream> {
  const requests: UpstreamRequest[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    let bytes = Buffer.alloc(0);
    let seen = false;
    socket.on('error', () => undefined);
    socket.on('data', (piece) => {
      if (seen) return;
      bytes = Buffer.concat([bytes, piece]);
      const end = bytes.indexOf('\r\n\r\n');
      if (end < 0) return;
      const head = bytes.toString('latin1', 0, end);
      const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
      if (bytes.length < end + 4 + length) return;
      seen = true;
      const closed = within(
        'the upstream connection to close',
        new Promise<void>((resolve) => socket.once('close', () => resolve())),
      );
      closed.catch(() => undefined);
      const request = { head, body: bytes.subarray(end + 4), socket, closed };
      requests.push(request);
      script(request);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    async close() {
      sockets.forEach((socket) => socket.destroy());
      server.close();
      await once(server, 'close');
    },
  };
}

export interface RawClient {
  readonly socket: Socket;
  send(text: string | Buffer): void;
  /** What has come so far. */
  text(): string;
  /** Resolves to everything that has come once it contains `part` (or matches); rejects after the deadline. */
  until(part: string | RegExp, ms?: number): Promise<string>;
  /** Resolves to everything once the server has closed. */
  ended(): Promise<string>;
  close(): void;
}

export async function rawClient(target: number | string): Promise<RawClient> {
  const socket = typeof target === 'number' ? connect(target, '127.0.0.1') : connect(target);
  await once(socket, 'connect');
  let text = '';
  socket.on('error', () => undefined);
  socket.on('data', (piece) => (text += piece.toString('latin1')));
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  return {
    socket,
    send: (data) => void socket.write(data),
    text: () => text,
    async until(part, ms) {
      const found = (): boolean => (typeof part === 'string' ? text.includes(part) : part.test(text));
      await within(
        `${String(part)} in ${JSON.stringify(text)}`,
        async () => {
          while (!found()) await once(socket, 'data');
        },
        ms,
      );
      return text;
    },
    async ended() {
      await within('the connection to end', closed);
      return text;
    },
    close: () => void socket.destroy(),
  };
}

/** One request on a connection of its own, closed after the answer. */
export async function rawExchange(target: number | string, request: string | Buffer): Promise<string> {
  const client = await rawClient(target);
  client.send(request);
  try {
    return await client.ended();
  } finally {
    client.close();
  }
}

/** A POST with a JSON body, as text, to the server on `port`. */
export function postText(port: number, path: string, body: unknown, headers: readonly string[] = []): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const own = [
    `Host: 127.0.0.1:${port}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(text)}`,
  ];
  return `POST ${path} HTTP/1.1\r\n${[...own, ...headers].join('\r\n')}\r\n\r\n${text}`;
}

export function getText(
  port: number,
  path: string,
  headers: readonly string[] = ['Connection: close'],
): string {
  return `GET ${path} HTTP/1.1\r\n${[`Host: 127.0.0.1:${port}`, ...headers].join('\r\n')}\r\n\r\n`;
}

export function chunk(text: string): string {
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
}

export const eventStreamHead =
  'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n';

/** A whole answer with a length. */
export function answer(status: number, body: string, type = 'application/json'): string {
  return `HTTP/1.1 ${status} X\r\nContent-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** Splits what a raw client got into head and body, the body without its chunks' framing. */
export function parseAnswer(text: string): { status: number; head: string; body: string; complete: boolean } {
  const end = text.indexOf('\r\n\r\n');
  const head = text.slice(0, end);
  let rest = text.slice(end + 4);
  const status = Number(head.slice(9, 12));
  if (!/^transfer-encoding: chunked$/im.test(head)) return { status, head, body: rest, complete: true };
  let body = '';
  for (;;) {
    const match = /^([0-9a-f]+)\r\n/i.exec(rest);
    if (!match) return { status, head, body, complete: false };
    const size = parseInt(match[1] as string, 16);
    const from = match[0].length;
    if (size === 0) return { status, head, body, complete: rest.slice(from) === '\r\n' };
    body += rest.slice(from, from + size);
    rest = rest.slice(from + size + 2);
  }
}

export async function within<T>(
  what: string,
  work: Promise<T> | (() => Promise<T>),
  ms = deadlineMs,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${ms} ms for ${what}`)), ms);
  });
  try {
    return await Promise.race([typeof work === 'function' ? work() : work, late]);
  } finally {
    clearTimeout(timer);
  }
}

export interface RecordedLog extends Logger {
  readonly lines: string[];
}

export function recordingLogger(): RecordedLog {
  const lines: string[] = [];
  const logger: RecordedLog = {
    lines,
    log: (level, message, fields) => void lines.push(`${level} ${message} ${JSON.stringify(fields ?? {})}`),
    debug: (message, fields) => logger.log('debug', message, fields),
    info: (message, fields) => logger.log('info', message, fields),
    warn: (message, fields) => logger.log('warn', message, fields),
    error: (message, fields) => logger.log('error', message, fields),
    child: () => logger,
  };
  return logger;
}

export type JsonCall = (
  method: string,
  path: string,
  token?: string,
  body?: unknown,
) => Promise<{ status: number; json: unknown }>;

/** Calls of an API as a program makes them: JSON both ways, a token in the header. @param base asked at each call */
export function jsonCaller(base: () => string): JsonCall {
  return async (method, path, token, body) => {
    const response = await fetch(base() + path, {
      method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, json: await response.json() };
  };
}
