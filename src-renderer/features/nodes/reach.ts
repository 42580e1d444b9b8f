/**
 * From where other machines reach the port of the controller at `clusterAddress` (`HOST:PORT` as it listens; null:
 * it is closed). `computer`: from the same computer only. `network`: from everywhere, by any address that the
 * computer has. `address`: at this one.
 */
export type Reach = 'closed' | 'computer' | 'network' | 'address';

export function reachOf(clusterAddress: string | null): Reach {
  if (clusterAddress === null) return 'closed';
  const host = clusterAddress.slice(0, clusterAddress.lastIndexOf(':')).replace(/^\[|\]$/g, '');
  if (/^(127\.|localhost$|::1$|::ffff:127\.)/i.test(host)) return 'computer';
  return host === '0.0.0.0' || host === '::' ? 'network' : 'address';
}

/** The port of `HOST:PORT`. */
export function portOf(address: string): string {
  return address.slice(address.lastIndexOf(':') + 1);
}
