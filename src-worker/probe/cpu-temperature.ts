import { readdir, readFile } from 'node:fs/promises';

const readEveryMs = 4_000;
const findEveryMs = 60_000;
/** Chips that measure the processor (Documentation/hwmon in the kernel's source), and what ARM boards call theirs. */
const chips = new Set(['coretemp', 'k10temp', 'zenpower', 'cpu_thermal', 'soc_thermal', 'scpi_sensors']);
const zones = /^(x86_pkg_temp|cpu[-_]?thermal|soc[-_]?thermal|acpitz)/i;

/** The hottest sensor of the processor. */
export interface CpuTemperature {
  /** Of the last look, degrees Celsius; looks again in the background. null: nothing is told. */
  celsius(): number | null;
}

/**
 * Linux only: other systems tell it to administrators at most.
 * @param now monotonic ms
 */
export function createCpuTemperature(now: () => number, sys = '/sys/class'): CpuTemperature {
  let files: readonly string[] = [];
  let celsius: number | null = null;
  let foundAt = -Infinity;
  let readAt = -Infinity;
  const look = async (): Promise<void> => {
    if (now() - foundAt >= findEveryMs) {
      foundAt = now();
      files = await findSensors(sys);
    }
    const readings = await Promise.all(files.map(readCelsius));
    const known = readings.filter((reading) => reading !== null);
    celsius = known.length > 0 ? Math.max(...known) : null;
  };
  return {
    celsius() {
      if (process.platform === 'linux' && now() - readAt >= readEveryMs) {
        readAt = now();
        void look();
      }
      return celsius;
    },
  };
}

/** The processor's own chips; where there are none, its thermal zones. */
export async function findSensors(sys: string): Promise<string[]> {
  const files: string[] = [];
  for (const chip of await list(`${sys}/hwmon`)) {
    const directory = `${sys}/hwmon/${chip}`;
    if (!chips.has(((await text(`${directory}/name`)) ?? '').trim())) continue;
    const inputs = (await list(directory)).filter((name) => /^temp\d+_input$/.test(name));
    files.push(...inputs.map((name) => `${directory}/${name}`));
  }
  if (files.length > 0) return files;
  for (const zone of await list(`${sys}/thermal`)) {
    const directory = `${sys}/thermal/${zone}`;
    if (zones.test((await text(`${directory}/type`)) ?? '')) files.push(`${directory}/temp`);
  }
  return files;
}

/** Thousandths of a degree; what cannot be a processor's temperature is a sensor that is not connected. */
async function readCelsius(file: string): Promise<number | null> {
  const value = ((await text(file)) ?? '').trim();
  const celsius = /^-?\d+$/.test(value) ? Number(value) / 1000 : Number.NaN;
  return celsius > 0 && celsius < 126 ? celsius : null;
}

async function list(path: string): Promise<string[]> {
  return await readdir(path).catch(() => []);
}

async function text(path: string): Promise<string | null> {
  return await readFile(path, 'latin1').catch(() => null);
}
