import { createInterface } from 'node:readline';
import { CoveyError } from '#shared/errors.ts';
import { startWorkerNode } from '../roles/worker-node.ts';
import type { WorkerArguments } from './arguments.ts';
import { layHeadlessFoundation } from './foundation.ts';
import { announce, exitOnUncaught, reportOf, runUntilStopped } from './lifecycle.ts';

/** Joins when asked to, then lends this machine until stopped. A machine of no covey waits to be asked. */
export async function startWorker(options: WorkerArguments): Promise<number> {
  const joinString = options.join === '-' ? await firstLine() : options.join;
  const foundation = await layHeadlessFoundation(options);
  exitOnUncaught(foundation.logger);
  const node = await startWorkerNode({ ...options, joinString, foundation });
  const { name, apiAddress, membership } = node;
  try {
    await announce(
      reportOf(node),
      membership
        ? `Covey worker ${name} lends this machine to ${membership.controllerName}.` +
            (apiAddress ? `\n  API  ${apiAddress}/v1` : '')
        : `Covey worker ${name} waits to join a covey: run "covey join" here, in another terminal.`,
      options,
    );
    return await runUntilStopped(node.close, foundation.logger, options);
  } catch (error) {
    await node.close();
    throw error;
  }
}

const joinLineMs = 60_000;

/** The join string from standard input, so that it stands in no process list. */
async function firstLine(): Promise<string> {
  const lines = createInterface({ input: process.stdin, terminal: false });
  const timer = setTimeout(() => lines.close(), joinLineMs);
  try {
    for await (const line of lines) if (line.trim()) return line.trim();
  } finally {
    clearTimeout(timer);
    lines.close();
  }
  throw new CoveyError('join_string_invalid', 'No join string came on standard input.', { field: 'join' });
}
