import { describe, expect, it } from 'vitest';
import { FramingError } from './chunked-framing.ts';
import { chunk } from './fixtures.ts';
import { parseResponseHead, type ResponseHead } from './response-head.ts';
import { ResponseReader, type BodyForm } from './response-reader.ts';

interface Seen {
  head: ResponseHead | null;
  body: string;
  ends: number;
  /** The body after each call. */
  steps: string[];
}

function read(pieces: readonly string[], form: BodyForm): { seen: Seen; reader: ResponseReader } {
  const seen: Seen = { head: null, body: '', ends: 0, steps: [] };
  const reader = new ResponseReader({
    onHead(head) {
      seen.head = head;
      return form;
    },
    onBody(bytes, from, to) {
      expect(to).toBeGreaterThan(from);
      seen.body += bytes.toString('latin1', from, to);
      return false;
    },
    onEnd: () => void seen.ends++,
  });
  for (const piece of pieces) {
    const bytes = Buffer.from(`--${piece}--`, 'latin1');
    reader.push(bytes, 2, bytes.length - 2);
    // The memory is not the reader's after the call.
    bytes.fill('!');
    seen.steps.push(seen.body);
  }
  return { seen, reader };
}

const chunkedHead =
  'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n';
const chunks = chunk('data: one\n\n') + chunk('data: two\n\n');
const chunkedAnswer = `${chunkedHead}${chunks}0\r\n\r\n`;
const lengthAnswer = 'HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello';

describe('ResponseReader', () => {
  it('gives the same, cut at any place', () => {
    for (let cut = 0; cut <= chunkedAnswer.length; cut++) {
      const pieces = [chunkedAnswer.slice(0, cut), chunkedAnswer.slice(cut)];
      const raw = read(pieces, 'chunks').seen;
      expect([raw.body, raw.ends, raw.head?.status]).toEqual([chunks, 1, 200]);
      expect(read(pieces, 'payload').seen).toMatchObject({ body: 'data: one\n\ndata: two\n\n', ends: 1 });
    }
    for (let cut = 0; cut <= lengthAnswer.length; cut++) {
      const pieces = [lengthAnswer.slice(0, cut), lengthAnswer.slice(cut)];
      expect(read(pieces, 'payload').seen).toMatchObject({ body: 'hello', ends: 1 });
    }
  });

  it('gives the same, byte by byte', () => {
    expect(read([...chunkedAnswer], 'chunks').seen).toMatchObject({ body: chunks, ends: 1 });
    expect(read([...chunkedAnswer], 'payload').seen).toMatchObject({
      body: 'data: one\n\ndata: two\n\n',
      ends: 1,
    });
  });

  it('holds back a chunk until it is whole', () => {
    const first = chunk('data: one\n\n');
    const { seen } = read([chunkedHead + first + 'b\r\ndata: t', 'wo\n\n\r', '\n'], 'chunks');
    expect(seen.steps).toEqual([first, first, chunks]);
    expect(seen.ends).toBe(0);
  });

  it('is not done when the peer closes before the end', () => {
    const cutChunk = read([chunkedAnswer.slice(0, -3)], 'chunks');
    cutChunk.reader.finish();
    expect(cutChunk.reader.done).toBe(false);
    const cutLength = read([lengthAnswer.slice(0, -1)], 'payload');
    cutLength.reader.finish();
    expect(cutLength.reader.done).toBe(false);
    const noHead = read(['HTTP/1.1 200 OK\r\n'], 'payload');
    noHead.reader.finish();
    expect(noHead.reader.done).toBe(false);
  });

  it('takes the close as the end where the head gives none', () => {
    const { seen, reader } = read(['HTTP/1.0 200 OK\r\n\r\n', 'all of it'], 'payload');
    expect(seen.ends).toBe(0);
    reader.finish();
    expect(seen).toMatchObject({ body: 'all of it', ends: 1 });
  });

  it('passes over interim answers', () => {
    const { seen } = read(
      [`HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nX: y\r\n\r\n${lengthAnswer}`],
      'payload',
    );
    expect(seen).toMatchObject({ body: 'hello', ends: 1, head: { status: 404 } });
  });

  it('ends at once for an answer without a body', () => {
    expect(read(['HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'], 'payload').seen).toMatchObject({
      body: '',
      ends: 1,
    });
    expect(read(['HTTP/1.1 204 No Content\r\n\r\n'], 'payload').seen).toMatchObject({ body: '', ends: 1 });
  });

  it('ignores bytes after the end', () => {
    expect(read([`${lengthAnswer}more`, 'and more'], 'payload').seen).toMatchObject({
      body: 'hello',
      ends: 1,
    });
  });

  it('bounds the head', () => {
    const endless = `HTTP/1.1 200 OK\r\nX: ${'y'.repeat(1_000)}`;
    expect(() => read([endless, ...Array.from({ length: 20 }, () => 'y'.repeat(1_000))], 'payload')).toThrow(
      FramingError,
    );
  });

  it('says when the sink keeps the memory', () => {
    const reader = new ResponseReader({ onHead: () => 'chunks', onBody: () => true, onEnd: () => undefined });
    const push = (text: string): boolean => reader.push(Buffer.from(text, 'latin1'), 0, text.length);
    expect(push(chunkedHead + chunk('data: one\n\n'))).toBe(false);
    expect(push(chunk('data: two\n\n'))).toBe(true);
  });
});

describe('parseResponseHead', () => {
  it('reads status, headers and framing', () => {
    const head = parseResponseHead(
      'HTTP/1.1 503 Service Unavailable\r\nRetry-After:  5 \r\nA: 1\r\na: 2\r\nContent-Length: 12',
    );
    expect(head.status).toBe(503);
    expect(Object.fromEntries(head.headers)).toEqual({
      'retry-after': '5',
      a: '1, 2',
      'content-length': '12',
    });
    expect(head.framing).toEqual({ kind: 'length', bytes: 12 });
  });

  it.each([
    ['another protocol', 'SSH-2.0-OpenSSH'],
    ['HTTP/2', 'HTTP/2 200'],
    ['a status that is none', 'HTTP/1.1 20 OK'],
    ['a header without a colon', 'HTTP/1.1 200 OK\r\nnope'],
    ['a space before the colon', 'HTTP/1.1 200 OK\r\nContent-Length : 5'],
    ['a folded header', 'HTTP/1.1 200 OK\r\nA: b\r\n c'],
    ['length and coding', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked'],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6'],
    ['a negative length', 'HTTP/1.1 200 OK\r\nContent-Length: -5'],
    ['another coding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked'],
    ['too many headers', `HTTP/1.1 200 OK${'\r\na: b'.repeat(101)}`],
  ])('refuses %s', (_name, text) => {
    expect(() => parseResponseHead(text)).toThrow(FramingError);
  });
});
