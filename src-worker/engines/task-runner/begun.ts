import { constants } from 'node:fs';
import { access, open } from 'node:fs/promises';
import { delimiter, isAbsolute, join, resolve } from 'node:path';
import { createOutputTail, type OutputTail } from './output-tail.ts';
import type { ProgramEnd } from './run-program.ts';

/** `unknown`: it ran, and what it ended with is its own. */
export type Begun =
  | { readonly type: 'unknown' }
  | { readonly type: 'no-program' }
  /** It is a script, and what its first line names is not there. */
  | { readonly type: 'no-interpreter'; readonly interpreter: string }
  | { readonly type: 'no-sandbox'; readonly detail: string };

/** Runs other words in the place of the program, as it was run itself; what is printed goes to the tail. */
export type RunInPlace = (command: readonly string[], tail: OutputTail) => Promise<ProgramEnd>;

const isThere = 77;
const isMissing = 78;
const hasNoInterpreter = 79;
/** As much of a script's first line as Linux reads. */
const firstLineBytes = 256;
/**
 * Of names with a slash the file counts, as for a program that is started; of others what the path leads to. Prints the
 * interpreter that is not there.
 */
const lookUp = `case $1 in
*/*) test -f "$1" && test -x "$1" || exit ${isMissing}
  found=$1 ;;
*) found=$(command -v -- "$1") || exit ${isMissing} ;;
esac
test -f "$found" || exit ${isThere}
head -c ${firstLineBytes} -- "$found" 2>/dev/null | {
  IFS= read -r line
  case $line in
  '#!'*) set -f
    set -- \${line#??}
    test -z "$1" || { test -f "$1" && test -x "$1"; } || { printf '%s\\n' "$1"; exit ${hasNoInterpreter}; } ;;
  esac
  exit ${isThere}
}`;

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
  if (code === hasNoInterpreter) {
    return { type: 'no-interpreter', interpreter: tail.text().replace(/\n$/, '').split('\n').at(-1) ?? '' };
  }
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
      const file = join(place, name + ending);
      if (!(await isExecutable(file))) continue;
      const interpreter = windows ? null : await interpreterOf(file);
      return interpreter === null || (await isExecutable(resolve(directory, interpreter)))
        ? { type: 'unknown' }
        : { type: 'no-interpreter', interpreter };
    }
  }
  return { type: 'no-program' };
}

function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** What the first line of a script names; null: it is none, or cannot be read. */
async function interpreterOf(file: string): Promise<string | null> {
  const handle = await open(file).catch(() => null);
  if (handle === null) return null;
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(firstLineBytes), 0, firstLineBytes, 0);
    const [line = ''] = buffer.toString('utf8', 0, bytesRead).split('\n');
    return /^#![ \t]*([^ \t]+)/.exec(line)?.[1] ?? null;
  } catch {
    return null;
  } finally {
    await handle.close();
  }
}
