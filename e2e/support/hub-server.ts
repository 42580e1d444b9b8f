import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import http from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

/**
 * A model hub on loopback that answers as the public one does: a tree of files by `api/models`, and
 * `resolve/main/...` that redirects to a second server, the content network, with the content's hash and size in
 * headers. It can be told to misbehave.
 */
export interface HubServer {
  readonly url: string;
  readonly cdnUrl: string;
  /** Every request so far, of both servers. */
  readonly requests: readonly SeenRequest[];
  /** Puts a file of this machine into a repository, which is made. */
  add(
    repository: string,
    path: string,
    file: string,
    options?: { access?: 'public' | 'private' | 'gated' },
  ): Promise<void>;
  /** From now on; null: behaves again. */
  misbehave(fault: Fault | null): void;
  close(): Promise<void>;
}

export interface SeenRequest {
  readonly at: 'hub' | 'cdn';
  readonly method: string;
  readonly path: string;
  readonly headers: http.IncomingHttpHeaders;
  /** Of the answer. */
  status: number;
}

export type Fault =
  /** The content's connection ends after so many bytes, `times` times; after the last comes another fault. */
  | { readonly kind: 'cut'; readonly afterBytes: number; times: number; readonly then?: Fault }
  /** It goes silent after so many bytes. */
  | { readonly kind: 'stall'; readonly afterBytes: number; times: number }
  /** It comes in small pieces with pauses between. */
  | { readonly kind: 'slow'; readonly pieceBytes: number; readonly pauseMs: number }
  /** One byte of the content is another. */
  | { readonly kind: 'wrong-content' }
  /** Ranges are ignored: the answer is always 200 with everything. */
  | { readonly kind: 'no-ranges' }
  /** More than the content comes. */
  | { readonly kind: 'too-much' }
  /** The hub answers everything with this. */
  | { readonly kind: 'status'; readonly status: number; readonly headers?: Record<string, string> }
  /** The content network answers with this. */
  | { readonly kind: 'cdn-status'; readonly status: number; times: number }
  /** The hub redirects to this instead of its content network. */
  | { readonly kind: 'redirect'; readonly location: string }
  /** The hub does not say the content's hash. */
  | { readonly kind: 'no-hash' };

interface HubFile {
  readonly file: string;
  readonly bytes: number;
  readonly sha256: string;
  readonly access: 'public' | 'private' | 'gated';
}

export const hubToken = 'hf_0123456789abcdefghijklmnopqrstuvwxyz';
const commit = '0123456789abcdef0123456789abcdef01234567';
const PAGE = 2;

