import { networkInterfaces, type NetworkInterfaceInfo } from 'node:os';
import type { Address } from '#shared/domain/node.ts';

/** Adapters of containers, virtual machines and VPNs: others rarely reach us there. */
const virtualNames =
  /^(docker|br-|veth|virbr|vmnet|vboxnet|vnic|tun|tap|wg|utun|tailscale|zt|ham|lxc|lxd|cni|flannel|cali|podman|ipsec|vEthernet)/i;
const max = 16;
const internalRank = 8;

/** Whether an adapter of this name leads to containers, virtual machines or a VPN. */
export function isVirtualInterface(name: string): boolean {
  return virtualNames.test(name);
}

/**
 * Where the cluster port can be dialled, best first: real adapters before virtual ones; among each, routable
 * addresses before link-local ones (a direct cable), and IPv4 before IPv6; loopback only when there is nothing else.
 * IPv6 link-local addresses are left out: they mean nothing without the dialler's own interface.
 * @param listen where the port is bound; a specific host is the only address
 */
export function dialAddresses(
  listen: Address | null,
  interfaces: NodeJS.Dict<NetworkInterfaceInfo[]> = networkInterfaces(),
): Address[] {
  if (!listen) return [];
  if (listen.host !== '0.0.0.0' && listen.host !== '::') return [listen];
  const found: { host: string; rank: number }[] = [];
  for (const [name, entries] of Object.entries(interfaces)) {
    for (const entry of entries ?? []) {
      const isV6 = entry.family === 'IPv6';
      if (isV6 && /^fe80:/i.test(entry.address)) continue;
      const linkLocal = entry.address.startsWith('169.254.');
      const rank =
        (entry.internal ? internalRank : 0) +
        (isVirtualInterface(name) ? 4 : 0) +
        (linkLocal ? 2 : 0) +
        (isV6 ? 1 : 0);
      found.push({ host: entry.address, rank });
    }
  }
  const outside = found.filter(({ rank }) => rank < internalRank);
  return (outside.length > 0 ? outside : found)
    .sort((a, b) => a.rank - b.rank)
    .slice(0, max)
    .map(({ host }) => ({ host, port: listen.port }));
}
