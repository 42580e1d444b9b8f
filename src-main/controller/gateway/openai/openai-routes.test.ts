import { connect } from 'node:net';
import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import {
  answer,
  chunk,
  eventStreamHead,
  getText,
  parseAnswer,
  postText,
  rawClient,
  rawExchange,
  startUpstream,
  within,
  type ScriptedUpstream,
  type UpstreamRequest,
} from '../../../nodejs/http/fixtures.ts';
import { apiKey, scriptedRoutes, startOpenAi, type ScriptedRoutes } from '../fixtures.ts';

type Server = Awaited<ReturnType<typeof startOpenAi>>;

let upstream: ScriptedUpstream;
let script: (request: UpstreamRequest) => void;
let routes: ScriptedRoutes;
let server: Server;
let client: OpenAI;

beforeEach(async () => {
  script = ({ socket }) => socket.destroy();
  upstream = await startUpstream((request) => script(request));
  routes = scriptedRoutes();
  routes.serve('tiny', { kind: 'local', port: upstream.port, apiKey });
  server = await startOpenAi(routes);
  client = new OpenAI({ baseURL: server.url, apiKey: 'sk-of-the-client', maxRetries: 0, timeout: 10_000 });
});

afterEach(async () => {
  await server.close();
  await upstream.close();
});

const part = (text: string): string =>
  chunk(
    `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: text } }] })}\n\n`,
  );
const done = `${chunk('data: [DONE]\n\n')}0\r\n\r\n`;
const hello = { model: 'tiny', messages: [{ role: 'user' as const, content: 'Hi' }] };
const completion = JSON.stringify({
  id: 'c',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello there' }, finish_reason: 'stop' }],
});

async function collect(
  stream: AsyncIterable<OpenAI.ChatCompletionChunk>,
  texts: string[] = [],
): Promise<string[]> {
  for await (const event of stream) texts.push(event.choices[0]?.delta.content ?? '');
  return texts;
}

const ended = (): Promise<void> => expect.poll(() => routes.ends.every((end) => end !== null)).toBe(true);

