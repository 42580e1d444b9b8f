import { clause, type Finding } from '../check.ts';
import type { DoctorContext } from '../context.ts';
import type { DoctorSystem } from '../system.ts';
import { spanText } from './clock.ts';

/** Our own certificates are renewed a month before: one that is this near was not. */
const warnMs = 10 * 86_400_000;

/** HTTPS for other machines: whether it is on, serves, and for how long its certificate is good. */
export function checkLan({ node, settings }: DoctorContext, system: DoctorSystem): Finding {
  if (!settings.lan.enabled) return { status: 'skipped', summary: 'LAN access to the API is off' };
  if (node === null) return { status: 'skipped', summary: 'LAN access is on, but no node runs' };
  const { lan } = node;
  const own = settings.lan.certificateFile === null;
  const [problem] = lan?.problems ?? [];
  if (lan === null || lan.addresses.length === 0) {
    return {
      status: 'fail',
      summary: `LAN access is on, but nothing is served: ${clause(problem ?? 'the reason is in the log')}`,
      action: 'Correct it with "covey config", or switch it off with "covey config set lan.enabled false"',
    };
  }
  const renew = own
    ? 'Free some space on the disk and start Covey again: it renews the certificate by itself'
    : `Put a new certificate into ${settings.lan.certificateFile ?? 'its file'} and start Covey again`;
  const leftMs = lan.certificateExpiresAt === null ? null : lan.certificateExpiresAt - system.now();
  if (leftMs !== null && leftMs <= 0) {
    return { status: 'fail', summary: `The LAN certificate expired ${spanText(-leftMs)} ago`, action: renew };
  }
  if (leftMs !== null && leftMs < warnMs) {
    const why = problem === undefined ? '' : ` (${clause(problem)})`;
    return {
      status: 'warn',
      summary: `The LAN certificate expires in ${spanText(leftMs)} and was not renewed${why}`,
      action: renew,
    };
  }
  if (problem !== undefined)
    return { status: 'warn', summary: `LAN access works, but ${clause(problem)}`, action: renew };
  const left = leftMs === null ? '' : `, its certificate is good for ${spanText(leftMs)}`;
  return { status: 'ok', summary: `LAN access is on at ${lan.addresses[0]}${left}` };
}
