import { Buffer } from 'node:buffer';
import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { CoveyError } from '#shared/errors.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { bearerToken, tokenKind } from '../../src-main/nodejs/access/tokens.ts';
import { readBody, type BodyBudget } from '../../src-main/nodejs/http/body.ts';
import type { HttpCall } from '../../src-main/nodejs/http/http-call.ts';
import { requireKeyHeader } from '../../src-main/nodejs/http/member-headers.ts';
import { abortRelayOn, Relay, type RelayPolicy } from '../../src-main/nodejs/http/relay.ts';
import { respondError, type ErrorShape } from '../../src-main/nodejs/http/respond.ts';
import type { HttpRoute } from '../../src-main/nodejs/http/router.ts';
import { adoptStream } from '../../src-main/nodejs/http/upstream-connection.ts';

export interface ForwardOptions {
  /** Opens an authenticated byte stream to the controller's gateway. Rejects with a CoveyError. */
  readonly dialGateway: (signal: AbortSignal) => Promise<Duplex>;
  readonly shape: ErrorShape;
  readonly bodyLimitBytes: number;
  readonly budget: BodyBudget;
  /** This machine's setting `api.requireKey`: the controller is to want a key for this request. */
  readonly requireKey: () => boolean;
  readonly logger: Logger;
}

const retryAfterS = 3;

/** One request on a connection of its own, its bytes both ways unchanged. */
export async function forward(
  call: HttpCall,
  method: HttpRoute['method'],
  options: ForwardOptions,
): Promise<void> {
  const { req, res } = call;
  const { budget, bodyLimitBytes, logger } = options;
  const body = await readBody(req, res, { limitBytes: bodyLimitBytes, budget });
  const bytes = body.reduce((sum, piece) => sum + piece.length, 0);
  try {
    const relay = new Relay({
      res,
      request: [Buffer.from(headOf(call, method, bytes, options), 'latin1'), ...body],
      policy: policyOf(options.shape),
      open: async (owner, signal) => adoptStream(await options.dialGateway(signal), owner),
    });
    const release = abortRelayOn(relay, [call.closing]);
    const outcome = await relay.outcome;
    release();
    if (outcome.kind === 'failed') {
      logger.warn('a request did not get through', {
        code: outcome.error.code,
        reason: outcome.error.message,
      });
    }
  } finally {
    budget.give(bytes);
  }
}

/** The target is as the parser let it through: without a space or a control character. */
function headOf(
  { req }: HttpCall,
  method: HttpRoute['method'],
  bytes: number,
  { requireKey }: ForwardOptions,
): string {
  const lines = [`${method} ${req.url} HTTP/1.1`, 'Host: gateway'];
  // Only what the controller can have given out leaves this machine: programs send keys of other services too.
  const token = bearerToken(req.headers.authorization);
  const kind = token === null ? null : tokenKind(token);
  if (kind === 'session' || kind === 'key') lines.push(`Authorization: Bearer ${token}`);
  if (requireKey()) lines.push(`${requireKeyHeader}: 1`);
  for (const [name, form] of passedOn) {
    const value = req.headers[name.toLowerCase()];
    if (typeof value === 'string' && form.test(value)) lines.push(`${name}: ${value}`);
  }
  if (method === 'POST' || method === 'PUT' || method === 'PATCH') {
    const isBytes = req.headers['content-type'] === 'application/octet-stream';
    lines.push(`Content-Type: application/${isBytes ? 'octet-stream' : 'json'}`, `Content-Length: ${bytes}`);
  }
  return `${lines.join('\r\n')}\r\nConnection: close\r\n\r\n`;
}

/** Headers of a request that mean something to the controller, and the form that it takes them in. */
const passedOn: readonly (readonly [name: string, form: RegExp])[] = [
  ['Last-Event-ID', /^\d{1,15}$/],
  ['Range', /^bytes=\d{0,15}-\d{0,15}$/],
  ['Idempotency-Key', /^[\w.:-]{1,128}$/],
];

function policyOf(shape: ErrorShape): RelayPolicy {
  return {
    passHeaders: [
      ...['content-type', 'retry-after', 'allow', 'cache-control', 'www-authenticate'],
      // Of an artifact's bytes.
      ...['content-disposition', 'content-range', 'accept-ranges', 'etag'],
      ...['x-content-type-options', 'content-security-policy'],
    ],
    rewrite: (answer) => answer,
    lost(phase, detail, cause) {
      if (phase === 'body') {
        const what = `The connection to the controller was lost in the middle of the answer: ${detail}.`;
        return new CoveyError('stream_interrupted', what);
      }
      // A refusal by the controller has a name of its own.
      if (cause instanceof CoveyError && !cause.retryable) return cause;
      const message =
        cause instanceof CoveyError && cause.code === 'controller_unreachable'
          ? cause.message
          : `The controller does not answer now: ${detail}${detail.endsWith('.') ? '' : '.'}`;
      return new CoveyError('controller_unreachable', message, { retryAfterS });
    },
    respondError: (res: ServerResponse, error) => respondError(res, error, shape),
    errorEvent: (error) => `data: ${JSON.stringify(shape(error))}\n\n`,
    lostGraceMs: 0,
  };
}
