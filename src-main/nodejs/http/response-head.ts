import { FramingError } from './chunked-framing.ts';

/** Status line and headers together, as Node's own parser bounds them. */
export const maxHeadBytes = 16_384;
const maxHeaders = 100;

export type BodyFraming =
  | { readonly kind: 'chunked' }
  | { readonly kind: 'length'; readonly bytes: number }
  /** The body lasts until the peer closes. */
  | { readonly kind: 'close' };

export interface ResponseHead {
  readonly status: number;
  /** Names in lower case, repeated ones joined by ", ". */
  readonly headers: ReadonlyMap<string, string>;
  readonly framing: BodyFraming;
}

/**
 * Parses the head of an HTTP/1.x response (RFC 9112, 4 and 6.3).
 * @param text the head without its last empty line, as latin1
 * @throws FramingError when it is malformed or its body's end would be ambiguous
 */
export function parseResponseHead(text: string): ResponseHead {
  const lines = text.split('\r\n');
  const match = /^HTTP\/1\.[01] ([1-5]\d\d)(?: [^\r\n]*)?$/.exec(lines[0] ?? '');
  if (!match) throw new FramingError('the answer does not begin with an HTTP status line');
  if (lines.length > maxHeaders + 1) throw new FramingError(`the answer has more than ${maxHeaders} headers`);
  const headers = new Map<string, string>();
  for (const line of lines.slice(1)) {
    const header = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*$/.exec(line);
    if (!header) throw new FramingError('the answer has a malformed header');
    const name = (header[1] as string).toLowerCase();
    const value = header[2] as string;
    const earlier = headers.get(name);
    headers.set(name, earlier === undefined ? value : `${earlier}, ${value}`);
  }
  const status = Number(match[1]);
  return { status, headers, framing: framingOf(status, headers) };
}

function framingOf(status: number, headers: ReadonlyMap<string, string>): BodyFraming {
  if (status < 200 || status === 204 || status === 304) return { kind: 'length', bytes: 0 };
  const coding = headers.get('transfer-encoding');
  const length = headers.get('content-length');
  if (coding !== undefined) {
    if (length !== undefined) throw new FramingError('the answer has both a length and a transfer encoding');
    if (coding.toLowerCase() !== 'chunked') throw new FramingError('the transfer encoding is not "chunked"');
    return { kind: 'chunked' };
  }
  if (length === undefined) return { kind: 'close' };
  if (!/^\d{1,15}$/.test(length)) throw new FramingError('the content length is not a number');
  return { kind: 'length', bytes: Number(length) };
}
