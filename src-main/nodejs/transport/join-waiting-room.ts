import { LIMITS } from '#shared/protocol/version.ts';
import { addressGroup } from './host/connection-gate.ts';

/** Counts the joins that wait for a person: few in all, fewer from one address. */
export interface JoinWaitingRoom {
  /** false: full. Again for the same join: true. */
  enter(join: object, remoteAddress: string): boolean;
  leave(join: object): void;
}

export function createJoinWaitingRoom(): JoinWaitingRoom {
  const groups = new Map<object, string>();
  return {
    enter(join, remoteAddress) {
      if (groups.has(join)) return true;
      const group = addressGroup(remoteAddress);
      const same = [...groups.values()].filter((other) => other === group).length;
      if (groups.size >= LIMITS.joinWaiting || same >= LIMITS.joinWaitingPerAddress) return false;
      groups.set(join, group);
      return true;
    },
    leave: (join) => void groups.delete(join),
  };
}
