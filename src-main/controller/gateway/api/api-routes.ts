import { z } from 'zod';
import {
  apiRoutes,
  drainBodySchema,
  importBodySchema,
  loadBodySchema,
  nodeRef,
  pullBodySchema,
  type ApiRoute,
} from '#shared/api/schema.ts';
import { check, readJson } from '../../../nodejs/http/body.ts';
import type { HttpCall } from '../../../nodejs/http/http-call.ts';
import { coveyShape, respondJson } from '../../../nodejs/http/respond.ts';
import type { RouteGroup } from '../../../nodejs/http/router.ts';
import type { ControllerService } from '../ports.ts';
import { createEventStream } from './event-stream.ts';

const bodyLimitBytes = 1024 * 1024;
const pathParameters = z.object({ node: nodeRef.optional(), id: nodeRef.optional() });
const noBody = z.strictObject({});
const logQuery = z.strictObject({
  node: nodeRef.optional(),
  limit: z.coerce.number().int().min(1).max(5_000).default(500),
});

/** The HTTP side of `/api`: each route of the contract reads its input, calls the service, and answers. */
export function controllerApiRoutes(service: ControllerService): RouteGroup {
  const ok = (call: HttpCall, body: unknown): void => respondJson(call.res, 200, body);
  const bodyOf = <T>({ req, res }: HttpCall, schema: z.ZodType<T>): Promise<T> =>
    readJson(req, res, bodyLimitBytes, schema);
  const param = (call: HttpCall, name: 'node' | 'id'): string =>
    check(pathParameters, call.params, 'The path')[name] ?? '';

  const handlers: Record<ApiRoute, (call: HttpCall) => void | Promise<void>> = {
    status: (call) => ok(call, service.status()),
    nodes: (call) => ok(call, { nodes: service.nodes() }),
    node: (call) => ok(call, service.node(param(call, 'node'))),
    async drain(call) {
      const { deadlineMs } = await bodyOf(call, drainBodySchema);
      ok(call, service.drain(param(call, 'node'), deadlineMs));
    },
    async resume(call) {
      await bodyOf(call, noBody);
      ok(call, service.resume(param(call, 'node')));
    },
    removeNode(call) {
      service.removeNode(param(call, 'node'));
      ok(call, {});
    },
    async invite(call) {
      await bodyOf(call, noBody);
      ok(call, service.invite());
    },
    models: (call) =>
      whileConnected(call, async (signal) => ok(call, { models: await service.models(signal) })),
    async importModel(call) {
      const { node, path, name } = await bodyOf(call, importBodySchema);
      respondJson(call.res, 202, service.importModel(node, path, name));
    },
    async pullModel(call) {
      const { source, node } = await bodyOf(call, pullBodySchema);
      respondJson(call.res, 202, service.pullModel(source, node));
    },
    transfer: (call) => ok(call, service.transfer(param(call, 'id'))),
    cancelTransfer: (call) => ok(call, service.cancelTransfer(param(call, 'id'))),
    deployments: (call) => ok(call, { deployments: service.deployments() }),
    deployment: (call) => ok(call, service.deployment(param(call, 'id'))),
    async load(call) {
      const body = await bodyOf(call, loadBodySchema);
      await whileConnected(call, async (signal) => {
        const { deployment, existed } = await service.load(body, signal);
        respondJson(call.res, existed ? 200 : 202, deployment);
      });
    },
    unload: (call) => ok(call, service.unload(param(call, 'id'))),
    async retry(call) {
      await bodyOf(call, noBody);
      ok(call, service.retry(param(call, 'id')));
    },
    events: createEventStream(service),
    logs(call) {
      const { node, limit } = check(logQuery, Object.fromEntries(call.query), 'The query');
      ok(call, { lines: service.logs(node === undefined ? { limit } : { node, limit }) });
    },
  };
  const names = Object.keys(apiRoutes) as ApiRoute[];
  return {
    prefix: '/api',
    errorShape: coveyShape,
    routes: names.map((name) => ({
      method: apiRoutes[name].method,
      path: apiRoutes[name].path,
      handle: handlers[name],
    })),
  };
}

/** Work that is given up when the client leaves or the server closes. */
async function whileConnected(call: HttpCall, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const gone = new AbortController();
  const onClose = (): void => gone.abort();
  call.res.once('close', onClose);
  try {
    await work(AbortSignal.any([gone.signal, call.closing]));
  } finally {
    call.res.off('close', onClose);
  }
}
