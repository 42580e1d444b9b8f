import { clause, type Finding } from '../check.ts';
import type { DoctorContext } from '../context.ts';
import type { DoctorSystem } from '../system.ts';

/** Below this a write of state or of a certificate may fail any moment. */
const failBytes = 256 * 1024 ** 2;
/** Below this no model of use fits. */
const warnBytes = 5 * 1024 ** 3;
const warnFiles = 1_000;

/** Room where the data directory is, and whether a file can be written and flushed there now. */
export async function checkDisk(context: DoctorContext, system: DoctorSystem): Promise<Finding> {
  const { dataDirectory } = context;
  const exists = await system.look(dataDirectory).catch(() => null);
  if (exists === null) {
    return { status: 'skipped', summary: `There is no data directory ${dataDirectory} to look at` };
  }
  const { freeBytes, freeFiles } = await system.space(dataDirectory);
  const makeRoom = `Delete what is not needed there ("covey models" lists the models), or move it with --data DIR`;
  const problem = await system.tryWriting(dataDirectory);
  if (problem === 'ENOSPC' || problem === 'EDQUOT') {
    const what = problem === 'EDQUOT' ? "this user's quota is used up" : `${sizeText(freeBytes)} are free`;
    return {
      status: 'fail',
      summary: `The disk of ${dataDirectory} is full: ${what}, so nothing new is recorded`,
      action: makeRoom,
    };
  }
  if (problem === 'EROFS') {
    return {
      status: 'fail',
      summary: `The disk of ${dataDirectory} is read-only`,
      action: 'Check it for errors and mount it for writing, or choose another with --data DIR',
    };
  }
  if (problem !== null) {
    return {
      status: 'fail',
      summary: `Nothing can be written in ${dataDirectory} (${clause(problem)})`,
      action: 'Run Covey as the user who owns it, or choose another with --data DIR',
    };
  }
  const free = `${sizeText(freeBytes)} are free in ${dataDirectory}`;
  if (freeBytes < failBytes) {
    return { status: 'fail', summary: `Only ${free}: soon nothing new is recorded`, action: makeRoom };
  }
  if (freeFiles !== null && freeFiles < warnFiles) {
    return {
      status: freeFiles === 0 ? 'fail' : 'warn',
      summary: `The disk of ${dataDirectory} has room for ${freeFiles} more files only`,
      action: 'Delete many small files there, or move the data with --data DIR',
    };
  }
  if (freeBytes < warnBytes) {
    return { status: 'warn', summary: `Only ${free}: few models fit`, action: makeRoom };
  }
  return { status: 'ok', summary: free };
}

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function sizeText(bytes: number): string {
  let scaled = bytes;
  let unit = 0;
  while (scaled >= 999.5 && unit < units.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${scaled.toFixed(unit === 0 || scaled >= 99.95 ? 0 : 1)} ${units[unit]}`;
}
