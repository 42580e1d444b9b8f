import { notHere, unknown, type Sensor, type SensorSystem } from './system.ts';
import type { WindowsWatch } from './windows-watch.ts';

/** Whether the machine lives on its battery. A machine without one never does. */
export function batterySensor(system: SensorSystem, windows: WindowsWatch): Sensor<boolean> {
  switch (system.platform) {
    case 'linux':
      return { read: () => linuxBattery(system) };
    case 'darwin':
      return { read: () => macBattery(system) };
    case 'win32':
      return { read: () => windows.read((seen) => seen.onBattery) };
    default:
      return { read: async () => notHere };
  }
}

const supplies = '/sys/class/power_supply';

/** sysfs-class-power: a battery that discharges while no supply is online. Batteries of mice do not count. */
async function linuxBattery(system: SensorSystem): ReturnType<Sensor<boolean>['read']> {
  let discharging = false;
  for (const name of await system.list(supplies)) {
    const read = async (file: string): Promise<string> =>
      ((await system.readText(`${supplies}/${name}/${file}`)) ?? '').trim();
    const type = await read('type');
    if (type === 'Battery') {
      if ((await read('scope')) !== 'Device' && (await read('status')) === 'Discharging') discharging = true;
    } else if ((await read('online')) === '1') {
      return { known: true, value: false };
    }
  }
  return { known: true, value: discharging };
}

async function macBattery(system: SensorSystem): ReturnType<Sensor<boolean>['read']> {
  const printed = await system.run('/usr/bin/pmset', ['-g', 'batt']);
  const match = printed.ok ? /drawing from '([^']+)'/.exec(printed.stdout) : null;
  if (!match) return unknown(printed.ok ? 'pmset tells no power source' : printed.reason);
  return { known: true, value: match[1] === 'Battery Power' };
}
