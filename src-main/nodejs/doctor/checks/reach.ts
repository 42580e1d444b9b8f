import type { Address } from '#shared/domain/node.ts';
import type { ErrorBody } from '#shared/errors.ts';
import { clause, listing, type Finding } from '../check.ts';
import type { ControllerContact, DoctorContext } from '../context.ts';
import type { DoctorSystem } from '../system.ts';
import { readApiAccess } from '../../access/local-access.ts';
import { readMembership } from '../../membership.ts';
import { spanText } from './clock.ts';
import { copyAction } from './identity.ts';

const dialMs = 3_000;

/** The way out: from this machine to its controller. */
export async function checkController(context: DoctorContext, system: DoctorSystem): Promise<Finding> {
  const { node } = context;
  if (node?.role === 'controller') {
    return { status: 'skipped', summary: 'This machine is the controller' };
  }
  if (node?.controller) return judgeContact(node.controller, system);
  if (node !== null) return { status: 'skipped', summary: notJoined };
  const membership = await readMembership(context.dataDirectory);
  if (membership === null) {
    const isController = readApiAccess(context.dataDirectory)?.role === 'controller';
    const summary = isController ? 'This machine is the controller, which does not run now' : notJoined;
    return { status: 'skipped', summary };
  }
  const { controllerName, addresses } = membership;
  return judgeContact(
    {
      name: controllerName,
      connected: false,
      addresses,
      trouble: null,
      clockAheadMs: null,
      addressChangedAt: null,
    },
    system,
  );
}

const notJoined = 'This machine belongs to no covey yet ("covey join" adds it to one)';

async function judgeContact(contact: ControllerContact, system: DoctorSystem): Promise<Finding> {
  const { name, addresses, trouble } = contact;
  const [first] = addresses;
  if (contact.connected) {
    const healed =
      contact.addressChangedAt === null
        ? ''
        : `, found again at a new address ${spanText(Math.max(0, system.now() - contact.addressChangedAt))} ago`;
    return {
      status: 'ok',
      summary: `Connected to ${name}${first ? ` at ${addressText(first)}` : ''}${healed}`,
    };
  }
  const tried = await Promise.all(
    addresses.slice(0, 4).map(async (address) => ({ address, problem: await system.dial(address, dialMs) })),
  );
  const open = tried.find(({ problem }) => problem === null);
  if (open) {
    if (trouble === null) {
      return {
        status: 'ok',
        summary: `Something answers at ${addressText(open.address)}, where ${name} was last`,
      };
    }
    return {
      status: 'fail',
      summary: `${name} is not connected although ${addressText(open.address)} answers: ${clause(trouble.message)}`,
      action: troubleAction(trouble, name),
    };
  }
  const where = listing(tried.map(({ address, problem }) => `${addressText(address)} ${dialText(problem)}`));
  return {
    status: 'fail',
    summary: `${name} cannot be reached: ${where || clause(trouble?.message ?? 'no address of it is known')}`,
    action: `Check that ${name} is on and in this network, and that its firewall lets TCP port ${first?.port ?? 7879} in`,
  };
}

/** What helps against a refusal of the controller. */
function troubleAction({ code }: ErrorBody, controllerName: string): string {
  switch (code) {
    case 'node_removed':
    case 'not_a_member':
      return 'Run "covey join" here to join again';
    case 'identity_in_use':
      return copyAction;
    default:
      return `Run "covey doctor" on ${controllerName} and compare`;
  }
}

/** The way in: other machines have to try it. The controller's doctor does and replaces this. */
export function checkInbound({ node }: DoctorContext): Finding {
  if (node?.role === 'controller') {
    return { status: 'skipped', summary: 'No other machine is there to try it' };
  }
  return {
    status: 'skipped',
    summary:
      'Only another machine can tell whether it reaches this one ("covey doctor" on the controller asks)',
  };
}

/** What to run so that others reach a TCP port of a machine with this system. */
export function openPortText(platform: string, port: number): string {
  switch (platform) {
    case 'linux':
      return `"sudo ufw allow ${port}/tcp", or with firewalld "sudo firewall-cmd --permanent --add-port=${port}/tcp" and "sudo firewall-cmd --reload"`;
    case 'darwin':
      return 'System Settings, Network, Firewall, Options, allow incoming connections for Covey (node)';
    case 'win32':
      return `"netsh advfirewall firewall add rule name=Covey dir=in action=allow protocol=TCP localport=${port}" as administrator`;
    default:
      return `allow TCP port ${port} in`;
  }
}

export function addressText({ host, port }: Address): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function dialText(problem: string | null): string {
  switch (problem) {
    case null:
      return 'answers';
    case 'ECONNREFUSED':
      return 'refuses connections';
    case 'ETIMEDOUT':
      return 'does not answer';
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return 'has no route to it';
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'is a name that does not resolve';
    default:
      return `fails with ${clause(problem)}`;
  }
}
