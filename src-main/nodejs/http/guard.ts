import type { IncomingMessage } from 'node:http';
import { CoveyError } from '#shared/errors.ts';

/**
 * Refuses requests that a web page could have made (DNS rebinding, cross-site requests): the Host must be a
 * loopback name with our port, and a browser's request must come from a page that we served ourselves.
 * @param port the port that this server listens on
 * @throws CoveyError `host_not_allowed`, `origin_not_allowed`, `invalid_request`
 */
export function checkLoopbackCaller(req: IncomingMessage, port: number): void {
  const hosts = req.rawHeaders.filter((header, index) => index % 2 === 0 && header.toLowerCase() === 'host');
  if (hosts.length > 1) {
    throw new CoveyError('invalid_request', 'The request has more than one Host header.', { field: 'Host' });
  }
  const allowed = loopbackAuthorities(port);
  const host = req.headers.host?.toLowerCase() ?? '';
  if (!allowed.includes(host)) {
    throw new CoveyError(
      'host_not_allowed',
      `The Host header ${host === '' ? 'is missing' : `"${shown(host)}" is not allowed`}. ` +
        `This address answers as ${allowed.join(', ')}.`,
      { field: 'Host' },
    );
  }
  const { origin } = req.headers;
  if (origin !== undefined && !allowed.some((authority) => origin.toLowerCase() === `http://${authority}`)) {
    throw new CoveyError(
      'origin_not_allowed',
      `Pages of "${shown(origin)}" may not call this address; only http://${allowed[0]} itself may.`,
      { field: 'Origin' },
    );
  }
  // Requests that carry no Origin, such as those for images; a person who follows a link may come in.
  const site = req.headers['sec-fetch-site'];
  const byPage = site === 'cross-site' || site === 'same-site';
  if (byPage && req.headers['sec-fetch-mode'] !== 'navigate') {
    throw new CoveyError('origin_not_allowed', 'Pages of other sites may not call this address.', {
      field: 'Sec-Fetch-Site',
    });
  }
}

function loopbackAuthorities(port: number): string[] {
  const names = ['localhost', '127.0.0.1', '[::1]'];
  // Clients leave out the port when it is the scheme's own.
  return names.flatMap((name) => (port === 80 ? [`${name}:80`, name] : [`${name}:${port}`]));
}

function shown(text: string): string {
  return text.slice(0, 100).replace(/[^\x20-\x7e]/g, '?');
}
