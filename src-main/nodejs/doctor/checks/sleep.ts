import { join } from 'node:path';
import { clause, type Finding } from '../check.ts';
import type { DoctorContext } from '../context.ts';
import type { DoctorSystem } from '../system.ts';

/** Whether this machine goes to sleep by itself while it is lent. */
export async function checkSleep(context: DoctorContext, system: DoctorSystem): Promise<Finding> {
  const found = await senseSleep(system);
  if (!found.known) return { status: 'skipped', summary: found.reason };
  const { idleMs, lid, source } = found;
  const role = context.node?.role === 'controller' ? 'the whole covey stops with it' : 'its work stops then';
  if (idleMs !== null) {
    return {
      status: 'warn',
      summary: `This machine goes to sleep after ${spanOf(idleMs)} without use (${source}), and ${role}`,
      action: stayAwake(system.platform),
    };
  }
  if (lid) {
    return {
      status: 'warn',
      summary: `This machine sleeps when its lid is closed, and ${role}`,
      action: keepOpen(system.platform),
    };
  }
  return { status: 'ok', summary: `This machine does not go to sleep by itself (${source})` };
}

type Sensed =
  | {
      readonly known: true;
      /** Sleeps after this long without use while plugged in; null: it does not. */
      readonly idleMs: number | null;
      /** Has a lid, and closing it means sleep. */
      readonly lid: boolean;
      readonly source: string;
    }
  | { readonly known: false; readonly reason: string };

async function senseSleep(system: DoctorSystem): Promise<Sensed> {
  switch (system.platform) {
    case 'linux':
      return onLinux(system);
    case 'darwin':
      return onMac(system);
    case 'win32':
      return onWindows(system);
    default:
      return { known: false, reason: `Sleep settings cannot be read on ${system.platform}` };
  }
}

/**
 * 1. No systemd: nobody to ask. 2. Sleep forbidden to all (masked targets, AllowSuspend=no, a kernel without it).
 * 3. Idle time: of logind, then of the GNOME desktop of this user. 4. The lid.
 */
async function onLinux(system: DoctorSystem): Promise<Sensed> {
  const states = await system.readText('/sys/power/state');
  if (states !== null && !/\b(mem|standby|freeze|disk)\b/.test(states)) {
    return { known: true, idleMs: null, lid: false, source: 'its kernel cannot' };
  }
  if ((await system.list('/run/systemd/system')).length === 0) {
    return {
      known: false,
      reason: 'Sleep settings cannot be read: this system does not run systemd (a container, perhaps)',
    };
  }
  const enabled = await system.run('systemctl', ['is-enabled', 'suspend.target']);
  if (enabled.ok && /^masked/m.test(enabled.stdout)) {
    return { known: true, idleMs: null, lid: false, source: 'suspend.target is masked' };
  }
  const sleep = await readUnitSettings('sleep.conf', system);
  if (/^(no|false|0|off)$/i.test(sleep.get('AllowSuspend') ?? '')) {
    return { known: true, idleMs: null, lid: false, source: 'AllowSuspend=no in sleep.conf' };
  }
  const logind = await readUnitSettings('logind.conf', system);
  const hasLid = (await system.list('/proc/acpi/button/lid')).length > 0;
  const lidAction = logind.get('HandleLidSwitchExternalPower') ?? logind.get('HandleLidSwitch') ?? 'suspend';
  const lid = hasLid && /suspend|hibernate|sleep/i.test(lidAction);
  const idleAction = logind.get('IdleAction') ?? 'ignore';
  if (/suspend|hibernate|sleep/i.test(idleAction)) {
    const idleMs = parseTimeSpan(logind.get('IdleActionSec') ?? '30min');
    return { known: true, idleMs, lid, source: 'IdleAction in logind.conf' };
  }
  const gnome = 'org.gnome.settings-daemon.plugins.power';
  const type = await system.run('gsettings', ['get', gnome, 'sleep-inactive-ac-type']);
  if (type.ok && type.code === 0 && /suspend|hibernate/.test(type.stdout)) {
    const timeout = await system.run('gsettings', ['get', gnome, 'sleep-inactive-ac-timeout']);
    const seconds = timeout.ok ? Number(/(\d+)\s*$/.exec(timeout.stdout)?.[1] ?? '0') : 0;
    if (seconds > 0) {
      return { known: true, idleMs: seconds * 1_000, lid, source: "the desktop's power settings" };
    }
  }
  return { known: true, idleMs: null, lid, source: 'systemd' };
}

