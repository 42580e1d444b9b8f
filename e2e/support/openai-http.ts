import { request, type IncomingMessage } from 'node:http';

/** What came back, whole. `events` are the data lines of a stream in order. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
  /** The connection was cut before the end of the body. */
  readonly cut: boolean;
}

/** A request under way; its first byte and its end can be waited for. */
export interface OpenRequest {
  /** Resolves when `count` bytes of the body have come. */
  received(count: number): Promise<void>;
  readonly done: Promise<Answer>;
  abort(): void;
}

const limitMs = 120_000;

/** Sends JSON to `/v1/...` without any client library, so that a silent cut cannot hide behind a retry. */
export function post(api: string, path: string, body: unknown): OpenRequest {
  let seen = 0;
  const waiting: { count: number; resolve: () => void; reject: (error: Error) => void }[] = [];
  const settle = (error?: Error): void => {
    for (const waiter of waiting.splice(0)) {
      if (seen >= waiter.count) waiter.resolve();
      else if (error) waiter.reject(error);
      else waiting.push(waiter);
    }
  };
  const text = JSON.stringify(body);
  const client = request(`${api}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) },
    timeout: limitMs,
    agent: false,
  });
  const done = new Promise<Answer>((resolve, reject) => {
    client.on('timeout', () => client.destroy(new Error(`no byte for ${limitMs / 1000} s`)));
    client.on('error', reject);
    client.on('response', (response) => {
      let received = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        received += chunk;
        seen += chunk.length;
        settle();
      });
      response.on('close', () => {
        settle(new Error(`the body ended after ${seen} bytes`));
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: received,
          cut: !response.complete,
        });
      });
      response.on('error', () => undefined);
    });
    client.end(text);
  });
  done.catch((error: Error) => settle(error));
  return {
    received: (count) =>
      new Promise((resolve, reject) => {
        waiting.push({ count, resolve, reject });
        settle();
      }),
    done,
    abort: () => client.destroy(new Error('aborted by the test')),
  };
}

/** A completion of `heavyModel()` that goes on for as long as a test needs it. */
export function postLongCompletion(api: string, model: string, stream = true): OpenRequest {
  return post(api, '/v1/completions', { model, prompt: 'once', max_tokens: 3_500, temperature: 0, stream });
}

/** Greedy completion; throws with the body when it is refused. */
export async function complete(
  api: string,
  model: string,
  prompt: string,
  maxTokens: number,
): Promise<string> {
  const answer = await post(api, '/v1/completions', { model, prompt, max_tokens: maxTokens, temperature: 0 })
    .done;
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.body}`);
  return (JSON.parse(answer.body) as { choices: { text: string }[] }).choices[0]?.text ?? '';
}

export interface StreamError {
  readonly message: string;
  readonly code: string;
  readonly type: string;
}

/** The parts of a stream: texts, the error event if there is one, and whether `[DONE]` closed it. */
export function readStream(body: string): { texts: string[]; error: StreamError | null; finished: boolean } {
  const texts: string[] = [];
  let error: StreamError | null = null;
  let finished = false;
  for (const block of body.split('\n\n')) {
    if (!block.startsWith('data: ')) continue;
    const data = block.slice('data: '.length);
    if (data === '[DONE]') {
      finished = true;
      continue;
    }
    const event = JSON.parse(data) as {
      error?: StreamError;
      choices?: { text?: string; delta?: { content?: string } }[];
    };
    if (event.error) error = event.error;
    const choice = event.choices?.[0];
    texts.push(choice?.text ?? choice?.delta?.content ?? '');
  }
  return { texts, error, finished };
}
