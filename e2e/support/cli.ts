import { spawn } from 'node:child_process';
import { coveyCommand } from './checkout.ts';
import { withDeadline } from './wait.ts';

export interface CliOutcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs one `covey` command against an API, as a user would, and gathers what it prints. */
export async function runCovey(
  api: string,
  args: readonly string[],
  timeoutMs = 60_000,
): Promise<CliOutcome> {
  const child = spawn(process.execPath, [coveyCommand, ...args, '--api', api], {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  try {
    return { code: await withDeadline(`covey ${args.join(' ')}`, ended, timeoutMs), stdout, stderr };
  } finally {
    child.kill('SIGKILL');
  }
}
