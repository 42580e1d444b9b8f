import { request as httpRequest, Agent, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { CoveyError } from '#shared/errors.ts';

/** Opens an authenticated byte stream to the controller's gateway. Rejects with a CoveyError. */
export type DialGateway = (signal: AbortSignal) => Promise<Duplex>;

export interface GatewayAnswer {
  readonly status: number;
  readonly body: string;
  readonly retryAfterS: number | null;
}

const maxAnswerBytes = 32 * 1024 * 1024;
const silenceMs = 15 * 60_000;

/**
 * Posts JSON to `/v1` of the controller. One stream for each request: the gateway's side keeps a few connections ready.
 * @throws CoveyError `controller_unreachable`, `stream_interrupted`, `body_too_large`, or the signal's reason
 */
export async function postToGateway(
  dial: DialGateway,
  path: string,
  body: string,
  signal: AbortSignal,
): Promise<GatewayAnswer> {
  const stream = await dial(signal);
  const agent = new Agent({ keepAlive: false });
  agent.createConnection = () => stream;
  try {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const sent = httpRequest(
        {
          agent,
          method: 'POST',
          path,
          signal,
          timeout: silenceMs,
          headers: {
            Host: 'gateway',
            'Content-Type': 'application/json',
            'Content-Length': Buffer.byteLength(body),
            Connection: 'close',
          },
        },
        resolve,
      );
      sent.on('timeout', () =>
        sent.destroy(new CoveyError('timeout', 'the model has not answered for 15 minutes')),
      );
      sent.on('error', (error) => reject(interrupted(error, signal)));
      sent.end(body);
    });
    const text = await readText(answer, signal);
    const retryAfter = Number(answer.headers['retry-after']);
    return {
      status: answer.statusCode ?? 0,
      body: text,
      retryAfterS: Number.isFinite(retryAfter) ? retryAfter : null,
    };
  } finally {
    stream.destroy();
    agent.destroy();
  }
}

async function readText(answer: IncomingMessage, signal: AbortSignal): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const piece of answer as AsyncIterable<Buffer>) {
      bytes += piece.length;
      if (bytes > maxAnswerBytes) throw new CoveyError('body_too_large', 'the answer is larger than 32 MiB');
      pieces.push(piece);
    }
  } catch (error) {
    throw interrupted(error, signal);
  }
  return Buffer.concat(pieces).toString('utf8');
}

function interrupted(error: unknown, signal: AbortSignal): CoveyError {
  if (signal.aborted) return CoveyError.from(signal.reason);
  if (error instanceof CoveyError) return error;
  const why = error instanceof Error ? error.message : String(error);
  return new CoveyError('stream_interrupted', `the answer of the model was interrupted: ${why}`);
}
