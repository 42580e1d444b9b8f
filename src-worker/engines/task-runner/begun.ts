import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, isAbsolute, join } from 'node:path';
import { createOutputTail, type OutputTail } from './output-tail.ts';
import type { ProgramEnd } from './run-program.ts';

/** `unknown`: it ran, and what it ended with is its own. */
export type Begun =
  | { readonly type: 'unknown' }
  | { readonly type: 'no-program' }
  | { readonly type: 'no-sandbox'; readonly detail: string };

/** Runs other words in the place of the program, as it was run itself; what is printed goes to the tail. */
export type RunInPlace = (command: readonly string[], tail: OutputTail) => Promise<ProgramEnd>;

const isThere = 77;
const isMissing = 78;
/** Of names with a slash the file counts, as for a program that is started; of others what the path leads to. */
const lookUp = `case $1 in
*/*) test -f "$1" && test -x "$1" && exit ${isThere} ;;
*) command -v -- "$1" >/dev/null && exit ${isThere} ;;
esac
exit ${isMissing}`;

/** What bubblewrap ends with when it cannot make a sandbox or start the program, and the launcher in its place. */
const codesInSandbox: readonly (number | null)[] = [1, 64, 70, 71, 126, 127];
const codesOfLauncher: readonly (number | null)[] = [126, 127];

/**
 * Whether a program that has ended so may never have begun. Programs end with the same codes and may print whatever
 * they like, so neither tells; but with other codes it has run.
 */
export function mayNotHaveBegun(code: number | null, sandboxed: boolean): boolean {
  return (sandboxed ? codesInSandbox : codesOfLauncher).includes(code);
}

/** Looks from within a sandbox of the same kind: for what is there by the program's name, and whether it can be made. */
export async function begunInSandbox(name: string, runInPlace: RunInPlace): Promise<Begun> {
  const tail = createOutputTail();
  const { code, signal } = await runInPlace(['/bin/sh', '-c', lookUp, 'sh', name], tail);
  if (code === isMissing) return { type: 'no-program' };
  // Told to end, or out of memory meanwhile: nothing is known.
  if (code === isThere || signal !== null) return { type: 'unknown' };
  const detail = tail.text().trim().split('\n').at(-1)?.slice(0, 300) ?? '';
  return { type: 'no-sandbox', detail: detail === '' ? `it ended with ${code}` : detail };
}

/** The same without a sandbox. @param directory where the program is started, for names with a slash */
export async function begunHere(name: string, path: string, directory: string): Promise<Begun> {
  const named = /[/\\]/.test(name);
  const places = isAbsolute(name) ? [''] : named ? [directory] : path.split(delimiter);
  const windows = process.platform === 'win32';
  const endings = windows ? ['', ...(process.env['PATHEXT'] ?? '.EXE').split(';')] : [''];
  for (const place of places) {
    for (const ending of endings) {
      const found = await access(join(place, name + ending), constants.X_OK).then(
        () => true,
        () => false,
      );
      if (found) return { type: 'unknown' };
    }
  }
  return { type: 'no-program' };
}