/** systemd's files of settings: the main file, then drop-ins by name; later ones win. */
async function readUnitSettings(name: string, system: DoctorSystem): Promise<Map<string, string>> {
  const roots = ['/usr/lib/systemd', '/etc/systemd'];
  const paths = roots.map((root) => join(root, name));
  for (const root of roots) {
    const dropIns = (await system.list(join(root, `${name}.d`)))
      .filter((one) => one.endsWith('.conf'))
      .sort();
    paths.push(...dropIns.slice(0, 32).map((one) => join(root, `${name}.d`, one)));
  }
  const settings = new Map<string, string>();
  for (const path of paths) {
    for (const line of ((await system.readText(path)) ?? '').split('\n')) {
      const setting = /^\s*([A-Za-z]+)\s*=\s*(.*?)\s*$/.exec(line);
      if (setting?.[1] !== undefined && setting[2]) settings.set(setting[1], setting[2]);
    }
  }
  return settings;
}

const spanUnits: Readonly<Record<string, number>> = {
  ...{ s: 1, sec: 1, second: 1 },
  ...{ m: 60, min: 60, minute: 60 },
  ...{ h: 3_600, hr: 3_600, hour: 3_600, d: 86_400, day: 86_400 },
};

/** systemd.time(7), as far as such settings use it: `30min`, `1h 30min`, `900`. */
export function parseTimeSpan(text: string): number {
  let seconds = 0;
  for (const [, amount, unit] of text.matchAll(/(\d+)\s*([a-z]*)/gi)) {
    seconds += Number(amount) * (spanUnits[(unit ?? '').toLowerCase().replace(/s$/, '') || 's'] ?? 1);
  }
  return seconds * 1_000;
}

/** `pmset -g custom` has a section per power source with lines such as ` sleep 10` (minutes; 0: never). */
async function onMac(system: DoctorSystem): Promise<Sensed> {
  const outcome = await system.run('pmset', ['-g', 'custom']);
  if (!outcome.ok)
    return { known: false, reason: `Sleep settings cannot be read: ${clause(outcome.reason)}` };
  const plugged = /AC Power:([\s\S]*?)(?:\n\S|$)/.exec(outcome.stdout)?.[1] ?? outcome.stdout;
  const minutes = /^\s*sleep\s+(\d+)/m.exec(plugged)?.[1];
  if (minutes === undefined) {
    return { known: false, reason: 'Sleep settings cannot be read: pmset does not name the idle time' };
  }
  const forbidden = /^\s*disablesleep\s+1/m.test(plugged);
  const portable = /Battery Power:/.test(outcome.stdout);
  return {
    known: true,
    idleMs: forbidden || Number(minutes) === 0 ? null : Number(minutes) * 60_000,
    lid: portable && !forbidden,
    source: 'pmset',
  };
}

/** `powercfg /query` ends with two hexadecimal numbers, plugged in and on battery; its words are translated. */
async function onWindows(system: DoctorSystem): Promise<Sensed> {
  const query = async (group: string, setting: string): Promise<number | string> => {
    const outcome = await system.run('powercfg', ['/query', 'SCHEME_CURRENT', group, setting]);
    if (!outcome.ok) return outcome.reason;
    const values = [...outcome.stdout.matchAll(/:\s*0x([0-9a-f]{8})\s*$/gim)].map((match) => match[1] ?? '');
    const plugged = values.at(-2);
    return plugged === undefined ? 'powercfg does not name the idle time' : Number.parseInt(plugged, 16);
  };
  const idle = await query('SUB_SLEEP', 'STANDBYIDLE');
  if (typeof idle === 'string')
    return { known: false, reason: `Sleep settings cannot be read: ${clause(idle)}` };
  const lid = await query('SUB_BUTTONS', 'LIDACTION');
  return {
    known: true,
    idleMs: idle === 0 ? null : idle * 1_000,
    lid: typeof lid === 'number' && lid !== 0,
    source: 'the power plan',
  };
}

function stayAwake(platform: NodeJS.Platform): string {
  if (platform === 'darwin') return 'Keep it awake while plugged in with "sudo pmset -c sleep 0"';
  if (platform === 'win32')
    return 'Keep it awake while plugged in with "powercfg /change standby-timeout-ac 0"';
  return 'Switch off automatic suspend in the power settings, or for all users with "sudo systemctl mask suspend.target"';
}

function keepOpen(platform: NodeJS.Platform): string {
  if (platform === 'darwin') return 'Leave the lid open, or connect a display and power';
  if (platform === 'win32') {
    return 'Set "When I close the lid, plugged in" to "Do nothing" in Control Panel, Power Options';
  }
  return 'Leave the lid open, or set HandleLidSwitchExternalPower=ignore in /etc/systemd/logind.conf';
}

function spanOf(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  return minutes < 1 ? `${Math.round(ms / 1_000)} s` : minutes === 1 ? '1 minute' : `${minutes} minutes`;
}
