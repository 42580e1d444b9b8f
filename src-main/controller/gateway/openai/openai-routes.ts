import { CoveyError } from '#shared/errors.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { BodyBudget } from '../../../nodejs/http/body.ts';
import { openAiShape, respondJson } from '../../../nodejs/http/respond.ts';
import type { HttpRoute, RouteGroup } from '../../../nodejs/http/router.ts';
import type { DialUpstream, RouteTable, ServedModel } from '../ports.ts';
import { generate, modelNotFound } from './generation.ts';

/** Paths of the engine that clients may reach; all others stay its own. */
const forwardedPaths = ['/v1/chat/completions', '/v1/completions', '/v1/embeddings'] as const;
/** Bodies of all requests that are being received or sent on. */
const bodyBudgetBytes = 256 * 1024 * 1024;

/** The API that OpenAI's clients speak. */
export function openAiRoutes(options: {
  readonly routes: RouteTable;
  readonly dialUpstream: DialUpstream;
  readonly logger: Logger;
  readonly lostGraceMs: number;
}): RouteGroup {
  const { routes } = options;
  const generation = { ...options, budget: new BodyBudget(bodyBudgetBytes) };
  const forwarded = forwardedPaths.map((path): HttpRoute => ({
    method: 'POST',
    path,
    access: 'inference',
    handle: (call) => generate(call, path, generation),
  }));
  return {
    prefix: '/v1',
    errorShape: openAiShape,
    notFound: (path) =>
      new CoveyError(
        'route_not_found',
        `${path} is not served. There are: /v1/models, ${forwardedPaths.join(', ')}.`,
      ),
    routes: [
      ...forwarded,
      {
        method: 'GET',
        path: '/v1/models',
        access: 'inference',
        handle({ res }) {
          respondJson(res, 200, { object: 'list', data: routes.models().map(modelObject) });
        },
      },
      {
        method: 'GET',
        // Names of models may contain slashes.
        path: '/v1/models/*model',
        access: 'inference',
        handle({ res, params }) {
          const id = params['model'] ?? '';
          const all = routes.models();
          const model = all.find((candidate) => candidate.id === id);
          if (!model)
            throw modelNotFound(
              id,
              all.map((candidate) => candidate.id),
            );
          respondJson(res, 200, modelObject(model));
        },
      },
    ],
  };
}

/** OpenAI's model object; the last two fields are ours. */
function modelObject(model: ServedModel): object {
  return {
    id: model.id,
    object: 'model',
    created: Math.floor(model.createdAt / 1000),
    owned_by: 'covey',
    ready: model.ready,
    context_length: model.contextPerRequest,
  };
}