describe('with the openai SDK', () => {
  it('lists models, ready or not, and retrieves one', async () => {
    routes.refuse('org/other model', new CoveyError('not_ready', 'loading'));
    const list = await client.models.list();
    expect(list.data).toEqual([
      {
        id: 'tiny',
        object: 'model',
        created: 1_700_000_000,
        owned_by: 'covey',
        ready: true,
        context_length: 4_096,
      },
      expect.objectContaining({ id: 'org/other model', ready: false }),
    ]);
    expect((await client.models.retrieve('org/other model')).id).toBe('org/other model');
    await expect(client.models.retrieve('nope')).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
    });
  });

  it('completes a chat', async () => {
    script = ({ socket }) => socket.end(answer(200, completion));
    const result = await client.chat.completions.create(hello);
    expect(result.choices[0]?.message.content).toBe('Hello there');
    expect(JSON.parse(upstream.requests[0]?.body.toString() ?? '')).toEqual(hello);
    expect(routes.ends).toEqual(['done']);
  });

  it('streams a chat', async () => {
    script = ({ socket }) => socket.end(eventStreamHead + part('Hello') + part(' there') + done);
    const stream = await client.chat.completions.create({ ...hello, stream: true });
    expect(await collect(stream)).toEqual(['Hello', ' there']);
    expect(routes.ends).toEqual(['done']);
  });

  it('completes text and makes embeddings at their own paths', async () => {
    script = ({ socket, head }) =>
      socket.end(
        head.startsWith('POST /v1/embeddings ')
          ? answer(200, '{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1]}]}')
          : answer(200, '{"object":"text_completion","choices":[{"index":0,"text":", there was"}]}'),
      );
    const text = await client.completions.create({ model: 'tiny', prompt: 'Once' });
    expect(text.choices[0]?.text).toBe(', there was');
    const made = await client.embeddings.create({ model: 'tiny', input: 'x', encoding_format: 'float' });
    expect(made.data[0]?.embedding).toEqual([0.5, -1]);
    expect(upstream.requests.map(({ head }) => head.split('\r\n')[0])).toEqual([
      'POST /v1/completions HTTP/1.1',
      'POST /v1/embeddings HTTP/1.1',
    ]);
  });

  it('closes the engine connection within 100 ms when the client aborts', async () => {
    let closedAfterMs = Infinity;
    let abortedAt = Infinity;
    script = ({ socket, closed }) => {
      socket.write(eventStreamHead + part('Hello'));
      void closed.then(() => (closedAfterMs = performance.now() - abortedAt));
    };
    const stream = await client.chat.completions.create({ ...hello, stream: true });
    for await (const event of stream) {
      expect(event.choices[0]?.delta.content).toBe('Hello');
      abortedAt = performance.now();
      stream.controller.abort();
    }
    await upstream.requests[0]?.closed;
    expect(closedAfterMs).toBeLessThan(100);
    await ended();
    expect(routes.ends).toEqual(['client_gone']);
  });

  it('gives the error of a stream that is cut, after whole events only', async () => {
    script = ({ socket }) => socket.end(`${eventStreamHead}${part('Hello')}${part(' there').slice(0, -9)}`);
    const stream = await client.chat.completions.create({ ...hello, stream: true });
    const texts: string[] = [];
    await expect(collect(stream, texts)).rejects.toMatchObject({
      code: 'engine_lost',
      type: 'server_error',
      message: expect.stringContaining('tiny') as string,
    });
    expect(texts).toEqual(['Hello']);
    expect(routes.ends).toEqual(['unreachable']);
  });

  it('names the reason that the controller has for a cut', async () => {
    script = ({ socket }) => {
      socket.end(eventStreamHead + part('Hello'));
      setTimeout(() => routes.abortAll(new CoveyError('stage_lost', 'The stage on "attic" was lost.')), 30);
    };
    const stream = await client.chat.completions.create({ ...hello, stream: true });
    await expect(collect(stream)).rejects.toMatchObject({
      code: 'stage_lost',
      message: expect.stringContaining('attic') as string,
    });
    expect(routes.ends).toEqual(['unreachable']);
  });

  it('ends a stream when the controller gives the replica up', async () => {
    script = ({ socket }) => {
      socket.write(eventStreamHead + part('Hello'));
      setTimeout(() => routes.abortAll(new CoveyError('unloaded', 'The model was unloaded.')), 20);
    };
    const stream = await client.chat.completions.create({ ...hello, stream: true });
    await expect(collect(stream)).rejects.toMatchObject({ code: 'unloaded' });
    await upstream.requests[0]?.closed;
    expect(routes.ends).toEqual(['error']);
  });

  it('knows no model, and none that is ready', async () => {
    await expect(client.chat.completions.create({ ...hello, model: 'big' })).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
      param: 'model',
      message: expect.stringContaining('There are: tiny.') as string,
    });
    routes.refuse(
      'tiny',
      new CoveyError('not_ready', 'The model tiny is not ready: it is loading.', { retryAfterS: 7 }),
    );
    const error = (await client.chat.completions
      .create(hello)
      .catch((thrown: unknown) => thrown)) as InstanceType<typeof OpenAI.APIError>;
    expect(error).toMatchObject({ status: 503, code: 'not_ready', type: 'server_error' });
    expect(error.headers?.get('retry-after')).toBe('7');
    expect(upstream.requests).toHaveLength(0);
  });

  it('passes the error of the engine in the shape that the SDK knows', async () => {
    const message = 'request (900 tokens) exceeds the available context size (512 tokens)';
    script = ({ socket }) =>
      socket.end(
        answer(
          400,
          JSON.stringify({ error: { code: 400, message, type: 'exceed_context_size_error', n_ctx: 512 } }),
        ),
      );
    await expect(client.chat.completions.create({ ...hello, stream: true })).rejects.toMatchObject({
      status: 400,
      code: 'context_length_exceeded',
      type: 'invalid_request_error',
      param: null,
      error: { message, n_ctx: 512 },
    });
    expect(routes.ends).toEqual(['done']);
  });
});

