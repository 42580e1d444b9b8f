import { apiRoutes } from '../../../src-main/shared/api/schema.ts';
import { mutateBytes, mutateJsonText } from '../mutate.ts';
import type { Random } from '../random.ts';

/** What the fuzzed requests are made for. */
export interface HttpContext {
  readonly port: number;
  readonly token: string;
  /** Of the controller; its children count too. */
  readonly pid: number;
}

const parameters = [
  'anna',
  'd-00000001',
  'a'.repeat(64),
  '..%2f..',
  '%00',
  '%zz',
  'a%2Fb',
  'é',
  'x'.repeat(300),
];
const otherTargets = [
  '/healthz',
  '/',
  '/v1/models',
  '/v1/models/a/b/c',
  '/v1/completions',
  '/v1/chat/completions',
  '/v1/embeddings',
  '/v1/other',
  '/api',
  '/api/',
  '//api/status',
  '/api/../api/status',
  '/API/status',
  '/api/status?x=1&x=2#y',
  '/api/logs?limit=5&node=anna',
  '/api/logs?limit=-1',
  '/api/events?x',
  'http://127.0.0.1/api/status',
  '*',
  '/\u0000',
  `/${'a'.repeat(9_000)}`,
];
/** They measure for seconds; asked for now and then. */
const slow = new Set<string>(['/api/doctor', '/api/discovery']);
const routes: readonly { readonly method: string; readonly path: string }[] = Object.values(apiRoutes);
const oddHeaders = [
  'Content-Length: 5',
  'Content-Length: -1',
  'Content-Length: 99999999999999999999',
  'Content-Length : 3',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: identity, chunked',
  'Transfer-Encoding: xchunked',
  'Transfer-Encoding:\tchunked',
  ' folded: line',
  'Expect: 100-continue',
  'Expect: 200-ok',
  'Upgrade: websocket',
  'Upgrade: h2c',
  'Connection: Upgrade, HTTP2-Settings',
  'Connection: keep-alive',
  'Origin: http://evil.example',
  'Origin: null',
  'Sec-Fetch-Site: cross-site',
  'Host: evil.example',
  'X-Forwarded-Host: evil.example',
  'Authorization: Bearer covey_local_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA',
  'Authorization: Basic YTpi',
  'Authorization: Bearer',
  'Last-Event-ID: 0',
  'Last-Event-ID: 99999999999999999999',
  'Accept-Encoding: gzip, br',
  'Content-Type: text/plain',
  'Content-Type: application/json; charset=utf-16',
  'Content-Encoding: gzip',
  'Range: bytes=0-',
  'Cookie: a=b',
  ': empty',
  'X\u0000: y',
] as const;

export interface FuzzedRequest {
  readonly bytes: Buffer;
  /** It named another Host than the listener has, and nothing else was wrong with how it did. */
  readonly foreignHost: boolean;
}

/** A request for some route with some body, of which most have something wrong. */
export function makeRequest(random: Random, context: HttpContext, bodies: readonly string[]): FuzzedRequest {
  const route = random.pick(routes);
  let path = route.path.replaceAll(/:\w+/g, () => random.pick(parameters));
  let method = route.method;
  if (slow.has(path) && !random.oneIn(40)) path = '/api/status';
  if (random.oneIn(4)) path = random.pick(otherTargets);
  if (random.oneIn(8))
    method = random.pick(['GET', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'HEAD', 'PATCH', 'BREW', 'PRI']);
  const foreignHost = random.oneIn(12);
  const ownHost = random.pick(['127.0.0.1', 'localhost', '[::1]']);
  const host = foreignHost
    ? random.pick(['evil.example', `evil.example:${context.port}`, `127.0.0.1.evil.example:${context.port}`])
    : `${ownHost}:${context.port}`;
  const withBody = method !== 'GET' && method !== 'HEAD';
  const body = withBody ? Buffer.from(mutateJsonText(random, bodies)) : Buffer.alloc(0);
  const lines = [`${method} ${path} HTTP/1.1`, `Host: ${host}`];
  if (!random.oneIn(8)) lines.push(`Authorization: Bearer ${context.token}`);
  if (withBody && !random.oneIn(12)) lines.push('Content-Type: application/json');
  const chunked = withBody && random.oneIn(6);
  if (chunked) lines.push('Transfer-Encoding: chunked');
  else if (withBody) {
    lines.push(`Content-Length: ${body.length + (random.oneIn(16) ? random.pick([-1, 1, 100_000]) : 0)}`);
  }
  let odd = 0;
  for (; random.oneIn(4) && odd < 4; odd += 1) {
    lines.splice(1 + random.int(lines.length), 0, random.pick(oddHeaders));
  }
  if (random.oneIn(300)) lines.push(`X-Long: ${'x'.repeat(40_000)}`);
  if (random.oneIn(300)) lines.push(...Array.from({ length: 3_000 }, (_, index) => `X-${index}: y`));
  lines.push('Connection: close');
  const end = random.oneIn(30) ? '\n' : '\r\n';
  const head = Buffer.from(`${lines.join(end)}${end}${end}`, 'latin1');
  const payload = chunked ? chunk(random, body) : body;
  const whole = Buffer.concat([head, payload]);
  const broken = random.oneIn(5);
  return {
    bytes: broken ? mutateBytes(random, whole, [head]) : whole,
    foreignHost: foreignHost && !broken && odd === 0,
  };
}

function chunk(random: Random, body: Buffer): Buffer {
  const pieces: Buffer[] = [];
  for (let at = 0; at < body.length;) {
    const piece = body.subarray(at, at + 1 + random.int(body.length));
    const size = random.oneIn(20)
      ? random.pick(['0', 'ffffffffffffffff', '-1', 'zz', ''])
      : piece.length.toString(16);
    pieces.push(Buffer.from(`${size}${random.oneIn(20) ? ';ext=1' : ''}\r\n`), piece, Buffer.from('\r\n'));
    at += piece.length;
  }
  return Buffer.concat([...pieces, Buffer.from(random.oneIn(20) ? '0\r\nTrailer: x\r\n\r\n' : '0\r\n\r\n')]);
}
