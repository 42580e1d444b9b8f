import type { ListenAddress } from '#shared/config.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { startHttpServer, type HttpServer } from '../../nodejs/http/http-server.ts';
import { coveyShape, respondJson } from '../../nodejs/http/respond.ts';
import type { RouteGroup } from '../../nodejs/http/router.ts';
import { controllerApiRoutes } from './api/api-routes.ts';
import { openAiRoutes } from './openai/openai-routes.ts';
import type { ControllerService, DialUpstream, RouteTable } from './ports.ts';

export interface GatewayOptions {
  readonly listen: ListenAddress;
  /** Where members' `/v1` requests arrive from the transport process: a unix socket or a named pipe. */
  readonly memberSocketPath: string;
  readonly routes: RouteTable;
  readonly service: ControllerService;
  readonly dialUpstream: DialUpstream;
  readonly logger: Logger;
}

export interface Gateway {
  /** `http://127.0.0.1:7878` */
  readonly apiAddress: string;
  /** Lets running requests finish for a moment, ends the others with an error, and stops listening. */
  close(): Promise<void>;
}

/** The controller hears from the worker why an engine is gone, within about a second. */
const lostGraceMs = 1_500;

/**
 * The controller's HTTP side: `/v1`, `/api` and `/healthz` for this machine, `/v1` alone for members.
 * @throws CoveyError `port_in_use`, `config_invalid`
 */
export async function createGateway(options: GatewayOptions): Promise<Gateway> {
  const { logger, listen } = options;
  const openAi = openAiRoutes({ ...options, lostGraceMs });
  const local = await startHttpServer({
    listen: { loopback: listen },
    groups: [openAi, controllerApiRoutes(options.service), health(options.routes)],
    logger,
  });
  let members: HttpServer;
  try {
    members = await startHttpServer({
      listen: { socketPath: options.memberSocketPath },
      groups: [openAi],
      logger,
    });
  } catch (error) {
    await local.close();
    throw error;
  }
  const host = listen.host === '::1' ? '[::1]' : '127.0.0.1';
  return {
    apiAddress: `http://${host}:${local.port}`,
    async close() {
      await Promise.all([local.close(), members.close()]);
    },
  };
}

/** The process answers; whether models do is told beside it. */
function health(routes: RouteTable): RouteGroup {
  return {
    prefix: '/healthz',
    errorShape: coveyShape,
    routes: [
      {
        method: 'GET',
        path: '/healthz',
        handle({ res }) {
          const models = routes.models();
          const ready = models.filter((model) => model.ready).length;
          respondJson(res, 200, {
            status: 'ok',
            role: 'controller',
            models: { total: models.length, ready },
          });
        },
      },
    ],
  };
}
