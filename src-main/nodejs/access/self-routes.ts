import { accessRoutes } from '#shared/api/access.ts';
import { selfRoutes } from '#shared/api/self.ts';
import { ApiAnswer, apiGroup } from '../http/api-group.ts';
import type { RouteGroup } from '../http/router.ts';
import type { SelfPort } from '../self-port.ts';

const { self, join, confirmJoin, cancelJoin, leave, discovery, doctor, lendMeans } = selfRoutes;
const { machineCode, machineSession } = selfRoutes;
const { settings, setSettings } = accessRoutes;

/** `/api` about this machine itself, the same for both roles. */
export function selfRouteGroup(port: SelfPort): RouteGroup {
  return apiGroup(
    {
      ...{ self, join, confirmJoin, cancelJoin, leave, discovery, doctor, settings, setSettings, lendMeans },
      ...{ machineCode, machineSession },
    },
    {
      self: () => port.self(),
      join: async ({ body }) => new ApiAnswer(202, await port.startJoin(body)),
      confirmJoin: () => port.confirmJoin(),
      cancelJoin: () => port.cancelJoin(),
      leave: () => port.leave(),
      discovery: ({ signal }) => port.discovery(signal),
      doctor: ({ signal }) => port.doctor(signal),
      settings: () => port.settings(),
      setSettings: ({ body }) => port.setSettings(body),
      lendMeans: () => port.lendMeans(),
      machineCode() {
        const { code, expiresAt } = port.logins.code();
        return { code, url: `${port.self().apiAddress}/machine#code=${code}`, expiresAt };
      },
      machineSession: ({ body, call }) => port.logins.redeem(body.code, call),
    },
  );
}
