import { hostname, networkInterfaces, type NetworkInterfaceInfo } from 'node:os';

/** Under which other machines may call this one. */
export interface LanNames {
  /** In lower case: the host name, alone and with `.local`, and what `api.allowedHosts` adds. */
  readonly hosts: readonly string[];
  /** Best first; without those of link-local IPv6, which mean nothing to others. */
  readonly addresses: readonly string[];
}

const maxAddresses = 32;

export function lanNames(
  allowedHosts: readonly string[],
  interfaces: NodeJS.Dict<NetworkInterfaceInfo[]> = networkInterfaces(),
  host: string = hostname(),
): LanNames {
  const own = host.toLowerCase().replace(/\.$/, '');
  const valid = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/.test(own);
  const names = valid ? [own, ...(own.includes('.') ? [] : [`${own}.local`])] : [];
  const all = Object.values(interfaces).flatMap((entries) => entries ?? []);
  const outer = all.filter((entry) => !entry.internal && !/^fe80:/i.test(entry.address));
  const addresses = ['IPv4', 'IPv6'].flatMap((family) =>
    outer.filter((entry) => entry.family === family).map((entry) => entry.address.toLowerCase()),
  );
  return {
    hosts: [...new Set([...names, ...allowedHosts])],
    addresses: [...new Set(addresses)].slice(0, maxAddresses),
  };
}

/** As a Host header or URL has it. */
export function inUrl(address: string): string {
  return address.includes(':') ? `[${address}]` : address;
}
