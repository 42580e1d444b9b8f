import type { IncomingMessage } from 'node:http';
import { CoveyError } from '#shared/errors.ts';

/** The names under which a listener may be called. Names are in lower case, IPv6 addresses in brackets. */
export interface HostPolicy {
  readonly scheme: 'http' | 'https';
  readonly port: number;
  /** Its own: good with its own port only. */
  readonly names: readonly string[];
  /** The setting `api.allowedHosts`: a proxy in front may have any port. */
  readonly allowedHosts: readonly string[];
}

export const loopbackNames: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

/**
 * Refuses requests that a web page could have made (DNS rebinding, cross-site requests): the Host must be one
 * of the listener's names, and a browser's request must come from a page that we served ourselves.
 * @throws CoveyError `host_not_allowed`, `origin_not_allowed`, `invalid_request`
 */
export function checkCaller(req: IncomingMessage, policy: HostPolicy): void {
  const { rawHeaders } = req;
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if ((rawHeaders[index] as string).toLowerCase() === 'host') hosts++;
  }
  if (hosts > 1) {
    throw new CoveyError('invalid_request', 'The request has more than one Host header.', { field: 'Host' });
  }
  const host = req.headers.host?.toLowerCase() ?? '';
  if (!isAllowed(host, policy)) throw hostRefused(host, policy);
  const { origin } = req.headers;
  if (origin !== undefined && !isOwnOrigin(origin.toLowerCase(), policy)) {
    throw new CoveyError(
      'origin_not_allowed',
      `Pages of "${shown(origin)}" may not call this address; only its own pages may.`,
      { field: 'Origin' },
    );
  }
  // Requests that carry no Origin, such as those for images and frames; a person who follows a link may come in.
  const site = req.headers['sec-fetch-site'];
  const byPage = site === 'cross-site' || site === 'same-site';
  const into = req.headers['sec-fetch-dest'] ?? 'document';
  const navigates = req.headers['sec-fetch-mode'] === 'navigate' && req.method === 'GET';
  const follows = navigates && into === 'document';
  if (byPage && !follows) {
    throw new CoveyError('origin_not_allowed', 'Pages of other sites may not call this address.', {
      field: 'Sec-Fetch-Site',
    });
  }
}

const authority = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?$/;

function isAllowed(host: string, policy: HostPolicy): boolean {
  const match = authority.exec(host);
  if (!match) return false;
  const name = match[1] as string;
  // Clients leave out the port when it is the scheme's own.
  const port = match[2] === undefined ? (policy.scheme === 'http' ? 80 : 443) : Number(match[2]);
  return (port === policy.port && policy.names.includes(name)) || policy.allowedHosts.includes(name);
}

/** The proxy of an allowed host may add or take away TLS. */
function isOwnOrigin(origin: string, policy: HostPolicy): boolean {
  const match = /^(https?):\/\/(.+)$/.exec(origin);
  if (!match) return false;
  const host = match[2] as string;
  if (match[1] === policy.scheme && isAllowed(host, policy)) return true;
  return policy.allowedHosts.includes(authority.exec(host)?.[1] ?? '');
}

function hostRefused(host: string, policy: HostPolicy): CoveyError {
  const names = policy.names.slice(0, 8).map((name) => `${name}:${policy.port}`);
  return new CoveyError(
    'host_not_allowed',
    `The Host header ${host === '' ? 'is missing' : `"${shown(host)}" is not allowed`}. ` +
      `This address answers as ${names.join(', ')}; the setting api.allowedHosts allows other names.`,
    { field: 'Host' },
  );
}

function shown(text: string): string {
  return text.slice(0, 100).replace(/[^\x20-\x7e]/g, '?');
}
