import { isVirtualInterface } from '../../own-addresses.ts';
import { clause, listing, type Finding } from '../check.ts';
import type { DoctorContext } from '../context.ts';
import type { InterfaceAddress, InterfaceEcho } from '../multicast-probe.ts';
import type { DoctorSystem } from '../system.ts';

export function checkInterfaces(_context: DoctorContext, system: DoctorSystem): Finding {
  const addresses = system.addresses().filter(({ address }) => !/^fe80:/i.test(address));
  const text = ({ name, address }: InterfaceAddress): string => `${name} (${address})`;
  const real = addresses.filter(({ name }) => !isVirtualInterface(name));
  if (addresses.length === 0) {
    return {
      status: 'fail',
      summary: 'No network interface has an address: no other machine can be reached',
      action: 'Plug in a network cable or connect to a Wi-Fi',
    };
  }
  if (real.length === 0) {
    return {
      status: 'warn',
      summary: `Only adapters of containers or VPNs have an address: ${listing(addresses.map(text))}`,
      action: 'Connect this machine to the network that the other machines are in',
    };
  }
  const lonely = real.every(({ address }) => address.startsWith('169.254.'));
  if (lonely) {
    return {
      status: 'warn',
      summary: `There are only self-assigned addresses: ${listing(real.map(text))}, which is right for a direct cable and wrong for a network with a router`,
      action: 'Check the cable to the router, unless two machines are joined by a cable on purpose',
    };
  }
  return { status: 'ok', summary: `Addresses are on ${listing(real.map(text))}` };
}

const byAddress = 'or add machines by address with "covey join ADDRESS"';

/** Whether multicast DNS goes out and comes in, per interface that counts. */
export async function checkMulticast(context: DoctorContext, system: DoctorSystem): Promise<Finding> {
  if (!context.settings.discovery.enabled) {
    return {
      status: 'skipped',
      summary: 'Discovery is off by the setting discovery.enabled, so machines are added by address',
    };
  }
  if (context.node !== null && context.node.discovery === null) {
    return {
      status: 'skipped',
      summary: 'This node was started without discovery, so machines are added by address',
    };
  }
  const addresses = system.addresses();
  const { bindProblem, interfaces } = await system.multicast(addresses);
  if (bindProblem !== null) {
    return {
      status: 'warn',
      summary: `UDP port 5353 cannot be opened (${clause(bindProblem)}), so nothing is found by itself`,
      action: `End the program that holds port 5353 for itself, ${byAddress}`,
    };
  }
  const counting = interfaces.filter(({ virtual }) => !virtual);
  const judged = counting.length > 0 ? counting : interfaces;
  if (judged.length === 0) {
    return { status: 'skipped', summary: 'No interface has an IPv4 address to announce on' };
  }
  const stuck = judged.filter((one) => one.problem !== null);
  const deaf = judged.filter((one) => one.problem === null && !one.heardSelf);
  const failing = context.node?.discovery?.interfaces.filter((one) => !one.virtual && one.problem !== null);
  if (stuck.length > 0 || deaf.length > 0) {
    const parts = [
      ...(stuck.length > 0 ? [`cannot be sent on ${listing(stuck.map(withProblem))}`] : []),
      ...(deaf.length > 0 ? [`is not heard back on ${listing(deaf.map(nameOf))}`] : []),
    ];
    return {
      status: 'warn',
      summary: `Multicast ${parts.join(' and ')}: machines on that network do not find each other`,
      action: `Allow UDP port 5353 in the firewall (${allowMdns(system.platform)}), ${byAddress}`,
    };
  }
  const [first] = failing ?? [];
  if (first) {
    return {
      status: 'warn',
      summary: `Discovery does not work on ${first.name} (${first.address}): ${clause(first.problem ?? '')}`,
      action: `Start Covey again, ${byAddress}`,
    };
  }
  const others = judged.reduce((sum, one) => sum + one.heardOthers, 0);
  const where = listing(judged.map(nameOf));
  return {
    status: 'ok',
    summary:
      others === 0
        ? `Multicast works on ${where}, though no other device was heard in a second`
        : `Multicast works on ${where}, and ${others === 1 ? 'another device was' : `${others} other devices were`} heard`,
  };
}

function nameOf({ name, address }: InterfaceEcho): string {
  return `${name} (${address})`;
}

function withProblem(one: InterfaceEcho): string {
  return `${nameOf(one)}, ${clause(one.problem ?? '')}`;
}

function allowMdns(platform: NodeJS.Platform): string {
  if (platform === 'win32') return 'Settings, Network, "Private network"';
  if (platform === 'darwin') return 'System Settings, Network, Firewall';
  return '"sudo ufw allow 5353/udp" or "sudo firewall-cmd --add-service=mdns --permanent"';
}
