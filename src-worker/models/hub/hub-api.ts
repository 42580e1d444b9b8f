import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { CoveyError } from '#shared/errors.ts';
import { ConnectionError, hubRequest, readText, type HubSettings } from './request.ts';
import type { RepositoryFile } from './source.ts';

/** A file of a repository, pinned to a commit and to its content. */
export interface RemoteFile {
  readonly path: string;
  readonly bytes: number;
  /** 64 hex digits: the content's, as the hub's large-file storage names it. */
  readonly sha256: string;
  /** Path of the download on the hub. */
  readonly requestPath: string;
}

const REVISION = 'main';
const ANSWER_BYTES = 8 * 1024 * 1024;
const MAX_PAGES = 50;
const MAX_FILE_BYTES = 16 * 1024 ** 4;

const treeSchema = z.array(
  z.object({ type: z.string(), path: z.string().max(1024), size: z.number().int().nonnegative().catch(0) }),
);

/** All files of a repository (`GET /api/models/{repo}/tree/{revision}`), page by page. */
export async function listFiles(
  settings: HubSettings,
  repository: string,
  signal: AbortSignal,
): Promise<RepositoryFile[]> {
  const files: RepositoryFile[] = [];
  let path: string | null = `/api/models/${repository}/tree/${REVISION}?recursive=true`;
  for (let page = 0; path !== null && page < MAX_PAGES; page++) {
    const response = await hubRequest(settings, { method: 'GET', path, follow: 'hub', signal });
    if (response.statusCode !== 200) throw await answerError(response, repository, settings);
    const answer = treeSchema.safeParse(parseJson(await readText(response, ANSWER_BYTES)));
    if (!answer.success)
      throw new CoveyError('download_failed', `the hub's list of files of ${repository} is not readable`);
    for (const item of answer.data)
      if (item.type === 'file') files.push({ path: item.path, bytes: item.size });
    const { link } = response.headers;
    path = nextPage(typeof link === 'string' ? link : '', settings);
  }
  return files;
}

/**
 * What the hub says of a file before it is fetched: `HEAD .../resolve/...` answers for large files with a redirect
 * that carries the content's hash and size (`X-Linked-Etag`, `X-Linked-Size`) and the commit.
 */
export async function describeFile(
  settings: HubSettings,
  repository: string,
  file: string,
  signal: AbortSignal,
): Promise<RemoteFile> {
  const encoded = file.split('/').map(encodeURIComponent).join('/');
  const response = await hubRequest(settings, {
    method: 'HEAD',
    path: `/${repository}/resolve/${REVISION}/${encoded}`,
    follow: 'hub',
    signal,
  });
  const status = response.statusCode ?? 0;
  if (status >= 400) throw await answerError(response, `${repository}/${file}`, settings);
  response.destroy();
  const header = (name: string): string => {
    const value = response.headers[name];
    return typeof value === 'string' ? value : '';
  };
  const sha256 = (header('x-linked-etag') || header('etag')).replace(/^W\//, '').replaceAll('"', '');
  if (!/^[0-9a-f]{64}$/.test(sha256)) {
    throw new CoveyError(
      'download_failed',
      `the hub names no SHA-256 for ${file}, so it could not be checked`,
    );
  }
  const bytes = Number(header('x-linked-size') || (status < 300 ? header('content-length') : ''));
  if (!Number.isSafeInteger(bytes) || bytes < 1 || bytes > MAX_FILE_BYTES) {
    throw new CoveyError('download_failed', `the hub names no size for ${file}`);
  }
  const commit = header('x-repo-commit');
  const revision = /^[0-9a-f]{40}$/.test(commit) ? commit : REVISION;
  return { path: file, bytes, sha256, requestPath: `/${repository}/resolve/${revision}/${encoded}` };
}

/** What a refusal of the hub means; the answer's body is not kept. */
export async function answerError(
  response: IncomingMessage,
  what: string,
  settings: HubSettings,
): Promise<CoveyError> {
  const status = response.statusCode ?? 0;
  const code = response.headers['x-error-code'];
  const retryAfterS = Number(response.headers['retry-after']);
  response.destroy();
  const withToken =
    settings.token === null
      ? 'set HF_TOKEN to a token that may read it'
      : 'the token in HF_TOKEN may not read it';
  if (code === 'GatedRepo') {
    return new CoveyError(
      'download_denied',
      `${what} asks for its terms to be accepted on the hub first; then ${withToken}`,
    );
  }
  // The hub answers 401 for what does not exist too, so as not to tell what is private.
  if (status === 404 || code === 'RepoNotFound' || code === 'EntryNotFound' || code === 'RevisionNotFound') {
    const hidden = status === 401 ? `, or it is private: ${withToken}` : '';
    return new CoveyError('download_not_found', `the hub has no ${what}${hidden}`, { field: 'source' });
  }
  if (status === 401 || status === 403) {
    return new CoveyError('download_denied', `the hub does not give ${what} out: ${withToken}`);
  }
  if (status === 429) {
    const wait = Number.isFinite(retryAfterS) && retryAfterS > 0 ? { retryAfterS } : {};
    return new CoveyError('too_many_requests', 'the hub limits how often one may ask; try again later', wait);
  }
  return new CoveyError('download_failed', `the hub answered ${status} for ${what}`);
}

/** A failure to reach the hub, under its own code; everything else as it is. */
export function unreachable(thrown: unknown): unknown {
  if (!(thrown instanceof ConnectionError)) return thrown;
  return new CoveyError('hub_unreachable', `the hub cannot be reached: ${thrown.message}`, {}, thrown);
}

/** `Link: <url>; rel="next"`, on the hub only. */
function nextPage(link: string, settings: HubSettings): string | null {
  const target = /<([^>]+)>\s*;\s*rel="next"/.exec(link)?.[1];
  if (target === undefined || !URL.canParse(target, settings.baseUrl)) return null;
  const url = new URL(target, settings.baseUrl);
  const base = new URL(settings.baseUrl);
  if (url.origin !== base.origin) return null;
  const prefix = base.pathname.replace(/\/$/, '');
  return url.pathname.startsWith(prefix) ? url.pathname.slice(prefix.length) + url.search : null;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
