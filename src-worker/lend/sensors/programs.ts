import { notHere, unknown, type Sensor, type SensorSystem } from './system.ts';

/** Names of the programs that run, without path; one program may have several. */
export function programsSensor(system: SensorSystem): Sensor<readonly string[]> {
  switch (system.platform) {
    case 'linux':
      return { read: () => linuxPrograms(system) };
    case 'darwin':
      return { read: () => listed(system, '/bin/ps', ['-axo', 'comm='], (line) => line.trim()) };
    case 'win32':
      return { read: () => listed(system, 'tasklist', ['/fo', 'csv', '/nh'], csvName) };
    default:
      return { read: async () => notHere };
  }
}

/**
 * proc(5): the kernel's name, which has 15 characters at most, and what the program was called as. The second also
 * knows Windows programs that run here.
 */
async function linuxPrograms(system: SensorSystem): ReturnType<Sensor<readonly string[]>['read']> {
  const names = new Set<string>();
  const pids = (await system.list('/proc')).filter((name) => /^\d+$/.test(name));
  if (pids.length === 0) return unknown('/proc cannot be read');
  for (const pid of pids) {
    const name = (await system.readText(`/proc/${pid}/comm`))?.trim();
    if (name) names.add(name);
    const called = (await system.readText(`/proc/${pid}/cmdline`))?.split('\0')[0];
    if (called) names.add(base(called));
  }
  return { known: true, value: [...names] };
}

async function listed(
  system: SensorSystem,
  file: string,
  args: readonly string[],
  nameOf: (line: string) => string,
): ReturnType<Sensor<readonly string[]>['read']> {
  const printed = await system.run(file, args);
  if (!printed.ok) return unknown(printed.reason);
  const names = printed.stdout.split(/\r?\n/).map((line) => base(nameOf(line)));
  return { known: true, value: [...new Set(names.filter((name) => name !== ''))] };
}

/** `"game.exe","1234","Console",...` */
function csvName(line: string): string {
  return /^"([^"]*)"/.exec(line)?.[1] ?? '';
}

function base(path: string): string {
  return path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1);
}
