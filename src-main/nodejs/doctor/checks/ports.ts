import { join } from 'node:path';
import { defaults } from '#shared/config.ts';
import type { DoctorCheck } from '#shared/domain/doctor.ts';
import { finishCheck, listing, type Finding } from '../check.ts';
import { readApiAccess } from '../../access/local-access.ts';
import { portUserText, type PortQuestion, type PortUse, type PortUser } from '../../port-users.ts';
import type { DoctorContext } from '../context.ts';
import type { DoctorSystem } from '../system.ts';

interface Port extends PortQuestion {
  readonly id: string;
  readonly title: string;
  /** The node listens there; false: it wants to and could not, or does not run. */
  readonly held: boolean;
  /** Goes on after the port's number. */
  readonly use: string;
  readonly remedy: string;
}

/** A check for each port of ours: held by us, free, or taken and by whom. */
export async function checkPorts(context: DoctorContext, system: DoctorSystem): Promise<DoctorCheck[]> {
  const { ports, unused } = portsOf(context);
  const uses = await system.ports([...ports, mdns]);
  const ownPid = await ourPid(context, system);
  const own = (user: PortUser): Promise<boolean> => belongsTo(user.pid, ownPid, system);
  const checks: DoctorCheck[] = [...unused];
  for (const [index, port] of ports.entries()) {
    const use = uses[index] ?? { known: false, reason: 'nothing was answered' };
    checks.push(finishCheck(port.id, port.title, await judge(port, use, own, system.platform)));
  }
  const shared = uses[ports.length] ?? { known: false, reason: 'nothing was answered' };
  checks.push(finishCheck('port-mdns', `Port ${mdns.port}`, await judgeMdns(context, shared, own)));
  return checks;
}

const mdns = { protocol: 'udp', port: 5353 } as const;

function portsOf({ node, settings, dataDirectory }: DoctorContext): {
  ports: Port[];
  unused: DoctorCheck[];
} {
  const ports: Port[] = [];
  const unused: DoctorCheck[] = [];
  // A node that was ended without a word has left its address; of one that was stopped the ports are not known.
  const apiAddress = node === null ? readApiAccess(dataDirectory)?.apiAddress : node.apiAddress;
  const apiPort = apiAddress ? portOfUrl(apiAddress) : defaults.apiPort;
  const useOf = (what: string, isKnown: boolean): string =>
    isKnown ? ` for ${what}` : `, the default for ${what},`;
  if (node && !node.apiAddress) {
    const summary = 'This node was started without an API';
    unused.push(finishCheck('port-api', 'API port', { status: 'skipped', summary }));
  } else {
    ports.push({
      id: 'port-api',
      title: `Port ${apiPort}`,
      protocol: 'tcp',
      port: apiPort,
      held: node !== null,
      use: useOf('the API of this machine', node !== null || Boolean(apiAddress)),
      remedy: 'End that program, or choose another port with --api HOST:PORT',
    });
  }
  if (node && node.clusterAddress === null) {
    unused.push(
      finishCheck('port-cluster', 'Cluster port', {
        status: 'warn',
        summary: 'The cluster port is closed: others reach this machine only by connections that it opens',
        action: `Start with --cluster 0.0.0.0:${defaults.clusterPort} to be reached directly`,
      }),
    );
  } else {
    const port = node?.clusterAddress?.port ?? defaults.clusterPort;
    ports.push({
      id: 'port-cluster',
      title: `Port ${port}`,
      protocol: 'tcp',
      port,
      held: node !== null,
      use: useOf('the other machines', node !== null),
      remedy: 'End that program, or choose another port with --cluster HOST:PORT',
    });
  }
  if (settings.lan.enabled) {
    ports.push({
      id: 'port-lan',
      title: `Port ${settings.lan.port}`,
      protocol: 'tcp',
      port: settings.lan.port,
      held: (node?.lan?.addresses.length ?? 0) > 0,
      use: useOf('LAN access', true),
      remedy: 'End that program, or choose another port with "covey config set lan.port PORT"',
    });
  }
  return { ports, unused };
}

