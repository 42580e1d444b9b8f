import { timings } from '#shared/config.ts';
import { CoveyError, openAiError } from '#shared/errors.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { readBody, type BodyBudget } from '../../../nodejs/http/body.ts';
import type { HttpCall } from '../../../nodejs/http/http-call.ts';
import { abortRelayOn, Relay, type RelayOutcome, type RelayPolicy } from '../../../nodejs/http/relay.ts';
import { openAiShape, respondError } from '../../../nodejs/http/respond.ts';
import { adoptStream, connectLoopback } from '../../../nodejs/http/upstream-connection.ts';
import type { DialUpstream, Route, RouteTable, RunningRequest } from '../ports.ts';
import { BodyScanner } from './body-scanner.ts';
import { rewriteEngineAnswer } from './engine-errors.ts';
import { engineRequest } from './engine-request.ts';
import { createTokenCount } from './token-count.ts';

export interface GenerationOptions {
  readonly routes: RouteTable;
  readonly dialUpstream: DialUpstream;
  readonly budget: BodyBudget;
  readonly logger: Logger;
  /** How long a lost engine's requests wait for the controller to learn why. */
  readonly lostGraceMs: number;
}

/** Images travel within the JSON. */
const bodyLimitBytes = 32 * 1024 * 1024;
const knownNames = 20;

/**
 * Forwards one request to the engine that serves its model:
 * 1. read the body, checking it as it arrives; take `model` from it;
 * 2. find the model's route;
 * 3. relay, and tell the controller how it ended.
 * (A replica that is lost ends the request. Going on elsewhere would begin here, at 2.)
 */
export async function generate(call: HttpCall, path: string, options: GenerationOptions): Promise<void> {
  const { budget } = options;
  const scanner = new BodyScanner();
  const body = await readBody(call.req, call.res, {
    limitBytes: bodyLimitBytes,
    budget,
    onPiece: (piece) => scanner.push(piece),
  });
  try {
    const { model } = scanner.finish();
    const route = routeOf(options.routes, model);
    await forward(call, path, model, route, body, options);
  } finally {
    budget.give(body.reduce((sum, piece) => sum + piece.length, 0));
  }
}

/** @throws CoveyError `model_not_found` naming the models that exist, or why the model cannot answer now */
export function routeOf(routes: RouteTable, model: string): Route {
  const resolution = routes.resolve(model);
  switch (resolution.kind) {
    case 'ready':
      return resolution.route;
    case 'unavailable':
      throw resolution.error;
    case 'unknown':
      throw modelNotFound(model, resolution.known);
  }
}

export function modelNotFound(model: string, known: readonly string[]): CoveyError {
  const names = known.slice(0, knownNames).join(', ');
  const more = known.length > knownNames ? ` and ${known.length - knownNames} more` : '';
  const exist = known.length === 0 ? 'No model is loaded.' : `There are: ${names}${more}.`;
  return new CoveyError('model_not_found', `The model "${model.slice(0, 256)}" does not exist. ${exist}`, {
    field: 'model',
  });
}

async function forward(
  call: HttpCall,
  path: string,
  model: string,
  route: Route,
  body: readonly Buffer[],
  options: GenerationOptions,
): Promise<void> {
  const { upstream } = route;
  const running = route.begin();
  let outcome: RelayOutcome | null = null;
  try {
    const relay = new Relay({
      res: call.res,
      request: engineRequest(path, upstream.apiKey, body),
      policy: policyFor(model, path, running, options.lostGraceMs),
      open(owner, signal) {
        if (upstream.kind === 'local') return connectLoopback(upstream.port, timings.connectMs, owner);
        return options.dialUpstream(upstream, signal).then((stream) => adoptStream(stream, owner));
      },
    });
    const release = abortRelayOn(relay, [running.signal, call.closing]);
    outcome = await relay.outcome;
    release();
  } finally {
    endRequest(running, outcome);
  }
  if (outcome.kind === 'failed') {
    options.logger.warn('a request was interrupted', {
      model,
      code: outcome.error.code,
      reason: outcome.error.message,
    });
  }
}

function endRequest(running: RunningRequest, outcome: RelayOutcome | null): void {
  if (outcome === null) running.end('error');
  else if (outcome.kind === 'failed') running.end(outcome.upstream ? 'unreachable' : 'error');
  else running.end(outcome.kind);
}

function policyFor(model: string, path: string, running: RunningRequest, lostGraceMs: number): RelayPolicy {
  const tokens = createTokenCount(path, (count) => running.generated(count));
  return {
    passHeaders: ['content-type'],
    onEvents: (count) => tokens.events(count),
    rewrite(answer) {
      tokens.whole(answer.body);
      return rewriteEngineAnswer(answer);
    },
    lost(phase, detail) {
      if (phase === 'connect') {
        return new CoveyError(
          'engine_unreachable',
          `The engine of ${model} could not be reached: ${detail}.`,
        );
      }
      const when = phase === 'head' ? 'before it answered' : 'in the middle of its answer';
      return new CoveyError('engine_lost', `The engine of ${model} was lost ${when}: ${detail}.`);
    },
    respondError: (res, error) => respondError(res, error, openAiShape),
    errorEvent: (error) => `data: ${JSON.stringify(openAiError(error))}\n\n`,
    lostGraceMs,
  };
}