describe('what reaches the engine', () => {
  it('is the body as it came and a head of our own', async () => {
    script = ({ socket }) => socket.end(answer(200, '{}'));
    const body = '{ "model":"tiny",\r\n "prompt" : "\\u00e4 ä",  "n_probs":1e0 }';
    await rawExchange(
      server.port,
      postText(server.port, '/v1/completions?key=secret', body, [
        'Authorization: Bearer sk-of-the-client',
        'Cookie: a=b',
        'Accept-Encoding: gzip',
        'X-Api-Key: other',
        'Connection: close',
      ]),
    );
    const request = upstream.requests[0];
    expect(request?.body.toString()).toBe(body);
    expect(request?.head.split('\r\n')).toEqual([
      'POST /v1/completions HTTP/1.1',
      'Host: 127.0.0.1',
      `Authorization: Bearer ${apiKey}`,
      'Content-Type: application/json',
      `Content-Length: ${Buffer.byteLength(body)}`,
      'Connection: close',
    ]);
  });

  it('is one whole request, however the client frames and escapes its own', async () => {
    script = ({ socket }) => socket.end(answer(200, '{}'));
    const body = '{"model":"tiny","prompt":"x"}\r\n';
    const smuggled = '\r\nPOST /slots/0?action=erase HTTP/1.1\r\nHost: x\r\n\r\n';
    const client = await rawClient(server.port);
    client.send(
      `POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nContent-Type: application/json\r\n` +
        `Transfer-Encoding: chunked\r\n\r\n${chunk(body.slice(0, 5))}${chunk(body.slice(5))}0\r\n\r\n${smuggled}`,
    );
    const text = await client.until('403');
    client.close();
    expect(text.match(/HTTP\/1\.1 (\d+)/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 403']);
    expect(upstream.requests).toHaveLength(1);
    expect(upstream.requests[0]?.body.toString()).toBe(body);
  });

  it.each([
    ['POST', '/v1/slots', 404],
    ['POST', '/v1/chat/completions/', 404],
    ['POST', '/v1/../slots', 404],
    ['POST', '/v1//chat/completions', 404],
    ['POST', '/slots', 404],
    ['POST', '/completion', 404],
    ['GET', '/v1/chat/completions', 405],
    ['DELETE', '/v1/models/tiny', 405],
  ])('is nothing for %s %s', async (method, path, status) => {
    const text = `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nConnection: close\r\n\r\n`;
    expect(parseAnswer(await rawExchange(server.port, text)).status).toBe(status);
    expect(upstream.requests).toHaveLength(0);
  });

  it('is a body of many MiB, unchanged', async () => {
    script = ({ socket, body }) => socket.end(answer(200, JSON.stringify({ bytes: body.length })));
    const content = 'ä"\\ '.repeat(3_000_000);
    const response = await fetch(`${server.url}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ content, model: 'tiny' }),
    });
    expect(response.status).toBe(200);
    const received = JSON.parse(upstream.requests[0]?.body.toString() ?? '') as { content: string };
    expect(received.content === content).toBe(true);
  });

  it('is not a body of more than 32 MiB', async () => {
    const refused = rawExchange(
      server.port,
      `POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nContent-Type: application/json\r\n` +
        `Content-Length: ${32 * 1024 * 1024 + 1}\r\nExpect: 100-continue\r\n\r\n`,
    );
    const { status, body } = parseAnswer(await refused);
    expect(status).toBe(413);
    expect(body).toContain('32 MiB');
  });
});

describe('an engine that fails', () => {
  const ask = async (
    body: object = hello,
  ): Promise<{ status: number; error: Record<string, unknown>; text: string }> => {
    const text = await rawExchange(
      server.port,
      postText(server.port, '/v1/chat/completions', body, ['Connection: close']),
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
    script = ({ socket }) => socket.end(bytes);
    const { status, error } = await ask();
    expect([status, error['code'], error['type'], error['param']]).toEqual([
      502,
      'engine_lost',
      'server_error',
      null,
    ]);
    expect(routes.ends).toEqual(['unreachable']);
  });

  it('is a proper error when it resets the connection', async () => {
    script = ({ socket }) => socket.resetAndDestroy();
    expect((await ask()).error['code']).toBe('engine_lost');
  });

  it('is a proper error when nobody listens', async () => {
    await upstream.close();
    const { status, error } = await ask();
    expect([status, error['code']]).toEqual([502, 'engine_unreachable']);
    upstream = await startUpstream(() => undefined);
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
    script = ({ socket }) => socket.end(answer(given, body));
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
    script = ({ socket, body }) => {
      const { cut } = JSON.parse(body.toString()) as { cut: number };
      // In two writes, so that the end of the first is the end of a read.
      socket.write(whole.slice(0, cut - 3), () => setTimeout(() => socket.end(whole.slice(cut - 3, cut)), 5));
    };
    await Promise.all(
      places.map(async (cut) => {
        const text = postText(server.port, '/v1/chat/completions', { ...hello, cut, stream: true }, [
          'Connection: close',
        ]);
        const { status, body, complete } = parseAnswer(await rawExchange(server.port, text));
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
    script = ({ socket }) => {
      socket.write(eventStreamHead + part('one'));
      setTimeout(() => socket.write('zz\r\n'), 20);
    };
    const text = postText(server.port, '/v1/chat/completions', { ...hello, stream: true }, [
      'Connection: close',
    ]);
    const { body, complete } = parseAnswer(await rawExchange(server.port, text));
    expect(complete).toBe(true);
    expect(body).toMatch(/"one".*\n\ndata: \{"error":.*engine_lost.*\}\n\n$/s);
  });
});

describe('the client side', () => {
  const streamText = (extra: readonly string[] = []): string =>
    postText(server.port, '/v1/chat/completions', { ...hello, stream: true }, extra);

  it('passes chunks through as they came, one write each', async () => {
    const bytes = part('Hello') + part(' there');
    script = ({ socket }) => socket.end(eventStreamHead + bytes + done);
    const text = await rawExchange(server.port, streamText(['Connection: close']));
    expect(text.endsWith(`\r\n\r\n${bytes}${done}`)).toBe(true);
    expect(text).toMatch(/^content-type: text\/event-stream$/im);
  });

  it('keeps the connection for the next request, also after an error and a cut stream', async () => {
    let count = 0;
    script = ({ socket }) => {
      count++;
      if (count === 2) socket.end(eventStreamHead + part('cut'));
      else if (count === 3)
        socket.end(answer(400, '{"error":{"code":400,"message":"no","type":"invalid_request_error"}}'));
      else socket.end(eventStreamHead + part(`n${count}`) + done);
    };
    const raw = await rawClient(server.port);
    raw.send(streamText());
    await raw.until(/n1.*0\r\n\r\n$/s);
    raw.send(streamText());
    await raw.until(/engine_lost.*0\r\n\r\n$/s);
    raw.send(streamText());
    await raw.until(/HTTP\/1.1 400.*\}\}$/s);
    raw.send(streamText(['Connection: close']));
    expect(await raw.ended()).toMatch(/n4.*0\r\n\r\n$/s);
  });

  it('answers pipelined requests in order', async () => {
    script = ({ socket, body }) => {
      const { prompt, stream } = JSON.parse(body.toString()) as { prompt: number; stream: boolean };
      const bytes = stream ? eventStreamHead + part(`s${prompt}`) + done : answer(200, `{"n":${prompt}}`);
      // The first is the slowest.
      setTimeout(() => socket.end(bytes), (5 - prompt) * 30);
    };
    const raw = await rawClient(server.port);
    const ask = (prompt: number, stream: boolean, extra: string[] = []): string =>
      postText(server.port, '/v1/completions', { model: 'tiny', prompt, stream }, extra);
    raw.send(ask(1, true) + ask(2, true) + ask(3, false) + ask(4, true, ['Connection: close']));
    const text = await raw.ended();
    expect(text.match(/"content":"s\d"|"n":\d/g)).toEqual([
      '"content":"s1"',
      '"content":"s2"',
      '"n":3',
      '"content":"s4"',
    ]);
    expect(text.match(/0\r\n\r\n/g)).toHaveLength(3);
  });

  it('speaks HTTP/1.0 without chunks', async () => {
    script = ({ socket }) => socket.end(eventStreamHead + part('Hello') + done);
    const text = await rawExchange(server.port, streamText().replace('HTTP/1.1', 'HTTP/1.0'));
    expect(text).not.toMatch(/transfer-encoding/i);
    expect(text).toMatch(/\r\n\r\ndata: \{.*"Hello".*\}\n\ndata: \[DONE\]\n\n$/s);
  });

  it('gives an HTTP/1.0 client the error of a cut stream', async () => {
    script = ({ socket }) => socket.end(eventStreamHead + part('Hello'));
    const text = await rawExchange(server.port, streamText().replace('HTTP/1.1', 'HTTP/1.0'));
    expect(text).toMatch(/"Hello".*\}\n\ndata: \{"error":.*\}\n\n$/s);
  });

  it('gives an event stream without chunks as one', async () => {
    script = ({ socket }) =>
      socket.end('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: a\n\ndata: [DONE]\n\n');
    const { body, complete } = parseAnswer(await rawExchange(server.port, streamText(['Connection: close'])));
    expect([body, complete]).toEqual(['data: a\n\ndata: [DONE]\n\n', true]);
  });

  it('gets a large answer that is no stream', async () => {
    const large = JSON.stringify({ data: 'x'.repeat(5_000_000) });
    script = ({ socket }) => socket.end(answer(200, large));
    const { body } = parseAnswer(
      await rawExchange(
        server.port,
        postText(server.port, '/v1/embeddings', { model: 'tiny' }, ['Connection: close']),
      ),
    );
    expect(body === large).toBe(true);
  });

  it('that reads slowly slows the engine, and nothing piles up', async () => {
    const event = chunk(`data: ${'x'.repeat(10_000)}\n\n`);
    let written = 0;
    script = ({ socket }) => {
      socket.write(eventStreamHead);
      const pump = (): void => {
        while (written < 20_000) {
          written++;
          if (!socket.write(event)) {
            socket.once('drain', pump);
            return;
          }
        }
        socket.end('0\r\n\r\n');
      };
      pump();
    };
    const rssBefore = process.memoryUsage().rss;
    const slow = connect(server.port, '127.0.0.1');
    slow.write(streamText(['Connection: close']));
    // Until the buffers of both kernels' sockets are full the engine may write on.
    let last = -1;
    await within('the engine to be held up', async () => {
      while (written !== last) {
        last = written;
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    });
    expect(written).toBeGreaterThan(0);
    expect(written).toBeLessThan(2_500);
    expect(process.memoryUsage().rss - rssBefore).toBeLessThan(64 * 1024 * 1024);

    let received = 0;
    slow.on('data', (bytes) => (received += bytes.length));
    await within('the stream to end', new Promise((resolve) => slow.once('close', resolve)), 15_000);
    expect(written).toBe(20_000);
    expect(received).toBeGreaterThan(200_000_000);
    await ended();
    expect(routes.ends).toEqual(['done']);
  }, 30_000);

  it('that leaves while it is not reading frees the engine', async () => {
    script = ({ socket }) => {
      socket.write(eventStreamHead);
      const event = chunk(`data: ${'x'.repeat(60_000)}\n\n`);
      const pump = (): void => {
        while (socket.writable && socket.write(event));
        socket.once('drain', pump);
      };
      pump();
    };
    const slow = await rawClient(server.port);
    slow.send(streamText());
    await slow.until('data: x');
    slow.socket.pause();
    await new Promise((resolve) => setTimeout(resolve, 200));
    slow.socket.resetAndDestroy();
    await upstream.requests[0]?.closed;
    await ended();
    expect(routes.ends).toEqual(['client_gone']);
  });

  it('that leaves before the answer frees the engine', async () => {
    script = () => undefined;
    const raw = await rawClient(server.port);
    raw.send(streamText());
    await expect.poll(() => upstream.requests.length).toBe(1);
    raw.close();
    await upstream.requests[0]?.closed;
    await ended();
    expect(routes.ends).toEqual(['client_gone']);
  });

  it('may be 32 streams at once, each with its own text', async () => {
    script = ({ socket, body }) => {
      const { prompt } = JSON.parse(body.toString()) as { prompt: string };
      socket.write(eventStreamHead);
      let count = 0;
      const timer = setInterval(() => {
        socket.write(part(`${prompt}.${count}`));
        if (++count === 20) {
          clearInterval(timer);
          socket.end(done);
        }
      }, 2);
    };
    const texts = await Promise.all(
      Array.from({ length: 32 }, async (_, index) => {
        const body = { model: 'tiny', prompt: `p${index}`, stream: true };
        const text = await rawExchange(
          server.port,
          postText(server.port, '/v1/completions', body, ['Connection: close']),
        );
        return parseAnswer(text).body.match(/p\d+\.\d+/g);
      }),
    );
    texts.forEach((found, index) => {
      expect(found).toEqual(Array.from({ length: 20 }, (_, count) => `p${index}.${count}`));
    });
  });

  it('gets an error event when Covey shuts down in the middle', async () => {
    script = ({ socket }) => void socket.write(eventStreamHead + part('Hello'));
    const raw = await rawClient(server.port);
    raw.send(streamText());
    await raw.until('Hello');
    const text = raw.ended();
    await server.close();
    expect(parseAnswer(await text)).toMatchObject({
      complete: true,
      body: expect.stringMatching(/shutting_down/) as string,
    });
    expect(routes.ends).toEqual(['error']);
  });
});

describe('a remote engine', () => {
  const remote = {
    kind: 'remote' as const,
    nodeId: 'a'.repeat(64) as NodeId,
    addresses: [],
    grant: 'g'.repeat(64),
    apiKey,
  };

  it('is reached over the stream that was dialled', async () => {
    await server.close();
    server = await startOpenAi(routes, (target) => {
      expect(target).toBe(remote);
      const socket = connect(upstream.port, '127.0.0.1');
      return new Promise((resolve) => socket.once('connect', () => resolve(socket)));
    });
    routes.serve('tiny', remote);
    script = ({ socket }) => socket.end(eventStreamHead + part('from afar') + done);
    const text = postText(server.port, '/v1/completions', { model: 'tiny', stream: true }, [
      'Connection: close',
    ]);
    expect(parseAnswer(await rawExchange(server.port, text)).body).toContain('from afar');
    expect(upstream.requests[0]?.head).toContain(`Authorization: Bearer ${apiKey}`);
  });

  it('that cannot be dialled is a proper error', async () => {
    await server.close();
    server = await startOpenAi(routes, () =>
      Promise.reject(new CoveyError('grant_invalid', 'The grant is unknown')),
    );
    routes.serve('tiny', remote);
    const { status, body } = parseAnswer(
      await rawExchange(
        server.port,
        postText(server.port, '/v1/completions', { model: 'tiny' }, ['Connection: close']),
      ),
    );
    expect(status).toBe(502);
    expect(body).toContain('engine_unreachable');
    expect(routes.ends).toEqual(['unreachable']);
  });

  it('is no longer dialled when the client has left', async () => {
    await server.close();
    let aborted = false;
    server = await startOpenAi(routes, (_target, signal) => {
      return new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          aborted = true;
          reject(new Error('aborted'));
        });
      });
    });
    routes.serve('tiny', remote);
    const raw = await rawClient(server.port);
    raw.send(postText(server.port, '/v1/completions', { model: 'tiny' }));
    await expect.poll(() => routes.ends.length).toBe(1);
    raw.close();
    await ended();
    expect([aborted, routes.ends[0]]).toEqual([true, 'client_gone']);
  });
});

it('serves no page', async () => {
  const text = await rawExchange(
    server.port,
    getText(server.port, '/v1/models', ['Origin: https://evil.example', 'Connection: close']),
  );
  expect(parseAnswer(text).status).toBe(403);
});