async function judge(
  port: Port,
  use: PortUse,
  own: (user: PortUser) => Promise<boolean>,
  platform: NodeJS.Platform,
): Promise<Finding> {
  const what = `Port ${port.port}${port.use}`;
  if (!use.known) {
    if (port.held) return { status: 'ok', summary: `${what} is ours` };
    return { status: 'skipped', summary: `Whether port ${port.port} is free is not known: ${use.reason}` };
  }
  const others: PortUser[] = [];
  let ours = false;
  for (const user of use.users) {
    if (await own(user)) ours = true;
    // Sockets that the system hides, or whose descent it hides, are most likely the node's own.
    else if (!port.held || (user.pid !== null && platform !== 'win32')) others.push(user);
  }
  if (others.length === 0) {
    if (port.held || ours) return { status: 'ok', summary: `${what} is ours` };
    return { status: 'ok', summary: `${what} is free` };
  }
  const who = listing(others.map(portUserText));
  if (port.held || ours) {
    return {
      status: 'warn',
      summary: `${what} is ours, but ${who} listens there too on another address`,
      action: port.remedy,
    };
  }
  return { status: 'fail', summary: `${what} is taken by ${who}`, action: port.remedy };
}

/** Port 5353 is made to be shared; what counts is whether we may, which discovery or a trial tells. */
async function judgeMdns(
  { node, settings }: DoctorContext,
  use: PortUse,
  own: (user: PortUser) => Promise<boolean>,
): Promise<Finding> {
  if (!settings.discovery.enabled) {
    return { status: 'skipped', summary: 'Discovery is off by the setting discovery.enabled' };
  }
  if (node !== null && node.discovery === null) {
    return { status: 'skipped', summary: 'This node was started without discovery' };
  }
  if (!use.known) {
    return { status: 'skipped', summary: `Who uses port ${mdns.port} is not known: ${use.reason}` };
  }
  const others: string[] = [];
  for (const user of use.users) if (!(await own(user))) others.push(portUserText(user));
  const blocked = node?.discovery?.interfaces.find(({ problem }) => /EADDRINUSE|in use/i.test(problem ?? ''));
  if (blocked) {
    const who = others.length === 0 ? 'another program' : listing(others);
    return {
      status: 'warn',
      summary: `Port ${mdns.port} for discovery is not shared by ${who}, so nothing is found by itself`,
      action: 'End that program, or add machines by address with "covey join ADDRESS"',
    };
  }
  if (others.length === 0) return { status: 'ok', summary: `Port ${mdns.port} for discovery is free to use` };
  return { status: 'ok', summary: `Port ${mdns.port} for discovery is shared with ${listing(others)}` };
}

/** The process that runs this node: ourselves, or the holder of the data directory's lock. */
async function ourPid(context: DoctorContext, system: DoctorSystem): Promise<number | null> {
  if (context.node !== null) return system.pid;
  const text = await system.readText(join(context.dataDirectory, 'lock'));
  const pid = Number(/"pid":\s*(\d{1,10})/.exec(text ?? '')?.[1]);
  return Number.isInteger(pid) && pid > 0 ? pid : null;
}

const maxDepth = 6;

/** The transport process and others are children of the node's own. */
async function belongsTo(pid: number | null, ownPid: number | null, system: DoctorSystem): Promise<boolean> {
  let current = pid;
  for (let depth = 0; depth < maxDepth && current !== null && current > 1; depth += 1) {
    // Our own process, too, when it is the command line: it tries multicast at this moment.
    if (current === ownPid || current === system.pid) return true;
    current = await system.parentOf(current);
  }
  return false;
}

function portOfUrl(url: string): number {
  try {
    return Number(new URL(url).port) || 80;
  } catch {
    return defaults.apiPort;
  }
}
