import { BlockList, isIPv6 } from 'node:net';
import type { NetworkInterfaceInfo } from 'node:os';
import { isVirtualInterface } from '../own-addresses.ts';

export type Interfaces = NodeJS.Dict<NetworkInterfaceInfo[]>;

/** One IPv4 address that can carry multicast. */
export interface InterfaceAddress {
  readonly name: string;
  readonly address: string;
  readonly netmask: string;
  /** Containers' and VPNs' adapters. */
  readonly virtual: boolean;
}

/** What there is to work with, in the order in which it is to be used and shown. */
export interface InterfacePlan {
  /** One responder each: real interfaces, then virtual ones; loopback alone when there is no other. */
  readonly used: readonly InterfaceAddress[];
  /** Interfaces that are up and cannot be used, with the reason. */
  readonly unused: readonly (Omit<InterfaceAddress, 'netmask'> & { readonly problem: string })[];
  /** Every address of this machine, for the announcement: in the order of `used`, IPv6 after IPv4. */
  readonly ownAddresses: readonly string[];
}

/** A host with dozens of container bridges still opens few sockets. */
const maxResponders = 16;

/** Pure: the same interfaces give an equal plan. */
export function planInterfaces(interfaces: Interfaces): InterfacePlan {
  const v4: InterfaceAddress[] = [];
  const loopback: InterfaceAddress[] = [];
  const v6: { readonly address: string; readonly virtual: boolean }[] = [];
  const v6Only: InterfacePlan['unused'][number][] = [];
  for (const [name, entries = []] of Object.entries(interfaces)) {
    const fours = entries.filter((entry) => entry.family === 'IPv4');
    for (const { address, netmask, internal, mac } of fours) {
      // Point-to-point adapters of VPNs have no hardware address, whatever they are called.
      const virtual = isVirtualInterface(name) || (!internal && mac === '00:00:00:00:00:00');
      (internal ? loopback : v4).push({ name, address, netmask, virtual });
    }
    // Link-local ones mean nothing to others, and idle adapters have them too.
    const sixes = entries.filter(
      (entry) => entry.family === 'IPv6' && !entry.internal && !/^fe80:/i.test(entry.address),
    );
    const virtual = isVirtualInterface(name);
    for (const { address } of sixes) v6.push({ address, virtual });
    if (fours.length === 0 && sixes[0] && !virtual) {
      const { address } = sixes[0];
      const problem = 'has only IPv6 addresses, and discovery speaks IPv4: add machines there by address';
      v6Only.push({ name, address, virtual, problem });
    }
  }
  const ordered = realFirst(v4);
  const used = ordered.length > 0 ? ordered.slice(0, maxResponders) : loopback.slice(0, 1);
  const excess = ordered.slice(maxResponders).map(({ name, address, virtual }) => ({
    name,
    address,
    virtual,
    problem: `is not used: discovery uses the first ${maxResponders} addresses`,
  }));
  return {
    used,
    unused: [...v6Only, ...excess],
    ownAddresses: [
      ...ordered.filter((one) => !one.virtual).map((one) => one.address),
      ...v6.filter((one) => !one.virtual).map((one) => one.address),
      ...ordered.filter((one) => one.virtual).map((one) => one.address),
      ...v6.filter((one) => one.virtual).map((one) => one.address),
    ],
  };
}

function realFirst(addresses: readonly InterfaceAddress[]): InterfaceAddress[] {
  // Among real ones, routable addresses before those of a direct cable.
  const rank = (one: InterfaceAddress): number =>
    (one.virtual ? 2 : 0) + (one.address.startsWith('169.254.') ? 1 : 0);
  return addresses.toSorted((a, b) => rank(a) - rank(b));
}

/** Which addresses a stranger may name, and on which interface it was heard. */
export interface Vicinity {
  /** The interfaces in whose subnet the IPv4 address is; all of them when it is in none, `exact` false. */
  near(address: string): { readonly exact: boolean; readonly on: readonly InterfaceAddress[] };
  isOwn(address: string): boolean;
  /**
   * Whether a packet may come from there or an announcement may point there: our subnets and the ranges that are
   * never the internet's, so that nobody can make us dial far away machines.
   */
  plausible(address: string): boolean;
}

const privateRanges = [
  ['10.0.0.0', 8],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
  ['169.254.0.0', 16],
  ['100.64.0.0', 10],
] as const;

export function createVicinity(plan: InterfacePlan, interfaces: Interfaces): Vicinity {
  const subnets = plan.used.map((one) => {
    const mask = ipv4Number(one.netmask);
    return { one, mask, network: (ipv4Number(one.address) & mask) >>> 0 };
  });
  const allowed = new BlockList();
  for (const [address, prefix] of privateRanges) allowed.addSubnet(address, prefix, 'ipv4');
  allowed.addSubnet('fc00::', 7, 'ipv6');
  const own = new Set<string>();
  for (const entry of Object.values(interfaces).flatMap((entries) => entries ?? [])) {
    own.add(entry.address);
    if (entry.internal || /^fe80:/i.test(entry.address)) continue;
    const prefix = Number(entry.cidr?.split('/')[1] ?? NaN);
    if (Number.isInteger(prefix)) {
      allowed.addSubnet(entry.address, prefix, entry.family === 'IPv6' ? 'ipv6' : 'ipv4');
    }
  }
  return {
    near(address) {
      const number = ipv4Number(address);
      const on = subnets
        .filter(({ mask, network }) => (number & mask) >>> 0 === network)
        .map(({ one }) => one);
      return on.length > 0 ? { exact: true, on } : { exact: false, on: plan.used };
    },
    isOwn: (address) => own.has(address),
    plausible: (address) => own.has(address) || allowed.check(address, isIPv6(address) ? 'ipv6' : 'ipv4'),
  };
}

function ipv4Number(address: string): number {
  return address.split('.').reduce((sum, part) => ((sum << 8) | Number(part)) >>> 0, 0);
}
