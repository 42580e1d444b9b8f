import type { NodeId } from '#shared/lib/ids.ts';
import type { Member } from '../nodejs/transport/transport.ts';
import type { ControllerState } from './state/state.ts';

/** The keys that may speak to the cluster port; our own never comes from outside. */
export function membersOf({ nodes, removedNodes }: ControllerState, selfId: NodeId): Member[] {
  const others = [...nodes.values()].filter(({ durable }) => durable.id !== selfId);
  const members: Member[] = others.map(({ durable }) => ({
    nodeId: durable.id,
    role: 'worker',
    name: durable.name,
  }));
  for (const removed of removedNodes.values()) {
    if (removed.id === selfId) continue;
    members.push({
      nodeId: removed.id,
      role: 'worker',
      name: removed.name,
      refusal: {
        code: 'node_removed',
        message: 'This machine was removed from the covey. Run "covey join" here to join again.',
      },
    });
  }
  return members;
}
