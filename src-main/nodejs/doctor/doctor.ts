import type { DoctorCheck } from '#shared/domain/doctor.ts';
import { finishCheck, type Finding } from './check.ts';
import type { DoctorContext } from './context.ts';
import { checkClock } from './checks/clock.ts';
import { checkCompute } from './checks/compute.ts';
import { checkDataDirectory } from './checks/data-directory.ts';
import { checkDisk } from './checks/disk.ts';
import { checkEngine, checkProgram, checkSettings } from './checks/program.ts';
import { checkFirewall } from './checks/firewall.ts';
import { checkGraphics } from './checks/graphics.ts';
import { checkIdentity } from './checks/identity.ts';
import { checkInterfaces, checkMulticast } from './checks/multicast.ts';
import { checkLan } from './checks/lan.ts';
import { checkNames } from './checks/names.ts';
import { checkPorts } from './checks/ports.ts';
import { checkController, checkInbound } from './checks/reach.ts';
import { checkSleep } from './checks/sleep.ts';
import { createDoctorSystem, withinMs, type DoctorSystem } from './system.ts';

/** One question about this machine. */
interface CheckDefinition {
  readonly id: string;
  readonly title: string;
  readonly run: (context: DoctorContext, system: DoctorSystem) => Promise<Finding> | Finding;
}

const definitions: readonly CheckDefinition[] = [
  { id: 'program', title: 'Program', run: checkProgram },
  { id: 'engine', title: 'Engine', run: checkEngine },
  { id: 'settings', title: 'Settings', run: checkSettings },
  { id: 'clock', title: 'Clock', run: checkClock },
  { id: 'interfaces', title: 'Interfaces', run: checkInterfaces },
  { id: 'multicast', title: 'Multicast', run: checkMulticast },
  { id: 'controller', title: 'Controller', run: checkController },
  { id: 'inbound', title: 'Inbound', run: checkInbound },
  { id: 'firewall', title: 'Firewall', run: checkFirewall },
  { id: 'names', title: 'Names', run: checkNames },
  { id: 'data-directory', title: 'Data directory', run: checkDataDirectory },
  { id: 'disk', title: 'Disk', run: checkDisk },
  { id: 'graphics', title: 'Graphics', run: checkGraphics },
  { id: 'compute', title: 'Jobs', run: checkCompute },
  { id: 'sleep', title: 'Sleep', run: checkSleep },
  { id: 'identity', title: 'Identity', run: checkIdentity },
  { id: 'lan-certificate', title: 'LAN access', run: checkLan },
];

const checkMs = 7_000;

/**
 * All checks of one machine, in a fixed order, at once; takes two seconds on an ordinary machine and eight at
 * most. Never rejects: a check that cannot be made is `skipped` and says why.
 */
export async function runDoctor(
  context: DoctorContext,
  system: DoctorSystem = createDoctorSystem(),
): Promise<DoctorCheck[]> {
  const [ports, ...others] = await Promise.all([
    guarded(() => checkPorts(context, system)).then((found) =>
      Array.isArray(found) ? found : [finishCheck('ports', 'Ports', found)],
    ),
    ...definitions.map(async ({ id, title, run }) =>
      finishCheck(id, title, await guarded(() => run(context, system))),
    ),
  ]);
  const at = others.findIndex(({ id }) => id === 'interfaces');
  return [...others.slice(0, at), ...ports, ...others.slice(at)];
}

async function guarded<T>(run: () => Promise<T> | T): Promise<T | Finding> {
  try {
    return await withinMs(Promise.resolve(run()), checkMs, `there was no answer in ${checkMs / 1_000} s`);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { status: 'skipped', summary: `This could not be checked: ${why}` };
  }
}
