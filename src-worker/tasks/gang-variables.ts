import type { GangGo, TaskAssignment } from '#shared/domain/task.ts';

/**
 * What a rank learns of its gang: under our names, and under those that torch.distributed and what is built on it read.
 * `COVEY_HOSTS` has a host for each rank, `COVEY_PORTS` the ports of this rank, `COVEY_ALL_PORTS` those of each rank
 * (`,` between ports, `;` between ranks).
 * @param networkInterface where ranks reach one another; null: loopback
 */
export function gangVariables(
  gang: NonNullable<TaskAssignment['gang']>,
  go: GangGo,
  networkInterface: string | null,
): Record<string, string> {
  const ranks = [...go.ranks].sort((a, b) => a.rank - b.rank);
  const own = ranks.find(({ rank }) => rank === gang.rank);
  const master = ranks[0];
  const local = ranks.filter(({ nodeId }) => nodeId === own?.nodeId);
  const [masterPort] = master?.ports ?? [];
  const host = master?.host ?? '127.0.0.1';
  return {
    COVEY_RANK: String(gang.rank),
    COVEY_WORLD_SIZE: String(gang.worldSize),
    COVEY_START: String(gang.start),
    COVEY_MASTER_ADDR: host,
    COVEY_HOSTS: ranks.map((rank) => rank.host).join(','),
    COVEY_PORTS: (own?.ports ?? []).join(','),
    COVEY_ALL_PORTS: ranks.map(({ ports }) => ports.join(',')).join(';'),
    RANK: String(gang.rank),
    WORLD_SIZE: String(gang.worldSize),
    LOCAL_RANK: String(local.findIndex(({ rank }) => rank === gang.rank)),
    LOCAL_WORLD_SIZE: String(local.length),
    MASTER_ADDR: host,
    ...(masterPort === undefined
      ? {}
      : { COVEY_MASTER_PORT: String(masterPort), MASTER_PORT: String(masterPort) }),
    // These look names up otherwise, which in a small network often gives 127.0.1.1.
    ...(networkInterface === null
      ? {}
      : { GLOO_SOCKET_IFNAME: networkInterface, NCCL_SOCKET_IFNAME: networkInterface }),
  };
}
