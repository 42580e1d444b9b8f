import { connect } from 'node:net';
import type OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
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
} from '../../../nodejs/http/fixtures.ts';
import { apiKey, completion, done, hello, part, startOpenAi, useScriptedGateway } from '../fixtures.ts';

const gateway = useScriptedGateway();

async function collect(
  stream: AsyncIterable<OpenAI.ChatCompletionChunk>,
  texts: string[] = [],
): Promise<string[]> {
  for await (const event of stream) texts.push(event.choices[0]?.delta.content ?? '');
  return texts;
}

describe('with the openai SDK', () => {
  it('lists models, ready or not, and retrieves one', async () => {
    gateway.routes.refuse('org/other model', new CoveyError('not_ready', 'loading'));
    const list = await gateway.client.models.list();
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
    expect((await gateway.client.models.retrieve('org/other model')).id).toBe('org/other model');
    await expect(gateway.client.models.retrieve('nope')).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
    });
  });

  it('completes a chat', async () => {
    gateway.script = ({ socket }) => socket.end(answer(200, completion));
    const result = await gateway.client.chat.completions.create(hello);
    expect(result.choices[0]?.message.content).toBe('Hello there');
    expect(JSON.parse(gateway.upstream.requests[0]?.body.toString() ?? '')).toEqual(hello);
    expect(gateway.routes.ends).toEqual(['done']);
  });

  it('streams a chat', async () => {
    gateway.script = ({ socket }) => socket.end(eventStreamHead + part('Hello') + part(' there') + done);
    const stream = await gateway.client.chat.completions.create({ ...hello, stream: true });
    expect(await collect(stream)).toEqual(['Hello', ' there']);
    expect(gateway.routes.ends).toEqual(['done']);
  });

  it('completes text and makes embeddings at their own paths', async () => {
    gateway.script = ({ socket, head }) =>
      socket.end(
        head.startsWith('POST /v1/embeddings ')
          ? answer(200, '{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1]}]}')
          : answer(200, '{"object":"text_completion","choices":[{"index":0,"text":", there was"}]}'),
      );
    const text = await gateway.client.completions.create({ model: 'tiny', prompt: 'Once' });
    expect(text.choices[0]?.text).toBe(', there was');
    const made = await gateway.client.embeddings.create({
      model: 'tiny',
      input: 'x',
      encoding_format: 'float',
    });
    expect(made.data[0]?.embedding).toEqual([0.5, -1]);
    expect(gateway.upstream.requests.map(({ head }) => head.split('\r\n')[0])).toEqual([
      'POST /v1/completions HTTP/1.1',
      'POST /v1/embeddings HTTP/1.1',
    ]);
  });

  it('closes the engine connection within 100 ms when the client aborts', async () => {
    let closedAfterMs = Infinity;
    let abortedAt = Infinity;
    gateway.script = ({ socket, closed }) => {
      socket.write(eventStreamHead + part('Hello'));
      void closed.then(() => (closedAfterMs = performance.now() - abortedAt));
    };
    const stream = await gateway.client.chat.completions.create({ ...hello, stream: true });
    for await (const event of stream) {
      expect(event.choices[0]?.delta.content).toBe('Hello');
      abortedAt = performance.now();
      stream.controller.abort();
    }
    await gateway.upstream.requests[0]?.closed;
    expect(closedAfterMs).toBeLessThan(100);
    await gateway.ended();
    expect(gateway.routes.ends).toEqual(['client_gone']);
  });

  it('gives the error of a stream that is cut, after whole events only', async () => {
    gateway.script = ({ socket }) =>
      socket.end(`${eventStreamHead}${part('Hello')}${part(' there').slice(0, -9)}`);
    const stream = await gateway.client.chat.completions.create({ ...hello, stream: true });
    const texts: string[] = [];
    await expect(collect(stream, texts)).rejects.toMatchObject({
      code: 'engine_lost',
      type: 'server_error',
      message: expect.stringContaining('tiny') as string,
    });
    expect(texts).toEqual(['Hello']);
    expect(gateway.routes.ends).toEqual(['unreachable']);
  });

  it('names the reason that the controller has for a cut', async () => {
    gateway.script = ({ socket }) => {
      socket.end(eventStreamHead + part('Hello'));
      setTimeout(
        () => gateway.routes.abortAll(new CoveyError('stage_lost', 'The stage on "attic" was lost.')),
        30,
      );
    };
    const stream = await gateway.client.chat.completions.create({ ...hello, stream: true });
    await expect(collect(stream)).rejects.toMatchObject({
      code: 'stage_lost',
      message: expect.stringContaining('attic') as string,
    });
    expect(gateway.routes.ends).toEqual(['unreachable']);
  });

  it('ends a stream when the controller gives the replica up', async () => {
    gateway.script = ({ socket }) => {
      socket.write(eventStreamHead + part('Hello'));
      setTimeout(() => gateway.routes.abortAll(new CoveyError('unloaded', 'The model was unloaded.')), 20);
    };
    const stream = await gateway.client.chat.completions.create({ ...hello, stream: true });
    await expect(collect(stream)).rejects.toMatchObject({ code: 'unloaded' });
    await gateway.upstream.requests[0]?.closed;
    expect(gateway.routes.ends).toEqual(['error']);
  });

  it('knows no model, and none that is ready', async () => {
    await expect(gateway.client.chat.completions.create({ ...hello, model: 'big' })).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
      param: 'model',
      message: expect.stringContaining('There are: tiny.') as string,
    });
    gateway.routes.refuse(
      'tiny',
      new CoveyError('not_ready', 'The model tiny is not ready: it is loading.', { retryAfterS: 7 }),
    );
    const error = (await gateway.client.chat.completions
      .create(hello)
      .catch((thrown: unknown) => thrown)) as InstanceType<typeof OpenAI.APIError>;
    expect(error).toMatchObject({ status: 503, code: 'not_ready', type: 'server_error' });
    expect(error.headers?.get('retry-after')).toBe('7');
    expect(gateway.upstream.requests).toHaveLength(0);
  });

  it('passes the error of the engine in the shape that the SDK knows', async () => {
    const message = 'request (900 tokens) exceeds the available context size (512 tokens)';
    gateway.script = ({ socket }) =>
      socket.end(
        answer(
          400,
          JSON.stringify({ error: { code: 400, message, type: 'exceed_context_size_error', n_ctx: 512 } }),
        ),
      );
    await expect(gateway.client.chat.completions.create({ ...hello, stream: true })).rejects.toMatchObject({
      status: 400,
      code: 'context_length_exceeded',
      type: 'invalid_request_error',
      param: null,
      error: { message, n_ctx: 512 },
    });
    expect(gateway.routes.ends).toEqual(['done']);
  });
});

