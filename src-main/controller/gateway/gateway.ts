import type { ListenAddress } from '#shared/config.ts';
import { selfRoutes, type PairCheck } from '#shared/api/self.ts';
import type { Access } from '#shared/api/access.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { selfRouteGroup } from '../../nodejs/access/self-routes.ts';
import { dashboardPage, machinePage } from '../../nodejs/access/dashboard-page.ts';
import { apiGroup } from '../../nodejs/http/api-group.ts';
import { startHttpServer, type HttpListen, type HttpServer } from '../../nodejs/http/http-server.ts';
import { coveyShape, respondJson } from '../../nodejs/http/respond.ts';
import type { RouteGroup } from '../../nodejs/http/router.ts';
import type { SelfPort } from '../../nodejs/self-port.ts';
import type { SettingsStore } from '../../nodejs/settings/settings-store.ts';
import type { LanPort } from '../../nodejs/settings/settings-port.ts';
import type { AccessControl } from '../access/access.ts';
import type { NotedKind } from '../state/events.ts';
import { accessRoutesGroup } from './api/access-routes.ts';
import { coreRoutesGroup } from './api/api-routes.ts';
import { createLanAccess } from './lan-access.ts';
import { openAiRoutes } from './openai/openai-routes.ts';
import type { ControllerService, DialUpstream, RouteTable } from './ports.ts';

export interface GatewayOptions {
  readonly listen: ListenAddress;
  /** Where members' requests arrive from the transport process: a unix socket or a named pipe. */
  readonly memberSocketPath: string;
  readonly dataDirectory: string;
  readonly routes: RouteTable;
  readonly service: ControllerService;
  readonly dialUpstream: DialUpstream;
  readonly access: AccessControl;
  readonly settings: SettingsStore;
  readonly self: SelfPort;
  /** The routes of joining, see joiningRoutesGroup. */
  readonly joining: RouteGroup;
  /** The routes of jobs, see jobRoutesGroup. */
  readonly jobs: RouteGroup;
  /** The routes of artifacts, see artifactRoutesGroup. */
  readonly artifacts: RouteGroup;
  /** The last measurement of every pair of machines. */
  readonly links: { list(): readonly PairCheck[] };
  /** For the list of events. */
  readonly note: (kind: NotedKind, level: 'info' | 'warn' | 'error', message: string) => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface Gateway {
  /** `http://127.0.0.1:7878` */
  readonly apiAddress: string;
  /** What LAN access has to say about the settings. */
  readonly lan: LanPort;
  /** Lets running requests finish for a moment, ends the others with an error, and stops listening. */
  close(): Promise<void>;
}

/** The controller hears from the worker why an engine is gone, within about a second. */
const lostGraceMs = 1_500;

/**
 * The controller's HTTP side. On this machine: `/v1`, `/api`, `/healthz` and the dashboard. On the LAN, when
 * that is on: the same by HTTPS, with a key or a login. For members: `/v1`, and `/api` for who has a login or an
 * admin key of this controller; what is about the machine itself stays on it.
 * @throws CoveyError `port_in_use`, `config_invalid`
 */
export async function createGateway(options: GatewayOptions): Promise<Gateway> {
  const { logger, listen, access, settings } = options;
  const host = listen.host === '::1' ? '[::1]' : '127.0.0.1';
  let apiAddress = '';
  const shared = [
    openAiRoutes({ ...options, lostGraceMs }),
    coreRoutesGroup(options.service),
    options.joining,
    options.jobs,
    options.artifacts,
    accessRoutesGroup(access, () => apiAddress),
    apiGroup({ links: selfRoutes.links }, { links: () => ({ links: [...options.links.list()] }) }),
  ];
  const own = [...shared, selfRouteGroup(options.self), dashboardPage(), machinePage()];
  const start = (where: HttpListen, groups: readonly RouteGroup[]): Promise<HttpServer> =>
    startHttpServer({
      listen: where,
      groups,
      authenticate: access.authenticate,
      allowedHosts: () => settings.current.api.allowedHosts,
      onRefused: access.noteRefused,
      logger,
    });

  const local = await start({ loopback: listen }, [...own, health(options.routes, 'public')]);
  apiAddress = `http://${host}:${local.port}`;
  let members: HttpServer;
  try {
    members = await start({ socketPath: options.memberSocketPath }, shared);
  } catch (error) {
    await local.close();
    throw error;
  }
  const lan = createLanAccess({
    ...options,
    hasKeys: () => access.keys().length > 0,
    startServer: (where) => start({ lan: where }, [...own, health(options.routes, 'inference')]),
  });
  access.onKeys(() => lan.refresh());
  return {
    apiAddress,
    lan,
    async close() {
      await Promise.all([local.close(), members.close(), lan.close()]);
    },
  };
}

/** The process answers; whether models do is told beside it. */
function health(routes: RouteTable, access: Access): RouteGroup {
  return {
    prefix: '/healthz',
    errorShape: coveyShape,
    routes: [
      {
        method: 'GET',
        path: '/healthz',
        access,
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
