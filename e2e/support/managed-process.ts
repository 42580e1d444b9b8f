import { spawn, type ChildProcess } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { withDeadline } from './wait.ts';
import { killTree, processInfo, type ProcessInfo } from './processes.ts';

export interface ManagedProcessOptions {
  readonly label: string;
  readonly argv: readonly [string, ...string[]];
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** Written to standard input at once. The pipe stays open: its end is how a child learns that we are gone. */
  readonly input?: string;
  /** Also written there, for those who watch. */
  readonly logFile?: string;
}

export interface ProcessExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A program started by a test, with what it printed, ended with everything it started. */
export interface ManagedProcess {
  readonly label: string;
  readonly pid: number;
  /** The process itself; its session id is its own, and what it starts inherits it. */
  readonly info: ProcessInfo;
  readonly exited: Promise<ProcessExit>;
  readonly hasExited: boolean;
  /** stdout and stderr in the order they came, the last 1 MiB. */
  output(): string;
  stdout(): string;
  signal(signal: NodeJS.Signals): void;
  /** Asks with SIGTERM and insists after `graceMs`. Resolves once it has exited. */
  stop(graceMs?: number): Promise<ProcessExit>;
  /** SIGKILL to this process only: what a crash is to the others. */
  crash(): Promise<ProcessExit>;
}

const keptBytes = 1024 * 1024;

export function startProcess(options: ManagedProcessOptions): ManagedProcess {
  const [file, ...args] = options.argv;
  const child: ChildProcess = spawn(file, args, {
    env: options.env ?? process.env,
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const logFile = options.logFile === undefined ? null : createWriteStream(options.logFile, { flags: 'a' });
  const all = boundedText();
  const out = boundedText();
  child.stdout?.on('data', (chunk: Buffer) => {
    all.add(chunk);
    out.add(chunk);
    logFile?.write(chunk);
  });
  child.stderr?.on('data', (chunk: Buffer) => {
    all.add(chunk);
    logFile?.write(chunk);
  });
  child.stdin?.on('error', () => undefined); // It may end before it has read.
  if (options.input !== undefined) child.stdin?.write(options.input);

  let exit: ProcessExit | null = null;
  const exited = new Promise<ProcessExit>((resolve) => {
    const finish = (code: number | null, signal: NodeJS.Signals | null): void => {
      exit ??= { code, signal };
      logFile?.end();
      resolve(exit);
    };
    child.on('exit', finish);
    child.on('error', (error) => {
      all.add(Buffer.from(`${error.message}\n`));
      finish(127, null);
    });
  });
  const pid = child.pid ?? -1;
  const info = pid > 0 ? processInfo(pid) : null;
  const signal = (name: NodeJS.Signals): void => {
    if (exit === null) child.kill(name);
  };
  return {
    label: options.label,
    pid,
    info: info ?? missingProcess(pid),
    exited,
    get hasExited() {
      return exit !== null;
    },
    output: () => all.text(),
    stdout: () => out.text(),
    signal,
    async stop(graceMs = 15_000) {
      signal('SIGTERM');
      const timer = setTimeout(() => {
        if (exit === null) killTree(pid);
      }, graceMs);
      try {
        return await withDeadline(`${options.label} to exit`, exited, graceMs + 5_000);
      } finally {
        clearTimeout(timer);
      }
    },
    async crash() {
      signal('SIGKILL');
      return await withDeadline(`${options.label} to be killed`, exited, 5_000);
    },
  };
}

function missingProcess(pid: number): ProcessInfo {
  return {
    pid,
    parentPid: 0,
    sessionId: pid,
    state: 'X',
    startedTicks: 0,
    cpuMs: 0,
    rssBytes: 0,
    command: '',
    executable: null,
  };
}

function boundedText(): { add(chunk: Buffer): void; text(): string } {
  let chunks: Buffer[] = [];
  let bytes = 0;
  return {
    add(chunk) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes <= keptBytes * 2) return;
      const kept = Buffer.concat(chunks).subarray(-keptBytes);
      chunks = [kept];
      bytes = kept.length;
    },
    text: () => Buffer.concat(chunks).toString('utf8'),
  };
}
