import { notHere, unknown, type Sensor, type SensorSystem } from './system.ts';

/** The hottest sensor of the machine, degrees Celsius. Other systems tell it to administrators only. */
export function temperatureSensor(system: SensorSystem): Sensor<number> {
  if (system.platform !== 'linux') return { read: async () => notHere };
  return { read: () => linuxHottest(system) };
}

/** Sensors that are not connected read zero, the lowest or the highest value they have. */
const credibleCelsius = { above: 0, below: 126 } as const;

/** sysfs: thermal zones and hwmon chips, in thousandths of a degree. */
async function linuxHottest(system: SensorSystem): ReturnType<Sensor<number>['read']> {
  const files: string[] = [];
  for (const zone of await system.list('/sys/class/thermal')) {
    if (zone.startsWith('thermal_zone')) files.push(`/sys/class/thermal/${zone}/temp`);
  }
  for (const chip of await system.list('/sys/class/hwmon')) {
    const directory = `/sys/class/hwmon/${chip}`;
    for (const file of await system.list(directory)) {
      if (/^temp\d+_input$/.test(file)) files.push(`${directory}/${file}`);
    }
  }
  let hottest = -Infinity;
  for (const file of files) {
    const text = (await system.readText(file))?.trim() ?? '';
    const celsius = /^-?\d+$/.test(text) ? Number(text) / 1_000 : NaN;
    if (celsius > credibleCelsius.above && celsius < credibleCelsius.below)
      hottest = Math.max(hottest, celsius);
  }
  if (hottest === -Infinity) return unknown('this machine shows no temperature');
  return { known: true, value: hottest };
}
