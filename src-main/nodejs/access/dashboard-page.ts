import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { CoveyError } from '#shared/errors.ts';
import type { HttpCall } from '../http/http-call.ts';
import { coveyShape } from '../http/respond.ts';
import type { HttpRoute, RouteGroup } from '../http/router.ts';

/** The build puts the pages beside the program's bundles. */
const defaultDirectory = import.meta.filename.endsWith('.ts')
  ? join(import.meta.dirname, '..', '..', '..', 'dist', 'dashboard')
  : join(import.meta.dirname, 'dashboard');

const types: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
};
/** The build stores these with a `.gz` beside them. */
const compressed = new Set(['.js', '.css', '.svg']);
const dayS = 86_400;
const noncePlace = '__STYLE_NONCE__';

/** In nobody's frame; what the page shows stays out of referrers. */
const headers = {
  'x-frame-options': 'DENY',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
} as const;

/**
 * Nothing from elsewhere and no inline script. Components make style elements and set style attributes (where a
 * menu opens, how long a bar is); the elements need the nonce of this answer.
 */
function contentPolicy(nonce: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "style-src-attr 'unsafe-inline'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}

/** The dashboard. It holds nothing secret: what it shows comes from `/api`, to those who have logged in. */
export function dashboardPage(directory: string = defaultDirectory): RouteGroup {
  const route = (path: string, handle: HttpRoute['handle']): HttpRoute => ({
    method: 'GET',
    path,
    access: 'public',
    handle,
  });
  return {
    prefix: '/dashboard',
    errorShape: coveyShape,
    routes: [
      route('/', (call) => sendPage(call, directory, 'index.html')),
      route('/dashboard/assets/:name', (call) => sendFile(call, join(directory, 'assets'), 365 * dayS)),
      route('/dashboard/:name', (call) => sendFile(call, directory, dayS)),
    ],
  };
}

/**
 * The page of this machine itself. It works when the controller is away, and it holds nothing secret: the app, or
 * a one-time link, gives it the right to this machine's own routes. Its assets are the dashboard's.
 */
export function machinePage(directory: string = defaultDirectory): RouteGroup {
  const handle: HttpRoute['handle'] = (call) => sendPage(call, directory, 'machine/index.html');
  return {
    prefix: '/machine',
    errorShape: coveyShape,
    routes: [{ method: 'GET', path: '/machine', access: 'public', handle }],
  };
}

async function sendPage({ res }: HttpCall, directory: string, name: string): Promise<void> {
  let html: string;
  try {
    html = await readFile(join(directory, name), 'utf8');
  } catch (error) {
    throw new CoveyError('route_not_found', 'The dashboard was not built: run "npm run build".', {}, error);
  }
  const nonce = randomBytes(16).toString('base64');
  const bytes = Buffer.from(html.replace(noncePlace, nonce));
  res.writeHead(200, {
    ...headers,
    'content-security-policy': contentPolicy(nonce),
    'content-type': 'text/html; charset=utf-8',
    'content-length': bytes.length,
    'cache-control': 'no-store',
  });
  res.end(bytes);
}

/** @param lifeS how long a browser may keep it; names of assets change with their content */
async function sendFile({ req, res, params }: HttpCall, directory: string, lifeS: number): Promise<void> {
  const name = params['name'] ?? '';
  const extension = extname(name);
  const type = types[extension];
  // One plain segment: nothing that leads out of the directory.
  if (type === undefined || !/^[\w-][\w.-]*$/.test(name)) throw missing(name);
  const gzip = compressed.has(extension) && /\bgzip\b/.test(String(req.headers['accept-encoding'] ?? ''));
  let bytes: Buffer;
  try {
    bytes = await readFile(join(directory, gzip ? `${name}.gz` : name));
  } catch (error) {
    throw missing(name, error);
  }
  res.writeHead(200, {
    ...headers,
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    'content-type': type,
    'content-length': bytes.length,
    'cache-control': `public, max-age=${lifeS}${lifeS > dayS ? ', immutable' : ''}`,
    ...(compressed.has(extension) ? { vary: 'accept-encoding' } : {}),
    ...(gzip ? { 'content-encoding': 'gzip' } : {}),
  });
  res.end(bytes);
}

function missing(name: string, cause?: unknown): CoveyError {
  const shown = name.slice(0, 100).replace(/[^\x20-\x7e]/g, '?');
  return new CoveyError('route_not_found', `The dashboard has no file "${shown}".`, {}, cause);
}
