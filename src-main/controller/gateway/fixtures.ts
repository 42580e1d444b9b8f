import OpenAI from 'openai';
import { afterEach, beforeEach, expect } from 'vitest';
import type { DeploymentId } from '#shared/lib/ids.ts';
import { CoveyError } from '#shared/errors.ts';
import { startHttpServer, type HttpServer } from '../../nodejs/http/http-server.ts';
import {
  chunk,
  everybody,
  recordingLogger,
  startUpstream,
  type RecordedLog,
  type ScriptedUpstream,
  type UpstreamRequest,
} from '../../nodejs/http/fixtures.ts';
import { openAiRoutes } from './openai/openai-routes.ts';
import type { DialUpstream, RouteResolution, RouteTable, Upstream } from './ports.ts';

export const apiKey = 'k'.repeat(64);

/** A route table whose answers a test sets, and what became of each request. */
export interface ScriptedRoutes extends RouteTable {
  serve(model: string, upstream: Upstream): void;
  refuse(model: string, error: CoveyError): void;
  /** Requests that have begun: their outcome, or null. */
  readonly ends: (string | null)[];
  /** Tokens that were counted, over all requests. */
  generated: number;
  /** Ends the running requests as a lost replica does. */
  abortAll(error: CoveyError): void;
}

export function scriptedRoutes(): ScriptedRoutes {
  const served = new Map<string, Upstream | CoveyError>();
  const running = new Map<number, AbortController>();
  const ends: (string | null)[] = [];
  const routes: ScriptedRoutes = {
    ends,
    generated: 0,
    serve: (model, upstream) => void served.set(model, upstream),
    refuse: (model, error) => void served.set(model, error),
    models: () =>
      [...served].map(([id, upstream]) => ({
        id,
        createdAt: 1_700_000_000_000,
        ready: !(upstream instanceof CoveyError),
        contextPerRequest: 4_096,
      })),
    resolve(model): RouteResolution {
      const upstream = served.get(model);
      if (upstream === undefined) return { kind: 'unknown', known: [...served.keys()] };
      if (upstream instanceof CoveyError) return { kind: 'unavailable', error: upstream };
      return {
        kind: 'ready',
        route: {
          deploymentId: 'd-00000001' as DeploymentId,
          upstream,
          begin() {
            const index = ends.push(null) - 1;
            const abort = new AbortController();
            running.set(index, abort);
            return {
              signal: abort.signal,
              generated: (tokens) => void (routes.generated += tokens),
              end(outcome) {
                if (ends[index] !== null) throw new Error('ended twice');
                ends[index] = outcome;
                running.delete(index);
              },
            };
          },
        },
      };
    },
    abortAll: (error) => running.forEach((abort) => abort.abort(error)),
  };
  return routes;
}

export async function startOpenAi(
  routes: RouteTable,
  dialUpstream: DialUpstream = () => Promise.reject(new Error('there is no remote engine')),
): Promise<HttpServer & { readonly url: string; readonly logger: RecordedLog }> {
  const logger = recordingLogger();
  const server = await startHttpServer({
    listen: { loopback: { host: '127.0.0.1', port: 0 } },
    groups: [openAiRoutes({ routes, dialUpstream, logger, lostGraceMs: 100 })],
    authenticate: everybody,
    logger,
  });
  return { ...server, logger, url: `http://127.0.0.1:${server.port}/v1` };
}

/** A gateway in front of a scripted engine that serves `tiny`, new for every test. */
export interface ScriptedGateway {
  upstream: ScriptedUpstream;
  /** What the engine does with a request. */
  script: (request: UpstreamRequest) => void;
  routes: ScriptedRoutes;
  server: Awaited<ReturnType<typeof startOpenAi>>;
  client: OpenAI;
  /** Resolves when every request that began has ended for the controller. */
  ended(): Promise<void>;
}

export function useScriptedGateway(): ScriptedGateway {
  const gateway = {
    ended: () => expect.poll(() => gateway.routes.ends.every((end) => end !== null)).toBe(true),
  } as ScriptedGateway;
  beforeEach(async () => {
    gateway.script = ({ socket }) => socket.destroy();
    gateway.upstream = await startUpstream((request) => gateway.script(request));
    gateway.routes = scriptedRoutes();
    gateway.routes.serve('tiny', { kind: 'local', port: gateway.upstream.port, apiKey });
    gateway.server = await startOpenAi(gateway.routes);
    gateway.client = new OpenAI({
      baseURL: gateway.server.url,
      apiKey: 'sk-of-the-client',
      maxRetries: 0,
      timeout: 10_000,
    });
  });
  afterEach(async () => {
    await gateway.server.close();
    await gateway.upstream.close();
  });
  return gateway;
}

export const part = (text: string): string =>
  chunk(
    `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: text } }] })}\n\n`,
  );
export const done = `${chunk('data: [DONE]\n\n')}0\r\n\r\n`;
export const hello = { model: 'tiny', messages: [{ role: 'user' as const, content: 'Hi' }] };
export const completion = JSON.stringify({
  id: 'c',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello there' }, finish_reason: 'stop' }],
});
