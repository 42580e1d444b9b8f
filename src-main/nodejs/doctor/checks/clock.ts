import { join } from 'node:path';
import type { Finding } from '../check.ts';
import type { DoctorContext } from '../context.ts';
import type { DoctorSystem } from '../system.ts';

/** Nobody ran this program before: a clock that says so has lost its battery. */
const earliestAt = Date.UTC(2026, 0, 1);
const latestAt = Date.UTC(2100, 0, 1);
export const skewWarnMs = 5_000;
export const skewFailMs = 5 * 60_000;
/** Files newer than now by more than this: the clock was set back. */
const futureMs = 10 * 60_000;

const setClock = 'Switch on automatic time';

/**
 * 1. A year that cannot be. 2. The difference to the controller's clock. 3. Our own files come from the future:
 * the clock was set back since. 4. Whether the system keeps the time by itself, where it tells.
 */
export async function checkClock(context: DoctorContext, system: DoctorSystem): Promise<Finding> {
  const now = system.now();
  const action = await howToSet(system);
  if (now < earliestAt || now >= latestAt) {
    return { status: 'fail', summary: `The clock says ${dateText(now)}, which cannot be`, action };
  }
  const ahead = context.node?.controller?.clockAheadMs ?? null;
  if (ahead !== null && Math.abs(ahead) > skewWarnMs) return skewFinding(ahead, action);
  const newest = await newestFile(context.dataDirectory, system);
  if (newest !== null && newest.modifiedAt - now > futureMs) {
    return {
      status: 'fail',
      summary: `The clock says ${dateText(now)}, but ${newest.path} was written ${spanText(newest.modifiedAt - now)} later: the clock was set back`,
      action,
    };
  }
  const synchronised = await isSynchronised(system);
  const base =
    ahead === null
      ? `The clock says ${dateText(now)}`
      : `The clock agrees with the controller's within ${spanText(Math.max(Math.abs(ahead), 1))}`;
  if (synchronised === false && ahead === null) {
    return {
      status: 'warn',
      summary: `${base}, and nothing keeps it right: network time is off`,
      action,
    };
  }
  return { status: 'ok', summary: synchronised ? `${base} and follows network time` : base };
}

/** @param aheadMs this machine's clock minus the controller's */
export function skewFinding(
  aheadMs: number,
  action = `${setClock} on this machine and on the controller`,
): Finding {
  const size = Math.abs(aheadMs);
  const summary = `The clock is ${spanText(size)} ${aheadMs > 0 ? 'ahead of' : 'behind'} the controller's`;
  if (size <= skewWarnMs) {
    return {
      status: 'ok',
      summary: `The clock agrees with the controller's within ${spanText(Math.max(size, 1))}`,
    };
  }
  if (size <= skewFailMs)
    return { status: 'warn', summary: `${summary}: times in lists and logs differ`, action };
  return {
    status: 'fail',
    summary: `${summary}: downloads and certificates may be refused, and times in lists and logs are wrong`,
    action,
  };
}

async function howToSet(system: DoctorSystem): Promise<string> {
  switch (system.platform) {
    case 'linux':
      return `${setClock} with "sudo timedatectl set-ntp true"`;
    case 'darwin':
      return `${setClock} in System Settings, General, Date & Time`;
    case 'win32':
      return `${setClock} in Settings, Time & language, Date & time, and press "Sync now"`;
    default:
      return `${setClock} on this machine`;
  }
}

/** Of the files that a node writes at its start; a handful, so that it costs nothing. */
async function newestFile(
  directory: string,
  system: DoctorSystem,
): Promise<{ readonly path: string; readonly modifiedAt: number } | null> {
  let newest: { path: string; modifiedAt: number } | null = null;
  for (const name of [
    'lock',
    'covey.db',
    'covey.db-wal',
    'membership.json',
    'config.json',
    'api-access.json',
  ]) {
    const found = await system.look(join(directory, name)).catch(() => null);
    if (found && found.modifiedAt > (newest?.modifiedAt ?? 0)) newest = found;
  }
  return newest;
}

/** null: the system does not tell. */
async function isSynchronised(system: DoctorSystem): Promise<boolean | null> {
  if (system.platform !== 'linux') return null;
  const outcome = await system.run('timedatectl', ['show', '--property=NTP', '--property=NTPSynchronized']);
  if (!outcome.ok || outcome.code !== 0) return null;
  if (/^NTPSynchronized=yes$/m.test(outcome.stdout)) return true;
  // On, but no server answered yet: not for a person to change.
  return /^NTP=no$/m.test(outcome.stdout) ? false : null;
}

function dateText(at: number): string {
  return Number.isFinite(at) && Math.abs(at) < 8.64e15
    ? new Date(at).toISOString().slice(0, 16) + 'Z'
    : String(at);
}

/** `300 ms`, `7 s`, `12 min`, `5 h`, `1 day`. */
export function spanText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 100_000) return `${Math.round(ms / 1_000)} s`;
  if (ms < 100 * 60_000) return `${Math.round(ms / 60_000)} min`;
  const hours = Math.round(ms / 3_600_000);
  if (hours < 23) return `${hours} h`;
  const days = Math.round(ms / 86_400_000);
  return days === 1 ? '1 day' : `${days} days`;
}
