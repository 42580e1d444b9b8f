import type { DeploymentId } from '#shared/lib/ids.ts';
import { CoveyError } from '#shared/errors.ts';
import { startHttpServer, type HttpServer } from '../../nodejs/http/http-server.ts';
import { recordingLogger, type RecordedLog } from '../../nodejs/http/fixtures.ts';
import { openAiRoutes } from './openai/openai-routes.ts';
import type { DialUpstream, RouteResolution, RouteTable, Upstream } from './ports.ts';

export const apiKey = 'k'.repeat(64);

/** A route table whose answers a test sets, and what became of each request. */
export interface ScriptedRoutes extends RouteTable {
  serve(model: string, upstream: Upstream): void;
  refuse(model: string, error: CoveyError): void;
  /** Requests that have begun: their outcome, or null. */
  readonly ends: (string | null)[];
  /** Ends the running requests as a lost replica does. */
  abortAll(error: CoveyError): void;
}

export function scriptedRoutes(): ScriptedRoutes {
  const served = new Map<string, Upstream | CoveyError>();
  const running = new Map<number, AbortController>();
  const ends: (string | null)[] = [];
  return {
    ends,
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
}

export async function startOpenAi(
  routes: RouteTable,
  dialUpstream: DialUpstream = () => Promise.reject(new Error('there is no remote engine')),
): Promise<HttpServer & { readonly url: string; readonly logger: RecordedLog }> {
  const logger = recordingLogger();
  const server = await startHttpServer({
    listen: { loopback: { host: '127.0.0.1', port: 0 } },
    groups: [openAiRoutes({ routes, dialUpstream, logger, lostGraceMs: 100 })],
    logger,
  });
  return { ...server, logger, url: `http://127.0.0.1:${server.port}/v1` };
}
