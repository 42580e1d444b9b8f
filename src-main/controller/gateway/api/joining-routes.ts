import { joiningRoutes } from '#shared/api/joining.ts';
import { apiGroup } from '../../../nodejs/http/api-group.ts';
import type { RouteGroup } from '../../../nodejs/http/router.ts';
import type { Joining } from '../../joining/joining.ts';

/** Who may become a member, over HTTP. */
export function joiningRoutesGroup(joining: Joining): RouteGroup {
  return apiGroup(joiningRoutes, {
    invite: () => joining.invite(),
    pending: () => joining.pending(),
    approve: ({ body }) => joining.approve(body.code),
    deny: ({ param, body }) => joining.deny(param('id'), body.block),
    unblock({ param }) {
      joining.unblock(param('id'));
      return {};
    },
    clusterSecret: () => ({ secret: joining.clusterSecret() }),
    newClusterSecret: async () => ({ secret: await joining.newClusterSecret() }),
    async dropClusterSecret() {
      await joining.dropClusterSecret();
      return {};
    },
  });
}
