import { rename, writeFile } from 'node:fs/promises';
import type { Logger } from '#shared/lib/logger.ts';
import { productVersion } from '../nodejs/version.ts';
import type { RoleNode } from '../roles/role-node.ts';
import { settleMemory } from './settle-memory.ts';

/** What a started role tells the program that started it: on `--ready-file`, or as first line with `--json`. */
export interface ReadyReport {
  readonly role: 'controller' | 'worker';
  readonly pid: number;
  readonly nodeId: string;
  readonly name: string;
  readonly version: string;
  /** `http://127.0.0.1:7878`, null when this process serves no API. */
  readonly apiAddress: string | null;
  /** `0.0.0.0:7879`, null when this process does not listen. */
  readonly clusterAddress: string | null;
}

export function reportOf({ role, nodeId, name, apiAddress, clusterAddress }: RoleNode): ReadyReport {
  return { role, pid: process.pid, nodeId, name, version: productVersion, apiAddress, clusterAddress };
}

export interface LifecycleOptions {
  readonly json: boolean;
  readonly readyFile?: string | undefined;
  readonly exitWithParent: boolean;
}

/** Longest orderly shutdown; what is not over by then is cut off. */
const shutdownMs = 12_000;

/** Tells that the role is up. Without `--json` the sentence goes to standard output for people. */
export async function announce(
  report: ReadyReport,
  sentence: string,
  options: LifecycleOptions,
): Promise<void> {
  if (options.readyFile !== undefined) {
    const temporary = `${options.readyFile}.${process.pid}.tmp`;
    await writeFile(temporary, `${JSON.stringify(report)}\n`, { mode: 0o600 });
    await rename(temporary, options.readyFile);
  }
  process.stdout.write(options.json ? `${JSON.stringify(report)}\n` : `${sentence}\n`);
}

/**
 * Runs until a signal, the parent's end (`--exit-with-parent`: standard input closes) or `ended` resolves, then
 * closes in order within a deadline. A second signal ends at once. Resolves to the exit code.
 */
export async function runUntilStopped(
  close: () => Promise<void>,
  logger: Logger,
  options: LifecycleOptions,
  ended: Promise<never> | null = null,
): Promise<number> {
  settleMemory();
  const reason = await new Promise<string>((resolve, reject) => {
    let asked = false;
    const ask = (why: string) => (): void => {
      if (asked) process.exit(130);
      asked = true;
      resolve(why);
    };
    process.on('SIGINT', ask('interrupted'));
    process.on('SIGTERM', ask('asked to stop'));
    if (process.platform !== 'win32') process.on('SIGHUP', ask('the terminal closed'));
    if (options.exitWithParent) {
      const gone = ask('the parent ended');
      process.stdin
        .on('end', gone)
        .on('close', () => (asked ? undefined : gone()))
        .on('error', () => undefined);
      process.stdin.resume();
    }
    ended?.catch(reject);
  });
  logger.info('stopping', { reason });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<'late'>((resolve) => {
    timer = setTimeout(() => resolve('late'), shutdownMs);
  });
  const outcome = await Promise.race([close().then(() => 'closed' as const), late]);
  clearTimeout(timer);
  if (outcome === 'late') logger.error('shutdown took too long', { seconds: shutdownMs / 1000 });
  return outcome === 'late' ? 1 : 0;
}

/** A bug that nothing caught leaves unknown state behind: say it and end, children end with us. */
export function exitOnUncaught(logger: Logger): void {
  const die = (thrown: unknown): void => {
    logger.error('unexpected error, ending', {
      reason: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown),
    });
    process.exit(1);
  };
  process.on('uncaughtException', die);
  process.on('unhandledRejection', die);
}
