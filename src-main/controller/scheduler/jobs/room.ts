import type { NodeId } from '#shared/lib/ids.ts';
import type { ComputeFacts } from '#shared/domain/task.ts';
import type { JobRecord } from '../../state/job-state.ts';
import { idleReasons } from '../../state/selectors.ts';
import type { ControllerState, NodeRecord } from '../../state/state.ts';
import { slotsFor } from './fit.ts';

/** What is free of a machine while work is given out; changes with every task that goes there. */
export interface Room {
  readonly node: NodeRecord;
  readonly compute: ComputeFacts;
  cpus: number;
  memoryBytes: number;
}

/** Machines that may get work at all, with what open jobs leave of them. */
export function roomsOf(state: ControllerState, jobs: readonly JobRecord[]): Map<NodeId, Room> {
  const rooms = new Map<NodeId, Room>();
  for (const node of state.nodes.values()) {
    const { compute } = node.live;
    if (!compute || idleReasons(node).length > 0) continue;
    const room: Room = { node, compute, cpus: compute.cpus, memoryBytes: compute.memoryBytes };
    for (const job of jobs) {
      const active = job.tally.nodes.get(node.durable.id)?.active ?? 0;
      if (active > 0) occupy(room, job, Math.min(active, slotsFor(job.definition, compute, compute)));
    }
    rooms.set(node.durable.id, room);
  }
  return rooms;
}

/** So many tasks of the job run there. Those that wait at the machine take nothing yet. */
export function occupy(room: Room, { definition: { demand } }: JobRecord, tasks: number): void {
  room.cpus -= tasks * (demand.wholeNode ? room.compute.cpus : demand.cpus);
  room.memoryBytes -= tasks * demand.memoryBytes;
}
