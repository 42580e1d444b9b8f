import { notHere, unknown, type Sensor, type SensorSystem } from './system.ts';
import type { WindowsWatch } from './windows-watch.ts';

/** Nobody is logged in at the machine: as long as any rule can ask for. */
const foreverMs = 365 * 24 * 3_600_000;

/** How long keyboard and mouse have not been used, ms. */
export function idleSensor(system: SensorSystem, windows: WindowsWatch): Sensor<number> {
  switch (system.platform) {
    case 'linux':
      return { read: () => linuxIdle(system) };
    case 'darwin':
      return { read: () => macIdle(system) };
    case 'win32':
      return { read: () => windows.read((seen) => seen.idleMs) };
    default:
      return { read: async () => notHere };
  }
}

/**
 * 1. The X server knows to the millisecond (`xprintidle`), where this process belongs to its session.
 * 2. Elsewhere logind: the desktop tells it when it is idle, after a few minutes of its own, and since when.
 */
async function linuxIdle(system: SensorSystem): ReturnType<Sensor<number>['read']> {
  if (system.env['DISPLAY']) {
    const printed = await system.run('xprintidle', []);
    const text = printed.ok && printed.code === 0 ? printed.stdout.trim() : '';
    if (/^\d+$/.test(text)) return { known: true, value: Number(text) };
  }
  const listed = await system.run('loginctl', ['list-sessions', '--no-legend', '--no-pager']);
  if (!listed.ok || listed.code !== 0) {
    return unknown('neither xprintidle nor logind (loginctl) can tell when somebody last used this machine');
  }
  const ids = listed.stdout
    .split('\n')
    .map((line) => line.trim().split(/\s+/)[0] ?? '')
    .filter((id) => /^[\w-]{1,32}$/.test(id))
    .slice(0, 32);
  if (ids.length === 0) return { known: true, value: foreverMs };
  const properties = ['IdleHint', 'IdleSinceHint', 'Remote', 'Class', 'State'].flatMap((name) => [
    '-p',
    name,
  ]);
  const shown = await system.run('loginctl', ['show-session', ...ids, ...properties]);
  // A session that ended in between makes it exit with an error, and the others are still shown.
  if (!shown.ok) return unknown(shown.reason);
  return { known: true, value: leastIdleMs(shown.stdout, system.now()) };
}

/**
 * Of all people that sit at this machine, how long the one who used it last has not (sd_session_get_idle: hint and
 * microseconds of the epoch). Sessions over a network are not at the machine, and greeters are nobody.
 */
export function leastIdleMs(shown: string, now: number): number {
  let least = foreverMs;
  for (const block of shown.split(/\n\s*\n/)) {
    const value = (name: string): string | undefined => new RegExp(`^${name}=(.*)$`, 'm').exec(block)?.[1];
    if (value('Class') !== 'user' || value('Remote') === 'yes' || value('State') === 'closing') continue;
    const sinceMs = Number(value('IdleSinceHint') ?? 0) / 1_000;
    const idleMs = value('IdleHint') === 'yes' && sinceMs > 0 ? Math.max(0, now - sinceMs) : 0;
    least = Math.min(least, idleMs);
  }
  return least;
}

/** IOHIDSystem's `HIDIdleTime`, in nanoseconds. */
async function macIdle(system: SensorSystem): ReturnType<Sensor<number>['read']> {
  const printed = await system.run('/usr/sbin/ioreg', ['-r', '-c', 'IOHIDSystem', '-d', '1']);
  const match = printed.ok ? /"HIDIdleTime"\s*=\s*(\d+)/.exec(printed.stdout) : null;
  if (!match) return unknown(printed.ok ? 'ioreg tells no idle time' : printed.reason);
  return { known: true, value: Number(match[1]) / 1e6 };
}
