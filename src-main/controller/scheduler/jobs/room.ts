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
  /** Kept for a job in front that does not fit now: those behind get nothing here, nor may anything of them wait here. */
  kept: boolean;
}

/** Machines that may get work at all, with what open jobs leave of them. */
export function roomsOf(state: ControllerState, jobs: readonly JobRecord[]): Map<NodeId, Room> {
  const rooms = new Map<NodeId, Room>();
  for (const node of state.nodes.values()) {
    const { compute } = node.live;
    if (!compute || idleReasons(node).length > 0) continue;
    const { cpus, memoryBytes } = compute;
    rooms.set(node.durable.id, { node, compute, cpus, memoryBytes, kept: false });
  }
  for (const job of jobs) {
    if (job.tally.counts.active === 0 && job.preparation?.phase !== 'active') continue;
    for (const [id, { active }] of job.tally.nodes) {
      const room = active > 0 ? rooms.get(id) : undefined;
      if (!room) continue;
      occupy(room, job, Math.min(active, slotsFor(job.definition, room.compute, room.compute)));
    }
  }
  return rooms;
}

/** What is free of it is for the job that was looked at now, once there is enough. */
export function keep(room: Room): void {
  room.cpus = 0;
  room.kept = true;
}

/** So many tasks of the job run there. Those that wait at the machine take nothing yet. */
export function occupy(room: Room, { definition: { demand } }: JobRecord, tasks: number): void {
  room.cpus -= tasks * (demand.wholeNode ? room.compute.cpus : demand.cpus);
  room.memoryBytes -= tasks * demand.memoryBytes;
}
