import type OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import {
  answer,
  chunk,
  eventStreamHead,
  parseAnswer,
  postText,
  rawExchange,
  startUpstream,
} from '../../../nodejs/http/fixtures.ts';
import { completion, hello, part, useScriptedGateway } from '../fixtures.ts';

const gateway = useScriptedGateway();

describe('an engine that fails', () => {
  const ask = async (
    body: object = hello,
  ): Promise<{ status: number; error: Record<string, unknown>; text: string }> => {
    const text = await rawExchange(
      gateway.server.port,
      postText(gateway.server.port, '/v1/chat/completions', body, ['Connection: close']),
    );
    const parsed = parseAnswer(text);
    return {
      status: parsed.status,
      error: (JSON.parse(parsed.body) as { error: Record<string, unknown> }).error,
      text,
    };
  };

  it.each([
    ['before a byte', ''],
    ['within the head', 'HTTP/1.1 200 OK\r\nContent-'],
    ['within a whole answer', answer(200, completion).slice(0, -10)],
    [
      'within a chunked answer',
      `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${chunk('{"a":')}`,
    ],
    ['with something that is no HTTP', 'hello\r\n\r\n'],
  ])('is a proper error when it closes %s', async (_name, bytes) => {
    gateway.script = ({ socket }) => socket.end(bytes);
    const { status, error } = await ask();
    expect([status, error['code'], error['type'], error['param']]).toEqual([
      502,
      'engine_lost',
      'server_error',
      null,
    ]);
    expect(gateway.routes.ends).toEqual(['unreachable']);
  });

  it('is a proper error when it resets the connection', async () => {
    gateway.script = ({ socket }) => socket.resetAndDestroy();
    expect((await ask()).error['code']).toBe('engine_lost');
  });

  it('is a proper error when nobody listens', async () => {
    await gateway.upstream.close();
    const { status, error } = await ask();
    expect([status, error['code']]).toEqual([502, 'engine_unreachable']);
    gateway.upstream = await startUpstream(() => undefined);
  });

  it.each([
    [
      401,
      '{"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}}',
      502,
      'engine_unreachable',
      'server_error',
    ],
    [
      503,
      '{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}',
      503,
      'not_ready',
      'server_error',
    ],
    [
      501,
      '{"error":{"code":501,"message":"no embeddings","type":"not_supported_error"}}',
      501,
      'not_supported',
      'invalid_request_error',
    ],
    [
      500,
      '{"error":{"code":500,"message":"boom","type":"server_error"}}',
      500,
      'server_error',
      'server_error',
    ],
    [
      400,
      '{"error":{"code":400,"message":"bad \\"n\\"","type":"invalid_request_error"}}',
      400,
      'invalid_request_error',
      'invalid_request_error',
    ],
    [500, 'out of order', 500, 'server_error', 'server_error'],
    [404, '', 404, 'invalid_request_error', 'invalid_request_error'],
  ])('answers %i %s as %i %s', async (given, body, status, code, type) => {
    gateway.script = ({ socket }) => socket.end(answer(given, body));
    const result = await ask();
    expect([result.status, result.error['code'], result.error['type']]).toEqual([status, code, type]);
    expect(result.error['message']).not.toBe('');
    if (status === 503) expect(result.text).toMatch(/^retry-after: \d+$/im);
    expect(result.text).not.toContain('API Key');
  });

  it('in a stream: cut at any byte, the client has whole events, then an error, then the end', async () => {
    const first = part('one');
    const second = part('two');
    const whole = eventStreamHead + first + second;
    const places = Array.from({ length: whole.length }, (_, index) => index).filter(
      (at) => at > eventStreamHead.length && at % 7 === 0,
    );
    gateway.script = ({ socket, body }) => {
      const { cut } = JSON.parse(body.toString()) as { cut: number };
      // In two writes, so that the end of the first is the end of a read.
      socket.write(whole.slice(0, cut - 3), () => setTimeout(() => socket.end(whole.slice(cut - 3, cut)), 5));
    };
    await Promise.all(
      places.map(async (cut) => {
        const text = postText(gateway.server.port, '/v1/chat/completions', { ...hello, cut, stream: true }, [
          'Connection: close',
        ]);
        const { status, body, complete } = parseAnswer(await rawExchange(gateway.server.port, text));
        expect([status, complete]).toEqual([200, true]);
        const events = body.split('\n\n').filter((event) => event !== '');
        const contents = events
          .slice(0, -1)
          .map(
            (event) => (JSON.parse(event.slice(6)) as OpenAI.ChatCompletionChunk).choices[0]?.delta.content,
          );
        const expected =
          cut >= whole.length ? ['one', 'two'] : cut >= whole.length - second.length ? ['one'] : [];
        expect(contents).toEqual(expected);
        const { error } = JSON.parse(events.at(-1)?.slice(6) ?? '') as { error: Record<string, unknown> };
        expect(error['code']).toBe('engine_lost');
      }),
    );
  }, 15_000);

  it('in a stream that is malformed: an error, then the end', async () => {
    gateway.script = ({ socket }) => {
      socket.write(eventStreamHead + part('one'));
      setTimeout(() => socket.write('zz\r\n'), 20);
    };
    const text = postText(gateway.server.port, '/v1/chat/completions', { ...hello, stream: true }, [
      'Connection: close',
    ]);
    const { body, complete } = parseAnswer(await rawExchange(gateway.server.port, text));
    expect(complete).toBe(true);
    expect(body).toMatch(/"one".*\n\ndata: \{"error":.*engine_lost.*\}\n\n$/s);
  });
});
