import type { CliIo } from '../../src-main/cli/io.ts';
import { at } from './views.ts';

export interface ScriptedIo extends CliIo {
  /** What was printed. */
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Presses Ctrl-C. */
  interrupt(): void;
}

/** A world for the CLI in which time passes only while it sleeps, and then at once. */
export function scriptedIo(
  changes: Partial<CliIo> & { readonly answers?: readonly string[] } = {},
): ScriptedIo {
  const out: string[] = [];
  const err: string[] = [];
  const answers = [...(changes.answers ?? [])];
  let listener: (() => void) | null = null;
  let now = at;
  return {
    out: (text) => void out.push(text),
    err: (text) => void err.push(text),
    outIsTty: false,
    errIsTty: false,
    columns: 80,
    env: { COVEY_DATA: '/nowhere/covey' },
    workingDirectory: '/somewhere',
    now: () => now,
    async sleep(ms) {
      now += ms;
      await new Promise((resolve) => setImmediate(resolve));
    },
    onInterrupt(added) {
      listener = added;
      return () => {
        listener = null;
      };
    },
    ask: async () => answers.shift() ?? null,
    secretLine: async () => answers.shift() ?? null,
    fileExists: () => false,
    copyDatabase: async () => undefined,
    ...changes,
    stdout: () => out.join(''),
    stderr: () => err.join(''),
    interrupt: () => listener?.(),
  };
}
