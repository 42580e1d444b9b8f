import type { CommandOutcome } from '../../../src-main/nodejs/run-command.ts';
import type { SensorSystem } from './system.ts';

/** For tests: what a command prints, by its command line or its name. */
export type Commands = Readonly<Record<string, string | CommandOutcome>>;

/** For tests: a machine made of files and commands; what is not given is not there. */
export function scriptedSystem(given: {
  readonly platform?: NodeJS.Platform;
  readonly env?: SensorSystem['env'];
  readonly files?: Readonly<Record<string, string>>;
  readonly commands?: Commands | (() => Commands);
  readonly now?: () => number;
  readonly watch?: SensorSystem['watch'];
}): SensorSystem & { readonly ran: string[] } {
  const files = given.files ?? {};
  const ran: string[] = [];
  return {
    ran,
    platform: given.platform ?? 'linux',
    env: given.env ?? {},
    now: given.now ?? (() => 0),
    readText: async (path) => files[path] ?? null,
    async list(path) {
      const below = Object.keys(files).filter((file) => file.startsWith(`${path}/`));
      return [...new Set(below.map((file) => file.slice(path.length + 1).split('/')[0] ?? ''))];
    },
    async run(file, args) {
      const line = [file, ...args].join(' ');
      ran.push(line);
      const commands = typeof given.commands === 'function' ? given.commands() : (given.commands ?? {});
      const found = commands[line] ?? commands[file];
      if (found === undefined) return { ok: false, reason: `there is no "${file}" here` };
      return typeof found === 'string' ? { ok: true, code: 0, stdout: found, stderr: '' } : found;
    },
    watch:
      given.watch ??
      ((_file, _args, on) => {
        on.end('cannot be started');
        return { end: () => undefined };
      }),
  };
}
