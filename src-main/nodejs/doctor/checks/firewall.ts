import { defaults } from '#shared/config.ts';
import { clause, type Finding } from '../check.ts';
import type { DoctorContext } from '../context.ts';
import type { DoctorSystem } from '../system.ts';
import { openPortText } from './reach.ts';

/**
 * Which firewall runs on this machine, and, where the system lets us read it, whether it knows of the cluster port.
 * That a firewall runs is no fault; whether others get in, the controller tries.
 */
export async function checkFirewall(context: DoctorContext, system: DoctorSystem): Promise<Finding> {
  if (context.node && context.node.clusterAddress === null) {
    return { status: 'skipped', summary: 'The cluster port is closed, so nothing needs to be let in' };
  }
  const port = context.node?.clusterAddress?.port ?? defaults.clusterPort;
  switch (system.platform) {
    case 'linux':
      return onLinux(port, system);
    case 'darwin':
      return onMac(port, system);
    case 'win32':
      return onWindows(port, system);
    default:
      return { status: 'skipped', summary: `There is no way to ask for a firewall on ${system.platform}` };
  }
}

const tested = 'whether others get in, "covey doctor" on the controller tells';

async function onLinux(port: number, system: DoctorSystem): Promise<Finding> {
  const ufw = await system.readText('/etc/ufw/ufw.conf');
  if (ufw !== null && /^\s*ENABLED=yes\s*$/im.test(ufw)) {
    // Only an administrator may read the rules.
    const status = await system.run('ufw', ['status']);
    const readable = status.ok && status.code === 0 && /Status: active/i.test(status.stdout);
    if (readable && !allowsPort(status.stdout, port)) return missing('ufw', port, 'linux');
    if (readable) return { status: 'ok', summary: `The firewall ufw lets TCP port ${port} in` };
    return { status: 'ok', summary: `The firewall ufw is on: ${tested}` };
  }
  const firewalld = await system.run('firewall-cmd', ['--state']);
  if (firewalld.ok && /^running/m.test(firewalld.stdout)) {
    const query = await system.run('firewall-cmd', [`--query-port=${port}/tcp`]);
    if (query.ok && /^yes/m.test(query.stdout)) {
      return { status: 'ok', summary: `The firewall firewalld lets TCP port ${port} in` };
    }
    if (query.ok && /^no/m.test(query.stdout)) return missing('firewalld', port, 'linux');
    return { status: 'ok', summary: `The firewall firewalld is on: ${tested}` };
  }
  return { status: 'ok', summary: `Neither ufw nor firewalld is on: ${tested}` };
}

/** `7879/tcp ALLOW Anywhere`, `7879 ALLOW ...`, `7000:8000/tcp ALLOW ...`; or everything comes in by default. */
export function allowsPort(status: string, port: number): boolean {
  return status.split('\n').some((line) => {
    const rule = /^(\d+)(?::(\d+))?(?:\/tcp)?\s.*\bALLOW\b/.exec(line.trim());
    if (rule) return Number(rule[1]) <= port && port <= Number(rule[2] ?? rule[1]);
    return /^Anywhere\s.*\bALLOW\b/.test(line.trim());
  });
}

async function onMac(port: number, system: DoctorSystem): Promise<Finding> {
  const tool = '/usr/libexec/ApplicationFirewall/socketfilterfw';
  const state = await system.run(tool, ['--getglobalstate']);
  if (!state.ok) return { status: 'skipped', summary: `The firewall cannot be asked: ${state.reason}` };
  if (/disabled|State = 0/i.test(state.stdout))
    return { status: 'ok', summary: 'The firewall of macOS is off' };
  const blocking = await system.run(tool, ['--getblockall']);
  if (
    blocking.ok &&
    /block all.*enabled|State = 2/i.test(blocking.stdout) &&
    !/disabled/i.test(blocking.stdout)
  ) {
    return {
      status: 'warn',
      summary: `The firewall of macOS blocks all incoming connections, TCP port ${port} too`,
      action: 'Switch off "Block all incoming connections" in System Settings, Network, Firewall, Options',
    };
  }
  return { status: 'ok', summary: `The firewall of macOS is on and asks for each program: ${tested}` };
}

async function onWindows(port: number, system: DoctorSystem): Promise<Finding> {
  const rules = await system.run('netsh', ['advfirewall', 'firewall', 'show', 'rule', 'name=Covey']);
  if (!rules.ok)
    return { status: 'skipped', summary: `The firewall cannot be asked: ${clause(rules.reason)}` };
  if (rules.code === 0)
    return { status: 'ok', summary: `The Windows firewall has the rule "Covey": ${tested}` };
  // Windows asks at the first start and makes a rule for the program, under the program's name.
  return {
    status: 'ok',
    summary: `The Windows firewall has no rule "Covey" for TCP port ${port}, though one for the program may do: ${tested}`,
  };
}

function missing(firewall: string, port: number, platform: NodeJS.Platform): Finding {
  return {
    status: 'warn',
    summary: `The firewall (${firewall}) has no rule that lets TCP port ${port} in: others may reach this machine only by connections that it opens`,
    action: `Let it in: ${openPortText(platform, port)}`,
  };
}
