import type { Duplex } from 'node:stream';
import { accessRoutes } from '#shared/api/access.ts';
import { jobRoutes } from '#shared/api/jobs.ts';
import type { ListenAddress } from '#shared/config.ts';
import { ARTIFACT_CHUNK_BYTES } from '#shared/domain/artifact.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { LocalAccess } from '../../src-main/nodejs/access/local-access.ts';
import { selfRouteGroup } from '../../src-main/nodejs/access/self-routes.ts';
import { dashboardPage, machinePage } from '../../src-main/nodejs/access/dashboard-page.ts';
import { BodyBudget } from '../../src-main/nodejs/http/body.ts';
import { startHttpServer } from '../../src-main/nodejs/http/http-server.ts';
import { coveyShape, openAiShape, respondJson } from '../../src-main/nodejs/http/respond.ts';
import type { HttpRoute, RouteGroup } from '../../src-main/nodejs/http/router.ts';
import type { SelfPort } from '../../src-main/nodejs/self-port.ts';
import type { SettingsStore } from '../../src-main/nodejs/settings/settings-store.ts';
import { forward, type ForwardOptions } from './forward.ts';
import { workerAccess } from './worker-access.ts';

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
  /** Who may ask about this machine itself: its owner. */
  readonly local: Pick<LocalAccess, 'verify'>;
  readonly self: SelfPort;
  readonly settings: SettingsStore;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface Forwarder {
  /** `http://127.0.0.1:7878` */
  readonly apiAddress: string;
  close(): Promise<void>;
}

const bodyLimitBytes = 32 * 1024 * 1024;
const apiBodyLimitBytes = 1024 * 1024;
const bodyBudgetBytes = 256 * 1024 * 1024;
/** The announcement of an upload may list a hundred thousand files. */
const announcementLimitBytes = 64 * 1024 * 1024;

/**
 * The API of a machine that is only a worker: what is about this machine is answered here; `/v1` and the rest of
 * `/api` go to the controller, so that apps have the same address on every machine.
 * @throws CoveyError `port_in_use`, `config_invalid`
 */
export async function createForwarder(options: ForwarderOptions): Promise<Forwarder> {
  const { settings, logger } = options;
  const shared = {
    dialGateway: options.dialGateway,
    budget: new BodyBudget(bodyBudgetBytes),
    requireKey: () => settings.current.api.requireKey,
    logger,
  };
  const v1: ForwardOptions = { ...shared, shape: openAiShape, bodyLimitBytes };
  const api: ForwardOptions = { ...shared, shape: coveyShape, bodyLimitBytes: apiBodyLimitBytes };
  const route = (
    method: HttpRoute['method'],
    path: string,
    access: HttpRoute['access'],
    to: ForwardOptions,
  ): HttpRoute => ({ method, path, access, handle: (call) => forward(call, method, to) });
  const { redeem } = accessRoutes;
  const { startUpload } = jobRoutes;
  const server = await startHttpServer({
    listen: { loopback: options.listen },
    groups: [
      {
        prefix: '/v1',
        errorShape: openAiShape,
        routes: (['GET', 'POST'] as const).map((method) => route(method, '/v1/*rest', 'inference', v1)),
      },
      selfRouteGroup(options.self),
      {
        prefix: '/api',
        errorShape: coveyShape,
        routes: [
          // Whoever logs in has no token yet.
          route(redeem.method, redeem.path, redeem.access, api),
          route(startUpload.method, startUpload.path, startUpload.access, {
            ...api,
            bodyLimitBytes: announcementLimitBytes,
          }),
          {
            ...route('PUT', '/api/artifacts/uploads/:id/chunks/:sha256', 'admin', {
              ...api,
              bodyLimitBytes: ARTIFACT_CHUNK_BYTES,
            }),
            bytes: true,
          },
          ...(['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const).map((method) =>
            route(method, '/api/*rest', 'admin', api),
          ),
        ],
      },
      health(options),
      dashboardPage(),
      machinePage(),
    ],
    ...workerAccess({ ...options, isMember: () => options.status().trouble?.code !== 'not_a_member' }),
    allowedHosts: () => settings.current.api.allowedHosts,
    logger,
  });
  const host = options.listen.host === '::1' ? '[::1]' : '127.0.0.1';
  return { apiAddress: `http://${host}:${server.port}`, close: () => server.close() };
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
        access: 'public',
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