describe('what reaches the engine', () => {
  it('is the body as it came and a head of our own', async () => {
    gateway.script = ({ socket }) => socket.end(answer(200, '{}'));
    const body = '{ "model":"tiny",\r\n "prompt" : "\\u00e4 ä",  "n_probs":1e0 }';
    await rawExchange(
      gateway.server.port,
      postText(gateway.server.port, '/v1/completions?key=secret', body, [
        'Authorization: Bearer sk-of-the-client',
        'Cookie: a=b',
        'Accept-Encoding: gzip',
        'X-Api-Key: other',
        'Connection: close',
      ]),
    );
    const request = gateway.upstream.requests[0];
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
    gateway.script = ({ socket }) => socket.end(answer(200, '{}'));
    const body = '{"model":"tiny","prompt":"x"}\r\n';
    const smuggled = '\r\nPOST /slots/0?action=erase HTTP/1.1\r\nHost: x\r\n\r\n';
    const raw = await rawClient(gateway.server.port);
    raw.send(
      `POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:${gateway.server.port}\r\nContent-Type: application/json\r\n` +
        `Transfer-Encoding: chunked\r\n\r\n${chunk(body.slice(0, 5))}${chunk(body.slice(5))}0\r\n\r\n${smuggled}`,
    );
    const text = await raw.until('403');
    raw.close();
    expect(text.match(/HTTP\/1\.1 (\d+)/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 403']);
    expect(gateway.upstream.requests).toHaveLength(1);
    expect(gateway.upstream.requests[0]?.body.toString()).toBe(body);
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
    const text = `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1:${gateway.server.port}\r\nConnection: close\r\n\r\n`;
    expect(parseAnswer(await rawExchange(gateway.server.port, text)).status).toBe(status);
    expect(gateway.upstream.requests).toHaveLength(0);
  });

  it('is a body of many MiB, unchanged', async () => {
    gateway.script = ({ socket, body }) => socket.end(answer(200, JSON.stringify({ bytes: body.length })));
    const content = 'ä"\\ '.repeat(3_000_000);
    const response = await fetch(`${gateway.server.url}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ content, model: 'tiny' }),
    });
    expect(response.status).toBe(200);
    const received = JSON.parse(gateway.upstream.requests[0]?.body.toString() ?? '') as { content: string };
    expect(received.content === content).toBe(true);
  });

  it('is not a body of more than 32 MiB', async () => {
    const refused = rawExchange(
      gateway.server.port,
      `POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:${gateway.server.port}\r\nContent-Type: application/json\r\n` +
        `Content-Length: ${32 * 1024 * 1024 + 1}\r\nExpect: 100-continue\r\n\r\n`,
    );
    const { status, body } = parseAnswer(await refused);
    expect(status).toBe(413);
    expect(body).toContain('32 MiB');
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
    await gateway.server.close();
    gateway.server = await startOpenAi(gateway.routes, (target) => {
      expect(target).toBe(remote);
      const socket = connect(gateway.upstream.port, '127.0.0.1');
      return new Promise((resolve) => socket.once('connect', () => resolve(socket)));
    });
    gateway.routes.serve('tiny', remote);
    gateway.script = ({ socket }) => socket.end(eventStreamHead + part('from afar') + done);
    const text = postText(gateway.server.port, '/v1/completions', { model: 'tiny', stream: true }, [
      'Connection: close',
    ]);
    expect(parseAnswer(await rawExchange(gateway.server.port, text)).body).toContain('from afar');
    expect(gateway.upstream.requests[0]?.head).toContain(`Authorization: Bearer ${apiKey}`);
  });

  it('that cannot be dialled is a proper error', async () => {
    await gateway.server.close();
    gateway.server = await startOpenAi(gateway.routes, () =>
      Promise.reject(new CoveyError('grant_invalid', 'The grant is unknown')),
    );
    gateway.routes.serve('tiny', remote);
    const { status, body } = parseAnswer(
      await rawExchange(
        gateway.server.port,
        postText(gateway.server.port, '/v1/completions', { model: 'tiny' }, ['Connection: close']),
      ),
    );
    expect(status).toBe(502);
    expect(body).toContain('engine_unreachable');
    expect(gateway.routes.ends).toEqual(['unreachable']);
  });

  it('is no longer dialled when the client has left', async () => {
    await gateway.server.close();
    let aborted = false;
    gateway.server = await startOpenAi(gateway.routes, (_target, signal) => {
      return new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          aborted = true;
          reject(new Error('aborted'));
        });
      });
    });
    gateway.routes.serve('tiny', remote);
    const raw = await rawClient(gateway.server.port);
    raw.send(postText(gateway.server.port, '/v1/completions', { model: 'tiny' }));
    await expect.poll(() => gateway.routes.ends.length).toBe(1);
    raw.close();
    await gateway.ended();
    expect([aborted, gateway.routes.ends[0]]).toEqual([true, 'client_gone']);
  });
});

it('serves no page', async () => {
  const text = await rawExchange(
    gateway.server.port,
    getText(gateway.server.port, '/v1/models', ['Origin: https://evil.example', 'Connection: close']),
  );
  expect(parseAnswer(text).status).toBe(403);
});
