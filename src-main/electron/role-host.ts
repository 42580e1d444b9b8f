import type { DesktopRole } from '#shared/api/shell.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { ProcessHost } from '../nodejs/process-host/process-host.ts';
import { startControllerNode } from '../roles/controller-node.ts';
import { layFoundation } from '../roles/foundation.ts';
import type { RoleNode } from '../roles/role-node.ts';
import { startWorkerNode } from '../roles/worker-node.ts';
import type { DesktopArguments } from './arguments.ts';

/** The role that runs in this app; one change after the other. */
export interface RoleHost {
  readonly current: RoleNode | null;
  /**
   * Ends what runs and starts this role. Null, before anybody was asked: a worker that belongs to no covey yet.
   * Rejects with what keeps it from starting; nothing runs then.
   */
  start(role: DesktopRole | null): Promise<RoleNode>;
  close(): Promise<void>;
}

export function createRoleHost(
  options: Omit<DesktopArguments, 'data' | 'hidden' | 'link'> & {
    readonly data: string;
    readonly processHost: ProcessHost;
    readonly logger: Logger;
  },
): RoleHost {
  const { name, api, cluster, discovery } = options;
  let current: RoleNode | null = null;
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const next = last.then(work);
    last = next.catch(() => undefined);
    return next;
  };
  const stop = async (): Promise<void> => {
    const ending = current;
    current = null;
    await ending?.close();
  };
  return {
    get current() {
      return current;
    },
    start: (role) =>
      inTurn(async () => {
        await stop();
        const shared = { foundation: await layFoundation(options), name, api, cluster, discovery };
        current = await (role === 'controller' || role === 'both'
          ? startControllerNode({ ...shared, lend: role === 'both' })
          : startWorkerNode({ ...shared, joinString: undefined }));
        return current;
      }),
    close: () => inTurn(stop),
  };
}
