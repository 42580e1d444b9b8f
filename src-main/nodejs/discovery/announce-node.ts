import type { BootId, NodeId } from '#shared/lib/ids.ts';
import type { Address } from '#shared/domain/node.ts';
import type { Discovery } from './discovery.ts';
import { announcementMark } from '../pairing/cluster-secret.ts';

/** Announces a node as it is now; called again whenever something of it changes. */
export function announceNode(
  discovery: Discovery,
  node: {
    readonly role: 'controller' | 'worker';
    readonly nodeId: NodeId;
    readonly bootId: BootId;
    readonly name: string;
    readonly version: string;
    readonly clusterAddress: Address | null;
    readonly clusterSecret: string | null;
  },
): void {
  const { clusterAddress, clusterSecret, ...rest } = node;
  if (!clusterAddress) return discovery.announce(null);
  const { host, port } = clusterAddress;
  discovery.announce({
    ...rest,
    port,
    ...(host === '0.0.0.0' || host === '::' ? {} : { host }),
    mark: clusterSecret === null ? null : (nonce) => announcementMark(clusterSecret, nonce, node.nodeId),
  });
}
