import { readFileSync, readdirSync, readlinkSync } from 'node:fs';

/** One process as /proc shows it (Linux only). */
export interface ProcessInfo {
  readonly pid: number;
  readonly parentPid: number;
  /** What `setsid` made: children keep it when their parent dies. */
  readonly sessionId: number;
  /** `R`, `S`, `T` (stopped), `Z` (ended, not yet reaped), ... */
  readonly state: string;
  /** Start in clock ticks since boot: with the pid it names a process for good. */
  readonly startedTicks: number;
  readonly cpuMs: number;
  readonly rssBytes: number;
  /** Arguments joined with spaces. */
  readonly command: string;
  /** Path of the program file, null when it is not readable. */
  readonly executable: string | null;
}

const msPerTick = 10; // USER_HZ is 100 on every Linux that Node.js runs on.
const pageBytes = 4096;

function read(pid: number, file: string): string | null {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return null;
  }
}

/** null when there is no such process. */
export function processInfo(pid: number): ProcessInfo | null {
  const stat = read(pid, 'stat');
  if (stat === null) return null;
  // The second field is the name in parentheses and may itself contain spaces and parentheses.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const field = (index: number): number => Number(fields[index - 3]);
  let executable: string | null = null;
  try {
    executable = readlinkSync(`/proc/${pid}/exe`).replace(/ \(deleted\)$/, '');
  } catch {
    // A kernel thread, one that has just ended, or another user's.
  }
  return {
    pid,
    parentPid: field(4),
    sessionId: field(6),
    state: fields[0] ?? '?',
    startedTicks: field(22),
    cpuMs: (field(14) + field(15)) * msPerTick,
    rssBytes: field(24) * pageBytes,
    command: (read(pid, 'cmdline') ?? '').split('\0').join(' ').trim(),
    executable,
  };
}

/** All processes that run; those that have ended and wait to be reaped do not count. */
export function listProcesses(): ProcessInfo[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => processInfo(Number(name)))
    .filter((info): info is ProcessInfo => info !== null && info.state !== 'Z' && info.state !== 'X');
}

/** Children, their children and so on, without `pid` itself. */
export function descendantsOf(pid: number, all: readonly ProcessInfo[] = listProcesses()): ProcessInfo[] {
  const found: ProcessInfo[] = [];
  const queue = [pid];
  for (let parent = queue.shift(); parent !== undefined; parent = queue.shift()) {
    for (const candidate of all) {
      if (candidate.parentPid !== parent) continue;
      found.push(candidate);
      queue.push(candidate.pid);
    }
  }
  return found;
}

/** Whether that very process (not another with its number) still runs. */
export function stillRuns(process: Pick<ProcessInfo, 'pid' | 'startedTicks'>): boolean {
  const now = processInfo(process.pid);
  return now !== null && now.startedTicks === process.startedTicks && now.state !== 'Z' && now.state !== 'X';
}

/** Ends a process and all its descendants, children last seen included. Never throws. */
export function killTree(pid: number): void {
  const doomed = [pid, ...descendantsOf(pid).map((process) => process.pid)];
  for (const victim of doomed) {
    try {
      process.kill(victim, 'SIGKILL');
    } catch {
      // Gone already.
    }
  }
}

export interface ListeningPort {
  readonly pid: number;
  /** `127.0.0.1`, `0.0.0.0`, `::1`, `::`, or `v6` for any other IPv6 address. */
  readonly host: string;
  readonly port: number;
}

/** The TCP ports on which these processes listen, each in its own network namespace. */
export function listeningPorts(pids: readonly number[]): ListeningPort[] {
  return pids.flatMap((pid) => {
    const inodes = socketInodes(pid);
    if (inodes.size === 0) return [];
    return [...tcpTable(pid, 'net/tcp'), ...tcpTable(pid, 'net/tcp6')]
      .filter((row) => inodes.has(row.inode))
      .map(({ host, port }) => ({ pid, host, port }));
  });
}

function socketInodes(pid: number): Set<string> {
  try {
    return new Set(
      readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
        try {
          return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
        } catch {
          return [];
        }
      }),
    );
  } catch {
    return new Set();
  }
}

function tcpTable(pid: number, file: string): { host: string; port: number; inode: string }[] {
  return (read(pid, file) ?? '')
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter((columns) => columns[3] === '0A') // TCP_LISTEN
    .map((columns) => {
      const [address = '', port = '0'] = (columns[1] ?? '').split(':');
      const host = address.length === 8 ? ipv4(address) : ipv6(address);
      return { host, port: parseInt(port, 16), inode: columns[9] ?? '' };
    });
}

/** Four bytes in the order of a little-endian machine. */
function ipv4(hex: string): string {
  const bytes = hex.match(/../g) ?? [];
  return bytes
    .reverse()
    .map((byte) => parseInt(byte, 16))
    .join('.');
}

function ipv6(hex: string): string {
  if (/^0+$/.test(hex)) return '::';
  return hex === '00000000000000000000000001000000' ? '::1' : 'v6';
}
