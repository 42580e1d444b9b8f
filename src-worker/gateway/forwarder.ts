import { Buffer } from 'node:buffer';
import type { Duplex } from 'node:stream';
import type { ListenAddress } from '#shared/config.ts';
import { CoveyError, openAiError, type ErrorBody } from '#shared/errors.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { BodyBudget, readBody } from '../../src-main/nodejs/http/body.ts';
import type { HttpCall } from '../../src-main/nodejs/http/http-call.ts';
import { startHttpServer } from '../../src-main/nodejs/http/http-server.ts';
import { abortRelayOn, Relay, type RelayPolicy } from '../../src-main/nodejs/http/relay.ts';
import { coveyShape, openAiShape, respondError, respondJson } from '../../src-main/nodejs/http/respond.ts';
import type { HttpRoute, RouteGroup } from '../../src-main/nodejs/http/router.ts';
import { adoptStream } from '../../src-main/nodejs/http/upstream-connection.ts';

export interface ForwarderOptions {
  readonly listen: ListenAddress;
  /** Opens an authenticated byte stream to the controller's gateway. Rejects with a CoveyError. */
  readonly dialGateway: (signal: AbortSignal) => Promise<Duplex>;
  readonly status: () => {
    readonly connected: boolean;
    readonly controllerName: string | null;
    readonly trouble: ErrorBody | null;
    readonly engines: readonly unknown[];
  };
  readonly logger: Logger;
}

export interface Forwarder {
  /** `http://127.0.0.1:7878` */
  readonly apiAddress: string;
  close(): Promise<void>;
}

const bodyLimitBytes = 32 * 1024 * 1024;
const bodyBudgetBytes = 256 * 1024 * 1024;
const retryAfterS = 3;

/**
 * The API of a machine that is only a worker: `/v1` goes to the controller, so that apps have the same address
 * on every machine. `/api` is the controller's alone.
 * @throws CoveyError `port_in_use`, `config_invalid`
 */
export async function createForwarder(options: ForwarderOptions): Promise<Forwarder> {
  const budget = new BodyBudget(bodyBudgetBytes);
  const forwarded = (method: 'GET' | 'POST'): HttpRoute => ({
    method,
    path: '/v1/*rest',
    handle: (call) => forward(call, method, budget, options),
  });
  const server = await startHttpServer({
    listen: { loopback: options.listen },
    groups: [
      { prefix: '/v1', errorShape: openAiShape, routes: [forwarded('GET'), forwarded('POST')] },
      { prefix: '/api', errorShape: coveyShape, routes: [], notFound: () => elsewhere(options) },
      health(options),
    ],
    logger: options.logger,
  });
  const host = options.listen.host === '::1' ? '[::1]' : '127.0.0.1';
  return { apiAddress: `http://${host}:${server.port}`, close: () => server.close() };
}

/** One request on a connection of its own, its bytes both ways unchanged. */
async function forward(
  call: HttpCall,
  method: 'GET' | 'POST',
  budget: BodyBudget,
  options: ForwarderOptions,
): Promise<void> {
  const { req, res } = call;
  const body = await readBody(req, res, { limitBytes: bodyLimitBytes, budget });
  const bytes = body.reduce((sum, piece) => sum + piece.length, 0);
  // The target is as the parser let it through: without a space or a control character.
  const head =
    `${method} ${req.url} HTTP/1.1\r\nHost: gateway\r\n` +
    (method === 'POST' ? `Content-Type: application/json\r\nContent-Length: ${bytes}\r\n` : '') +
    'Connection: close\r\n\r\n';
  try {
    const relay = new Relay({
      res,
      request: [Buffer.from(head, 'latin1'), ...body],
      policy,
      open: async (owner, signal) => adoptStream(await options.dialGateway(signal), owner),
    });
    const release = abortRelayOn(relay, [call.closing]);
    const outcome = await relay.outcome;
    release();
    if (outcome.kind === 'failed') {
      options.logger.warn('a request did not get through', {
        code: outcome.error.code,
        reason: outcome.error.message,
      });
    }
  } finally {
    budget.give(bytes);
  }
}

const policy: RelayPolicy = {
  passHeaders: ['content-type', 'retry-after', 'allow', 'cache-control'],
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
  respondError: (res, error) => respondError(res, error, openAiShape),
  errorEvent: (error) => `data: ${JSON.stringify(openAiError(error))}\n\n`,
  lostGraceMs: 0,
};

function elsewhere({ status }: ForwarderOptions): CoveyError {
  const { controllerName } = status();
  const where = controllerName === null ? 'on the controller' : `on the controller, ${controllerName}`;
  return new CoveyError('route_not_found', `This machine is a worker: run this command ${where}.`);
}

/** The state of this worker itself, whether the controller is there or not. */
function health({ status }: ForwarderOptions): RouteGroup {
  return {
    prefix: '/healthz',
    errorShape: coveyShape,
    routes: [
      {
        method: 'GET',
        path: '/healthz',
        handle({ res }) {
          const { connected, controllerName, trouble, engines } = status();
          respondJson(res, 200, {
            status: 'ok',
            role: 'worker',
            connected,
            controller: controllerName,
            trouble,
            engines: engines.length,
          });
        },
      },
    ],
  };
}
