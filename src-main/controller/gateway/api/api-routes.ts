import { z } from 'zod';
import { coreRoutes, eventHistoryQuerySchema, nodeRef } from '#shared/api/schema.ts';
import { answered, ApiAnswer, apiGroup } from '../../../nodejs/http/api-group.ts';
import { check } from '../../../nodejs/http/body.ts';
import type { RouteGroup } from '../../../nodejs/http/router.ts';
import type { ControllerService } from '../ports.ts';
import { createEventStream } from './event-stream.ts';

const logQuery = z.strictObject({
  node: nodeRef.optional(),
  limit: z.coerce.number().int().min(1).max(5_000).default(500),
});

/** What the controller knows and does, over HTTP. */
export function coreRoutesGroup(service: ControllerService): RouteGroup {
  const follow = createEventStream(service);
  return apiGroup(coreRoutes, {
    status: () => service.status(),
    nodes: () => ({ nodes: service.nodes() }),
    node: ({ param }) => service.node(param('node')),
    drain: ({ param, body }) => service.drain(param('node'), body.deadlineMs),
    resume: ({ param }) => service.resume(param('node')),
    pause: ({ param }) => service.pause(param('node')),
    renameNode: ({ param, body }) => service.renameNode(param('node'), body.name),
    nodeHistory: ({ param }) => service.nodeHistory(param('node')),
    pingNode: ({ param, signal }) => service.ping(param('node'), signal),
    removeNode({ param }) {
      service.removeNode(param('node'));
      return {};
    },
    models: async ({ signal }) => ({ models: await service.models(signal) }),
    importModel: ({ body }) => new ApiAnswer(202, service.importModel(body.node, body.path, body.name)),
    pullModel: ({ body }) => new ApiAnswer(202, service.pullModel(body.source, body.node)),
    async removeModel({ param, signal }) {
      await service.removeModel(param('node'), param('name'), signal);
      return {};
    },
    transfers: () => ({ transfers: service.transfers() }),
    transfer: ({ param }) => service.transfer(param('id')),
    cancelTransfer: ({ param }) => service.cancelTransfer(param('id')),
    deployments: () => ({ deployments: service.deployments() }),
    deployment: ({ param }) => service.deployment(param('id')),
    async load({ body, signal }) {
      const { deployment, existed } = await service.load(body, signal);
      return new ApiAnswer(existed ? 200 : 202, deployment);
    },
    previewLoad: ({ body, signal }) => service.preview(body, signal),
    unload: ({ param }) => service.unload(param('id')),
    retry: ({ param }) => service.retry(param('id')),
    eventHistory: ({ call }) =>
      service.eventHistory(check(eventHistoryQuerySchema, Object.fromEntries(call.query), 'The query')),
    events({ call }) {
      follow(call);
      return answered;
    },
    logs({ call }) {
      const { node, limit } = check(logQuery, Object.fromEntries(call.query), 'The query');
      return { lines: service.logs(node === undefined ? { limit } : { node, limit }) };
    },
  });
}
