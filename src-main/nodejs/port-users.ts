import { readFile, readdir, readlink } from 'node:fs/promises';
import { basename } from 'node:path';
import { runCommand, type RunCommand } from './run-command.ts';

export interface PortQuestion {
  readonly protocol: 'tcp' | 'udp';
  readonly port: number;
}

/** A program that listens there. `pid` null: the system does not show whose the socket is. */
export interface PortUser {
  readonly name: string | null;
  readonly pid: number | null;
}

/** `users` empty: nobody listens. Not `known`: the system does not tell, for this reason. */
export type PortUse =
  | { readonly known: true; readonly users: readonly PortUser[] }
  | { readonly known: false; readonly reason: string };

/** `"name" (pid 123)`, as far as it is known. */
export function portUserText(user: PortUser): string {
  if (user.name === null) return user.pid === null ? 'a program of another user' : `process ${user.pid}`;
  return user.pid === null ? `"${user.name}"` : `"${user.name}" (pid ${user.pid})`;
}

/**
 * Who listens on local ports, in the order asked: from /proc on Linux, from `lsof` on macOS, from `netstat` and
 * `tasklist` on Windows. Never rejects; takes a few seconds at most.
 */
export async function portUses(
  questions: readonly PortQuestion[],
  options: { readonly platform?: NodeJS.Platform; readonly run?: RunCommand } = {},
): Promise<PortUse[]> {
  const { platform = process.platform, run = runCommand } = options;
  try {
    if (platform === 'linux') return await fromProc(questions);
    if (platform === 'darwin') return await Promise.all(questions.map((question) => fromLsof(question, run)));
    if (platform === 'win32') return await fromNetstat(questions, run);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return questions.map(() => ({ known: false, reason }));
  }
  return questions.map(() => ({ known: false, reason: `there is no way to ask on ${platform}` }));
}

const maxUsers = 8;
/** Of one program: more are looked at no further. */
const maxDescriptors = 16_384;

/** Inodes of the listening sockets from the kernel's tables, then one walk over all descriptors for their owners. */
async function fromProc(questions: readonly PortQuestion[]): Promise<PortUse[]> {
  const inodes = await Promise.all(questions.map(listeningInodes));
  const wanted = new Set(inodes.flat());
  const owners = new Map<string, PortUser>();
  if (wanted.size > 0) {
    for (const pid of await readdir('/proc')) {
      if (!/^\d+$/.test(pid)) continue;
      for (const inode of await socketsOf(pid, wanted)) {
        owners.set(inode, { name: await programName(pid), pid: Number(pid) });
      }
      if (owners.size === wanted.size) break;
    }
  }
  return inodes.map((sockets) => ({
    known: true,
    users: unique(sockets.map((inode) => owners.get(inode) ?? { name: null, pid: null })),
  }));
}

/** The name of its first thread, which Node.js calls by a word that tells nothing: then that of its program. */
async function programName(pid: string): Promise<string | null> {
  const comm = (await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '')).trim();
  if (comm !== 'MainThread') return comm || null;
  const commandLine = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  return basename(commandLine.split('\0')[0] ?? '') || comm;
}

/** proc_net(5): the local address ends in the port in hex; state 0A is LISTEN, UDP sockets have 07. */
async function listeningInodes({ protocol, port }: PortQuestion): Promise<string[]> {
  const wanted = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const state = protocol === 'tcp' ? '0A' : '07';
  const found: string[] = [];
  for (const table of [`/proc/net/${protocol}`, `/proc/net/${protocol}6`]) {
    const text = await readFile(table, 'utf8').catch(() => '');
    for (const line of text.split('\n').slice(1)) {
      const fields = line.trim().split(/\s+/);
      if (fields[3] === state && fields[1]?.endsWith(wanted) && fields[9] !== undefined)
        found.push(fields[9]);
    }
  }
  return found;
}

async function socketsOf(pid: string, wanted: ReadonlySet<string>): Promise<string[]> {
  const directory = `/proc/${pid}/fd`;
  const descriptors = (await readdir(directory).catch(() => [])).slice(0, maxDescriptors);
  const targets = await Promise.all(
    descriptors.map((descriptor) => readlink(`${directory}/${descriptor}`).catch(() => '')),
  );
  return targets.flatMap((target) => {
    const inode = /^socket:\[(\d+)\]$/.exec(target)?.[1];
    return inode !== undefined && wanted.has(inode) ? [inode] : [];
  });
}

/** `lsof -F pc` prints `p<pid>` and `c<command>` lines. It shows an ordinary user only that user's own programs. */
async function fromLsof({ protocol, port }: PortQuestion, run: RunCommand): Promise<PortUse> {
  const what = protocol === 'tcp' ? [`-iTCP:${port}`, '-sTCP:LISTEN'] : [`-iUDP:${port}`];
  const outcome = await run('lsof', ['-nP', ...what, '-Fpc']);
  if (!outcome.ok) return { known: false, reason: outcome.reason };
  const users: PortUser[] = [];
  let pid: number | null = null;
  for (const line of outcome.stdout.split('\n')) {
    if (/^p\d+$/.test(line)) pid = Number(line.slice(1));
    else if (line.startsWith('c') && pid !== null) users.push({ name: line.slice(1), pid });
  }
  return { known: true, users: unique(users) };
}

/** The words in netstat's output are translated; columns and the peer address of a listening socket are not. */
async function fromNetstat(questions: readonly PortQuestion[], run: RunCommand): Promise<PortUse[]> {
  const netstat = await run('netstat', ['-ano']);
  if (!netstat.ok) return questions.map(() => ({ known: false, reason: netstat.reason }));
  const rows = netstat.stdout.split(/\r?\n/).map((line) => line.trim().split(/\s+/));
  const names = new Map<string, string | null>();
  return Promise.all(
    questions.map(async ({ protocol, port }) => {
      const pids = rows
        .filter(([kind, local, peer]) => {
          if (kind?.toLowerCase() !== protocol || !local?.endsWith(`:${port}`)) return false;
          return protocol === 'udp' || peer === '0.0.0.0:0' || peer === '[::]:0';
        })
        .map((row) => row.at(-1) ?? '')
        .filter((pid) => /^\d+$/.test(pid));
      const users: PortUser[] = [];
      for (const pid of new Set(pids)) {
        if (!names.has(pid)) names.set(pid, await windowsName(pid, run));
        users.push({ name: names.get(pid) ?? null, pid: Number(pid) });
      }
      return { known: true as const, users: unique(users) };
    }),
  );
}

async function windowsName(pid: string, run: RunCommand): Promise<string | null> {
  const outcome = await run('tasklist', ['/FI', `PID eq ${pid}`, '/FO', 'CSV', '/NH']);
  return (outcome.ok && /^"([^"]{1,256})","\d+"/m.exec(outcome.stdout)?.[1]) || null;
}

function unique(users: readonly PortUser[]): PortUser[] {
  const seen = new Map(users.map((user) => [`${user.pid} ${user.name}`, user]));
  return [...seen.values()].slice(0, maxUsers);
}
