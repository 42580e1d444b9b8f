/**
 * Forks our own child processes. Two implementations share this interface: Node.js `child_process` (headless)
 * and Electron utility processes (desktop); the entry files are the same and find out which by `parentPort()`.
 */
export type HostEntry = 'engine-host' | 'transport-host' | 'artifact-hasher' | 'kernel-host' | 'task-runner';

export interface ForkOptions {
  /** For logs and process lists: `engine d-1a2b3c4d.1.0`. */
  readonly label: string;
}

export interface HostProcess {
  readonly pid: number | undefined;
  /** Dropped silently once the child has exited. */
  send(message: unknown): void;
  onMessage(listener: (message: unknown) => void): void;
  /** Fires once. `detail` is a sentence for the log ("exited with code 1", "killed by SIGKILL"). */
  onExit(listener: (exit: { code: number | null; signal: string | null; detail: string }) => void): void;
  /** Forced end of the child. It must end what it started by itself when its parent channel closes. */
  kill(): void;
}

export interface ProcessHost {
  fork(entry: HostEntry, options: ForkOptions): HostProcess;
}