export async function startHubServer(): Promise<HubServer> {
  const files = new Map<string, Map<string, HubFile>>();
  const requests: SeenRequest[] = [];
  let fault: Fault | null = null;

  const note = (
    at: SeenRequest['at'],
    request: http.IncomingMessage,
    response: http.ServerResponse,
  ): void => {
    const seen: SeenRequest = {
      at,
      method: request.method ?? '',
      path: request.url ?? '',
      headers: request.headers,
      status: 0,
    };
    requests.push(seen);
    response.on('close', () => (seen.status = response.statusCode));
  };

  const hub = http.createServer((request, response) => {
    note('hub', request, response);
    if (fault?.kind === 'status') return void response.writeHead(fault.status, fault.headers ?? {}).end('{}');
    const url = new URL(request.url ?? '/', hubUrl());
    const tree = /^\/api\/models\/([^/]+\/[^/]+)\/tree\/main$/.exec(url.pathname);
    if (tree) return answerTree(tree[1] as string, url, request, response);
    const resolve = /^\/([^/]+\/[^/]+)\/resolve\/[^/]+\/(.+)$/.exec(url.pathname);
    if (resolve)
      return answerResolve(resolve[1] as string, decodeURIComponent(resolve[2] as string), request, response);
    response.writeHead(404).end();
  });

  /** The files of a repository, unless the answer is a refusal. */
  const open = (
    repository: string,
    request: http.IncomingMessage,
    response: http.ServerResponse,
  ): Map<string, HubFile> | null => {
    const found = files.get(repository);
    const known = request.headers.authorization === `Bearer ${hubToken}`;
    const access = [...(found?.values() ?? [])][0]?.access;
    if (found === undefined || (access === 'private' && !known)) {
      // Those who are not logged in are not told what does not exist.
      response
        .writeHead(known ? 404 : 401, { 'x-error-code': 'RepoNotFound' })
        .end('{"error":"Repository not found"}');
      return null;
    }
    if (access === 'gated' && !known) {
      response.writeHead(401, { 'x-error-code': 'GatedRepo' }).end('{"error":"Access is restricted"}');
      return null;
    }
    return found;
  };

  const answerTree = (
    repository: string,
    url: URL,
    request: http.IncomingMessage,
    response: http.ServerResponse,
  ): void => {
    const found = open(repository, request, response);
    if (found === null) return;
    const start = Number(url.searchParams.get('cursor') ?? 0);
    const all = [...found].map(([path, { bytes, sha256 }]) => ({
      type: 'file',
      oid: createHash('sha1').update(sha256).digest('hex'),
      size: bytes,
      path,
      lfs: { oid: sha256, size: bytes, pointerSize: 134 },
    }));
    const more = start + PAGE < all.length;
    const next = `<${hubUrl()}${url.pathname}?recursive=true&cursor=${start + PAGE}>; rel="next"`;
    response.writeHead(200, { 'content-type': 'application/json', ...(more ? { link: next } : {}) });
    response.end(JSON.stringify([{ type: 'directory', path: 'folder' }, ...all.slice(start, start + PAGE)]));
  };

  const answerResolve = (
    repository: string,
    path: string,
    request: http.IncomingMessage,
    response: http.ServerResponse,
  ): void => {
    const found = open(repository, request, response);
    if (found === null) return;
    const file = found.get(path);
    if (file === undefined) return void response.writeHead(404, { 'x-error-code': 'EntryNotFound' }).end();
    response.writeHead(302, {
      location: fault?.kind === 'redirect' ? fault.location : `${cdnUrl()}/${file.sha256}?signature=1`,
      'x-repo-commit': commit,
      ...(fault?.kind === 'no-hash' ? {} : { 'x-linked-etag': `"${file.sha256}"` }),
      'x-linked-size': String(file.bytes),
    });
    response.end();
  };

  const cdn = http.createServer((request, response) => {
    note('cdn', request, response);
    const sha256 = /^\/([0-9a-f]{64})/.exec(request.url ?? '')?.[1];
    const file = [...files.values()]
      .flatMap((each) => [...each.values()])
      .find((each) => each.sha256 === sha256);
    if (file === undefined) return void response.writeHead(404).end();
    if (fault?.kind === 'cdn-status' && fault.times > 0) {
      fault.times--;
      return void response.writeHead(fault.status).end();
    }
    void sendContent(file, request, response);
  });

  const sendContent = async (
    file: HubFile,
    request: http.IncomingMessage,
    response: http.ServerResponse,
  ): Promise<void> => {
    const etag = `"${file.sha256.slice(0, 32)}"`;
    const range = /^bytes=(\d+)-$/.exec(request.headers.range ?? '');
    const ifRange = request.headers['if-range'];
    const ranged =
      range !== null && fault?.kind !== 'no-ranges' && (ifRange === undefined || ifRange === etag);
    const start = ranged ? Number(range[1]) : 0;
    if (start >= file.bytes) {
      response.writeHead(416, { 'content-range': `bytes */${file.bytes}` }).end();
      return;
    }
    response.writeHead(ranged ? 206 : 200, {
      etag,
      'accept-ranges': 'bytes',
      ...(fault?.kind === 'too-much' ? {} : { 'content-length': String(file.bytes - start) }),
      ...(ranged ? { 'content-range': `bytes ${start}-${file.bytes - 1}/${file.bytes}` } : {}),
    });
    let sent = 0;
    for await (const piece of createReadStream(file.file, { start, highWaterMark: 64 * 1024 })) {
      let bytes = piece as Buffer;
      if (fault?.kind === 'wrong-content' && start + sent === 0) bytes = corrupted(bytes);
      if ((fault?.kind === 'cut' || fault?.kind === 'stall') && fault.times > 0) {
        const left = fault.afterBytes - sent;
        if (bytes.length >= left) {
          fault.times--;
          const cut = fault.kind === 'cut';
          if (fault.kind === 'cut' && fault.times === 0 && fault.then !== undefined) fault = fault.then;
          // The end of the connection must not overtake the bytes before it.
          response.write(bytes.subarray(0, left), () => void (cut && response.socket?.end()));
          return;
        }
      }
      sent += bytes.length;
      if (!(await written(response, bytes))) return;
    }
    if (fault?.kind === 'too-much') response.write('more');
    response.end();
  };

  /** Writes with back-pressure, slowly if asked to; false when the client is gone. */
  const written = async (response: http.ServerResponse, bytes: Buffer): Promise<boolean> => {
    const size = fault?.kind === 'slow' ? fault.pieceBytes : bytes.length;
    for (let at = 0; at < bytes.length && !response.destroyed; at += size) {
      if (!response.write(bytes.subarray(at, at + size))) {
        const gone = new AbortController();
        const close = (): void => gone.abort();
        response.once('close', close);
        await once(response, 'drain', { signal: gone.signal }).catch(() => undefined);
        response.off('close', close);
      }
      if (fault?.kind === 'slow') await pause(fault.pauseMs);
    }
    return !response.destroyed;
  };

  const sockets = new Set<Socket>();
  for (const server of [hub, cdn]) {
    server.on('connection', (socket) => {
      sockets.add(socket);
      socket.on('close', () => sockets.delete(socket));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  }
  const urlOf = (server: http.Server) => (): string =>
    `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const hubUrl = urlOf(hub);
  const cdnUrl = urlOf(cdn);

  return {
    url: hubUrl(),
    cdnUrl: cdnUrl(),
    requests,
    async add(repository, path, file, { access = 'public' } = {}) {
      const content = await readFile(file);
      const entries = files.get(repository) ?? new Map<string, HubFile>();
      files.set(repository, entries);
      const sha256 = createHash('sha256').update(content).digest('hex');
      entries.set(path, { file, bytes: content.length, sha256, access });
    },
    misbehave(next) {
      fault = next;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await Promise.all([hub, cdn].map((server) => new Promise((resolve) => server.close(resolve))));
    },
  };
}

function corrupted(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes);
  copy[copy.length - 1] = (copy.at(-1) ?? 0) ^ 1;
  return copy;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
