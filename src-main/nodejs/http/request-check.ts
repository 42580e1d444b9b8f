import type { IncomingMessage } from 'node:http';
import { CoveyError } from '#shared/errors.ts';
import { hasBody } from './respond.ts';

/** Node keeps the first 2000 of a request and drops the others in silence: far below, nothing is dropped. */
const maxHeaders = 100;

/**
 * What Node's parser lets through and we do not: whatever a proxy in front could read in another way than we do
 * (RFC 9112, 6.1), targets that are no path, and upgrades. The connection of such a request is closed.
 * @returns the path of the target, without its query
 * @throws CoveyError `invalid_request`, `headers_too_large`
 */
export function checkRequest(req: IncomingMessage): string {
  if (req.rawHeaders.length > 2 * maxHeaders) {
    const what = `The request has more than ${maxHeaders} headers.`;
    throw new CoveyError('headers_too_large', what);
  }
  // Node parses "HTTP/2.0" and "HTTP/0.9" in this form too.
  if (req.httpVersionMajor !== 1) {
    throw new CoveyError('invalid_request', 'Only HTTP/1.1 is spoken here.', { field: 'version' });
  }
  const coding = req.headers['transfer-encoding'];
  if (coding !== undefined && (coding.toLowerCase() !== 'chunked' || req.httpVersionMinor === 0)) {
    throw new CoveyError('invalid_request', 'The only transfer encoding is "chunked", in HTTP/1.1.', {
      field: 'Transfer-Encoding',
    });
  }
  // "h2c" is an offer that some clients make with every request, to be ignored (RFC 9113, 3.1).
  const { upgrade } = req.headers;
  if (upgrade !== undefined && !/^h2c$/i.test(upgrade)) {
    throw new CoveyError('invalid_request', 'There is nothing here to upgrade to: no WebSocket is served.', {
      field: 'Upgrade',
    });
  }
  const url = req.url ?? '';
  if (!url.startsWith('/')) {
    throw new CoveyError(
      'invalid_request',
      'The target of the request must be a path that begins with "/".',
      {
        field: 'path',
      },
    );
  }
  const end = url.indexOf('?');
  return end < 0 ? url : url.slice(0, end);
}

/** A body of another type could come from a form of any page, without asking first. */
export function requireJson(req: IncomingMessage): void {
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
