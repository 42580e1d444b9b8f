import { connect } from 'node:net';

/**
 * Load for the gateway bench, a process of its own: raw sockets and no HTTP client, so that on a machine with
 * few cores it takes as little as it can from what is measured. Speaks IPC: one `LoadRequest` in, one
 * `LoadReport` out, until the parent goes.
 */
export interface LoadRequest {
  readonly port: number;
  readonly authorization: string | null;
  readonly model: string;
  readonly streams: number;
  /** One after the other, on each stream. */
  readonly requestsPerStream: number;
  readonly tokens: number;
}

export interface LoadReport {
  readonly elapsedMs: number;
  /** Server-sent events that carried text, over all streams. */
  readonly tokens: number;
  /** From the connection's first packet to the first event, of each request. */
  readonly firstEventMs: readonly number[];
  /** Requests that did not end with `data: [DONE]`. */
  readonly broken: number;
}

const requestMs = 120_000;
const newline = 0x0a;
const buffer = Buffer.allocUnsafeSlow(65_536);

async function runLoad(request: LoadRequest): Promise<LoadReport> {
  const firstEventMs: number[] = [];
  let tokens = 0;
  let broken = 0;
  const bytes = requestBytes(request);
  const startedAt = performance.now();
  const stream = async (): Promise<void> => {
    for (let round = 0; round < request.requestsPerStream; round++) {
      const one = await exchange(request.port, bytes);
      tokens += one.events - 2; // the one with the finish reason, and [DONE]
      if (!one.complete) broken++;
      else firstEventMs.push(one.firstEventMs);
    }
  };
  await Promise.all(Array.from({ length: request.streams }, stream));
  return { elapsedMs: performance.now() - startedAt, tokens, firstEventMs, broken };
}

function requestBytes(request: LoadRequest): Buffer {
  const body = JSON.stringify({
    model: request.model,
    prompt: 'Once upon a time',
    max_tokens: request.tokens,
    temperature: 0,
    ignore_eos: true,
    cache_prompt: false,
    stream: true,
  });
  const head =
    `POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:${request.port}\r\nContent-Type: application/json\r\n` +
    (request.authorization === null ? '' : `Authorization: ${request.authorization}\r\n`) +
    `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n`;
  return Buffer.from(head + body);
}

interface Exchange {
  readonly events: number;
  readonly firstEventMs: number;
  readonly complete: boolean;
}

/** Counts blank lines written as two line feeds: the head and the chunks' framing have none. */
function exchange(port: number, bytes: Buffer): Promise<Exchange> {
  return new Promise((resolve) => {
    const startedAt = performance.now();
    let firstEventMs = NaN;
    let events = 0;
    let previous = 0;
    let tail = '';
    const socket = connect({
      host: '127.0.0.1',
      port,
      noDelay: true,
      onread: {
        buffer,
        callback(length) {
          let last = previous;
          for (let at = 0; at < length; at++) {
            const byte = buffer[at] as number;
            if (byte === newline && last === newline) events++;
            last = byte;
          }
          previous = last;
          if (events > 0 && Number.isNaN(firstEventMs)) firstEventMs = performance.now() - startedAt;
          // The end is short and may arrive in pieces.
          if (length < 64) tail = (tail + buffer.toString('latin1', 0, length)).slice(-64);
          else tail = buffer.toString('latin1', length - 64, length);
          return true;
        },
      },
    });
    const timer = setTimeout(() => socket.destroy(), requestMs);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(timer);
      resolve({
        events,
        firstEventMs,
        complete: tail.includes('data: [DONE]') && tail.endsWith('0\r\n\r\n'),
      });
    });
    socket.write(bytes);
  });
}

process.on('message', (request: LoadRequest) => {
  void runLoad(request).then((report) => process.send?.(report));
});
process.on('disconnect', () => process.exit(0));
