import { spawn } from 'node:child_process';
import { coveyCommand } from './checkout.ts';
import { withDeadline } from './wait.ts';

export interface CliOutcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs one `covey` command on the data directory of a node, as a user would, and gathers what it prints. */
export async function runCovey(
  node: { readonly dataDirectory: string },
  args: readonly string[],
  options: { readonly input?: string; readonly timeoutMs?: number } = {},
): Promise<CliOutcome> {
  const child = spawn(process.execPath, [coveyCommand, ...args, '--data', node.dataDirectory], {
    env: { PATH: process.env['PATH'] },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.stdin.on('error', () => undefined);
  child.stdin.end(options.input ?? '');
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  try {
    return {
      code: await withDeadline(`covey ${args.join(' ')}`, ended, options.timeoutMs ?? 60_000),
      stdout,
      stderr,
    };
  } finally {
    child.kill('SIGKILL');
  }
}
