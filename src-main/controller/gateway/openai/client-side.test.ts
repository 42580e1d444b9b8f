import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import {
  answer,
  chunk,
  eventStreamHead,
  parseAnswer,
  postText,
  rawClient,
  rawExchange,
  within,
} from '../../../nodejs/http/fixtures.ts';
import { done, hello, part, useScriptedGateway } from '../fixtures.ts';

const gateway = useScriptedGateway();

describe('the client side', () => {
  const streamText = (extra: readonly string[] = []): string =>
    postText(gateway.server.port, '/v1/chat/completions', { ...hello, stream: true }, extra);

  it('passes chunks through as they came, one write each', async () => {
    const bytes = part('Hello') + part(' there');
    gateway.script = ({ socket }) => socket.end(eventStreamHead + bytes + done);
    const text = await rawExchange(gateway.server.port, streamText(['Connection: close']));
    expect(text.endsWith(`\r\n\r\n${bytes}${done}`)).toBe(true);
    expect(text).toMatch(/^content-type: text\/event-stream$/im);
  });

  it('keeps the connection for the next request, also after an error and a cut stream', async () => {
    let count = 0;
    gateway.script = ({ socket }) => {
      count++;
      if (count === 2) socket.end(eventStreamHead + part('cut'));
      else if (count === 3)
        socket.end(answer(400, '{"error":{"code":400,"message":"no","type":"invalid_request_error"}}'));
      else socket.end(eventStreamHead + part(`n${count}`) + done);
    };
    const raw = await rawClient(gateway.server.port);
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
    gateway.script = ({ socket, body }) => {
      const { prompt, stream } = JSON.parse(body.toString()) as { prompt: number; stream: boolean };
      const bytes = stream ? eventStreamHead + part(`s${prompt}`) + done : answer(200, `{"n":${prompt}}`);
      // The first is the slowest.
      setTimeout(() => socket.end(bytes), (5 - prompt) * 30);
    };
    const raw = await rawClient(gateway.server.port);
    const ask = (prompt: number, stream: boolean, extra: string[] = []): string =>
      postText(gateway.server.port, '/v1/completions', { model: 'tiny', prompt, stream }, extra);
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
    gateway.script = ({ socket }) => socket.end(eventStreamHead + part('Hello') + done);
    const text = await rawExchange(gateway.server.port, streamText().replace('HTTP/1.1', 'HTTP/1.0'));
    expect(text).not.toMatch(/transfer-encoding/i);
    expect(text).toMatch(/\r\n\r\ndata: \{.*"Hello".*\}\n\ndata: \[DONE\]\n\n$/s);
  });

  it('gives an HTTP/1.0 client the error of a cut stream', async () => {
    gateway.script = ({ socket }) => socket.end(eventStreamHead + part('Hello'));
    const text = await rawExchange(gateway.server.port, streamText().replace('HTTP/1.1', 'HTTP/1.0'));
    expect(text).toMatch(/"Hello".*\}\n\ndata: \{"error":.*\}\n\n$/s);
  });

  it('gives an event stream without chunks as one', async () => {
    gateway.script = ({ socket }) =>
      socket.end('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: a\n\ndata: [DONE]\n\n');
    const { body, complete } = parseAnswer(
      await rawExchange(gateway.server.port, streamText(['Connection: close'])),
    );
    expect([body, complete]).toEqual(['data: a\n\ndata: [DONE]\n\n', true]);
  });

  it('gets a large answer that is no stream', async () => {
    const large = JSON.stringify({ data: 'x'.repeat(5_000_000) });
    gateway.script = ({ socket }) => socket.end(answer(200, large));
    const { body } = parseAnswer(
      await rawExchange(
        gateway.server.port,
        postText(gateway.server.port, '/v1/embeddings', { model: 'tiny' }, ['Connection: close']),
      ),
    );
    expect(body === large).toBe(true);
  });

  it('that reads slowly slows the engine, and nothing piles up', async () => {
    const event = chunk(`data: ${'x'.repeat(10_000)}\n\n`);
    let written = 0;
    gateway.script = ({ socket }) => {
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
    const slow = connect(gateway.server.port, '127.0.0.1');
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
    await gateway.ended();
    expect(gateway.routes.ends).toEqual(['done']);
  }, 30_000);

  it('that leaves while it is not reading frees the engine', async () => {
    gateway.script = ({ socket }) => {
      socket.write(eventStreamHead);
      const event = chunk(`data: ${'x'.repeat(60_000)}\n\n`);
      const pump = (): void => {
        while (socket.writable && socket.write(event));
        socket.once('drain', pump);
      };
      pump();
    };
    const slow = await rawClient(gateway.server.port);
    slow.send(streamText());
    await slow.until('data: x');
    slow.socket.pause();
    await new Promise((resolve) => setTimeout(resolve, 200));
    slow.socket.resetAndDestroy();
    await gateway.upstream.requests[0]?.closed;
    await gateway.ended();
    expect(gateway.routes.ends).toEqual(['client_gone']);
  });

  it('that leaves before the answer frees the engine', async () => {
    gateway.script = () => undefined;
    const raw = await rawClient(gateway.server.port);
    raw.send(streamText());
    await expect.poll(() => gateway.upstream.requests.length).toBe(1);
    raw.close();
    await gateway.upstream.requests[0]?.closed;
    await gateway.ended();
    expect(gateway.routes.ends).toEqual(['client_gone']);
  });

  it('may be 32 streams at once, each with its own text', async () => {
    gateway.script = ({ socket, body }) => {
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
          gateway.server.port,
          postText(gateway.server.port, '/v1/completions', body, ['Connection: close']),
        );
        return parseAnswer(text).body.match(/p\d+\.\d+/g);
      }),
    );
    texts.forEach((found, index) => {
      expect(found).toEqual(Array.from({ length: 20 }, (_, count) => `p${index}.${count}`));
    });
  });

  it('gets an error event when Covey shuts down in the middle', async () => {
    gateway.script = ({ socket }) => void socket.write(eventStreamHead + part('Hello'));
    const raw = await rawClient(gateway.server.port);
    raw.send(streamText());
    await raw.until('Hello');
    const text = raw.ended();
    await gateway.server.close();
    expect(parseAnswer(await text)).toMatchObject({
      complete: true,
      body: expect.stringMatching(/shutting_down/) as string,
    });
    expect(gateway.routes.ends).toEqual(['error']);
  });
});
