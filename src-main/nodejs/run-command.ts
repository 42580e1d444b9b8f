import { execFile } from 'node:child_process';

/** What a command of the system printed, or why it told nothing. */
export type CommandOutcome =
  | { readonly ok: true; readonly code: number; readonly stdout: string; readonly stderr: string }
  | { readonly ok: false; readonly reason: string };

export type RunCommand = (
  file: string,
  args: readonly string[],
  timeoutMs?: number,
) => Promise<CommandOutcome>;

const defaultTimeoutMs = 3_000;
const maxOutputBytes = 256 * 1024;
/** What commands of the desktop need to find their session; nothing else of our environment is passed on. */
const passed = [
  'HOME',
  'USER',
  'LOGNAME',
  'USERPROFILE',
  'LOCALAPPDATA',
  'SystemRoot',
  'PATHEXT',
  'TEMP',
  'TMP',
  'XDG_RUNTIME_DIR',
  'DBUS_SESSION_BUS_ADDRESS',
  'DISPLAY',
  'XAUTHORITY',
];

/**
 * Runs one command of the system to learn something, within a deadline and with bounded output. Never rejects.
 * Its exit code may be anything: many tools tell "no" by it.
 */
export const runCommand: RunCommand = (file, args, timeoutMs = defaultTimeoutMs) =>
  new Promise((resolve) => {
    const env: Record<string, string> = { LC_ALL: 'C', LANG: 'C', PATH: searchPath() };
    for (const name of passed) {
      const value = process.env[name];
      if (value !== undefined) env[name] = value;
    }
    const child = execFile(
      file,
      [...args],
      { env, maxBuffer: maxOutputBytes, killSignal: 'SIGKILL', windowsHide: true, encoding: 'utf8' },
      (error, stdout, stderr) => {
        if (error && typeof error.code !== 'number') {
          end({ ok: false, reason: whyNot(file, error) });
        } else {
          end({ ok: true, code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr });
        }
      },
    );
    child.stdin?.end();
    // The callback waits until the pipes are closed, which a child of the command may keep open.
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      child.stdout?.destroy();
      child.stderr?.destroy();
      end({ ok: false, reason: `"${file}" gave no answer within ${timeoutMs / 1_000} s` });
    }, timeoutMs);
    const end = (outcome: CommandOutcome): void => {
      clearTimeout(timer);
      resolve(outcome);
    };
  });

function searchPath(): string {
  const own = process.env['PATH'] ?? '';
  // System tools stand where the path of an ordinary user does not lead.
  return process.platform === 'win32' ? own : `${own}:/usr/sbin:/sbin:/usr/bin:/bin`;
}

function whyNot(file: string, error: { readonly code?: unknown; readonly message: string }): string {
  if (error.code === 'ENOENT') return `there is no "${file}" here`;
  if (error.code === 'EACCES') return `"${file}" may not be run`;
  if (error.code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return `"${file}" printed too much`;
  return `"${file}" failed`;
}
