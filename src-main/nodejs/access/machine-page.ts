import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CoveyError } from '#shared/errors.ts';
import type { HttpCall } from '../http/http-call.ts';
import { coveyShape } from '../http/respond.ts';
import type { HttpRoute, RouteGroup } from '../http/router.ts';

/** The build puts the page beside the program's bundles. */
const directory = import.meta.filename.endsWith('.ts')
  ? join(import.meta.dirname, '..', '..', '..', 'dist', 'machine')
  : join(import.meta.dirname, 'machine');

const files = [
  { path: '/machine', name: 'index.html', type: 'text/html; charset=utf-8' },
  { path: '/machine/machine.js', name: 'machine.js', type: 'text/javascript; charset=utf-8' },
  { path: '/machine/machine.css', name: 'machine.css', type: 'text/css; charset=utf-8' },
] as const;

/** Nothing from elsewhere, nothing inline, in nobody's frame. */
const headers = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-frame-options': 'DENY',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
} as const;

/**
 * The page of this machine itself, for the desktop app: it works when the controller is away. It holds nothing
 * secret; the app gives it the right to this machine's own routes.
 */
export function machinePage(): RouteGroup {
  return {
    prefix: '/machine',
    errorShape: coveyShape,
    routes: files.map(({ path, name, type }): HttpRoute => ({
      method: 'GET',
      path,
      access: 'public',
      handle: (call) => send(call, name, type),
    })),
  };
}

async function send({ res }: HttpCall, name: string, type: string): Promise<void> {
  let bytes: Buffer;
  try {
    bytes = await readFile(join(directory, name));
  } catch (error) {
    throw new CoveyError('route_not_found', 'The page was not built: run "npm run build".', {}, error);
  }
  res.writeHead(200, { ...headers, 'content-type': type, 'content-length': bytes.length });
  res.end(bytes);
}
