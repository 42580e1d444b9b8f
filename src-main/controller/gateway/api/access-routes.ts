import { accessRoutes } from '#shared/api/access.ts';
import { carriedMs } from '../../../nodejs/access/login-codes.ts';
import { ApiAnswer, apiGroup } from '../../../nodejs/http/api-group.ts';
import type { RouteGroup } from '../../../nodejs/http/router.ts';
import type { AccessControl } from '../../access/access.ts';

const { loginCode, signInCode, redeem, logout, keys, createKey, revokeKey } = accessRoutes;

/** Logins and API keys. @param apiAddress where the one-time link leads */
export function accessRoutesGroup(access: AccessControl, apiAddress: () => string): RouteGroup {
  return apiGroup(
    { loginCode, signInCode, redeem, logout, keys, createKey, revokeKey },
    {
      loginCode() {
        const { code, expiresAt } = access.loginCode();
        return { code, url: `${apiAddress()}/#code=${code}`, expiresAt };
      },
      signInCode() {
        const { code, expiresAt } = access.signInCode();
        return {
          code,
          // Where its owner chose a port here, the same one is likelier there than the usual one.
          url: `http://localhost:${new URL(apiAddress()).port}/#code=${code}`,
          expiresAt,
          lifeMs: carriedMs,
        };
      },
      redeem: ({ body, call }) => access.redeem(body.code, call),
      logout({ call }) {
        access.logout(call.principal);
        return {};
      },
      keys: () => ({ keys: access.keys() }),
      createKey: ({ body }) => new ApiAnswer(201, access.createKey(body.name, body.scope)),
      revokeKey({ param }) {
        access.revokeKey(param('id'));
        return {};
      },
    },
  );
}
