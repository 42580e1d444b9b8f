import { request } from 'node:http';

const maxAnswerBytes = 4 * 1024 * 1024;

export interface LoopbackAnswer {
  readonly status: number;
  readonly text: string;
}

/**
 * One HTTP request to a llama-server on this machine, on a connection of its own: the server closes kept-alive
 * ones behind our back. Rejects with a plain Error on failure, an oversized answer, or after `timeoutMs`.
 */
export function loopbackRequest(options: {
  readonly port: number;
  readonly path: string;
  readonly apiKey: string;
  /** POST when given. */
  readonly body?: unknown;
  readonly timeoutMs: number;
}): Promise<LoopbackAnswer> {
  return new Promise((resolve, reject) => {
    const payload = options.body === undefined ? null : JSON.stringify(options.body);
    const outgoing = request(
      {
        host: '127.0.0.1',
        port: options.port,
        path: options.path,
        method: payload === null ? 'GET' : 'POST',
        agent: false,
        headers: {
          authorization: `Bearer ${options.apiKey}`,
          ...(payload === null
            ? {}
            : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) }),
        },
      },
      (incoming) => {
        const chunks: Buffer[] = [];
        let bytes = 0;
        incoming.on('data', (chunk: Buffer) => {
          bytes += chunk.byteLength;
          if (bytes > maxAnswerBytes)
            outgoing.destroy(new Error(`the answer to ${options.path} is too long`));
          else chunks.push(chunk);
        });
        incoming.on('error', fail);
        incoming.on('end', () => {
          clearTimeout(timer);
          resolve({ status: incoming.statusCode ?? 0, text: Buffer.concat(chunks).toString('utf8') });
        });
      },
    );
    const timer = setTimeout(
      () => outgoing.destroy(new Error(`no answer to ${options.path} in ${options.timeoutMs} ms`)),
      options.timeoutMs,
    );
    const fail = (error: Error): void => {
      clearTimeout(timer);
      reject(error);
    };
    outgoing.on('error', fail);
    outgoing.end(payload ?? undefined);
  });
}
