import type { NodeId } from '#shared/lib/ids.ts';
import type { Member } from '#shared/host/transport.ts';

/** A connection of a member, as the table sees it. */
export interface MemberConnection {
  /** The member is gone, or must hear why it is refused. Called at most once. */
  expel(member: Member | null): void;
}

export interface MemberTable {
  get(nodeId: NodeId): Member | undefined;
  /** The whole set. Connections of members that are gone, refused or in another role are expelled. */
  set(members: readonly Member[]): void;
  /** Returns the function to call when the connection is over. */
  track(member: Member, connection: MemberConnection): () => void;
  count(nodeId: NodeId): number;
}

export function createMemberTable(initial: readonly Member[]): MemberTable {
  let members = new Map(initial.map((member) => [member.nodeId, member]));
  const connections = new Map<NodeId, Map<MemberConnection, Member>>();

  return {
    get: (nodeId) => members.get(nodeId),
    set(next) {
      members = new Map(next.map((member) => [member.nodeId, member]));
      for (const [nodeId, own] of [...connections]) {
        const member = members.get(nodeId) ?? null;
        for (const [connection, admittedAs] of [...own]) {
          if (member && !member.refusal && member.role === admittedAs.role) continue;
          own.delete(connection);
          connection.expel(member);
        }
      }
    },
    track(member, connection) {
      let own = connections.get(member.nodeId);
      if (!own) connections.set(member.nodeId, (own = new Map<MemberConnection, Member>()));
      own.set(connection, member);
      return () => {
        own.delete(connection);
        if (own.size === 0 && connections.get(member.nodeId) === own) connections.delete(member.nodeId);
      };
    },
    count: (nodeId) => connections.get(nodeId)?.size ?? 0,
  };
}
