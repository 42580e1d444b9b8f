import { Buffer } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';

const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Not found · Covey</title>
<h1>There is no page at this address</h1>
<p><a href="/">Open the dashboard</a></p>
</html>
`;

/** Browsers say so when they follow an address; programs ask for JSON, or for anything. */
export function wantsPage({ method, headers }: IncomingMessage): boolean {
  return (method === 'GET' || method === 'HEAD') && /\btext\/html\b/i.test(headers.accept ?? '');
}

/** 404 for a person. Nothing of what was asked for is in it. */
export function respondNoPage(res: ServerResponse): void {
  const bytes = Buffer.from(page);
  res.writeHead(404, {
    'content-type': 'text/html; charset=utf-8',
    'content-length': bytes.length,
    'cache-control': 'no-store',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
  });
  res.end(bytes);
}
