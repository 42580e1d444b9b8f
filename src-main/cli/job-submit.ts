import { randomUUID } from 'node:crypto';
import type { JobSpec } from '#shared/domain/job-spec.ts';
import type { JobView } from '#shared/domain/job.ts';
import { CoveyError } from '#shared/errors.ts';
import type { CommandContext } from './context.ts';
import { Exit, exitCodes } from './failure.ts';

const mostTries = 5;
const pauseMs = 1_000;

/**
 * Submits a job, once: whoever gets no answer does not know whether there is one now, and asks again with the same
 * key for that one. Where nobody listens, nothing was heard, and it fails at once.
 * @throws CoveyError, Exit 130 after Ctrl-C
 */
export async function submitOnce({ api, io }: CommandContext, spec: JobSpec): Promise<JobView> {
  const idempotencyKey = randomUUID();
  const stop = new AbortController();
  const removeListener = io.onInterrupt(() => stop.abort());
  try {
    for (let tries = 1; ; tries += 1) {
      try {
        return await api.call('submitJob', { body: spec, idempotencyKey, signal: stop.signal });
      } catch (error) {
        if (stop.signal.aborted) {
          io.err('Whether the job was submitted is not known: "covey jobs" shows it if it was.\n');
          throw new Exit(exitCodes.interrupted);
        }
        if (!mayHaveArrived(error) || tries >= mostTries) throw error;
      }
      await io.sleep(pauseMs, stop.signal);
    }
  } finally {
    removeListener();
  }
}

/** Whether it is certain that there is no job now, because the controller has said so. */
export function wasRefused(error: unknown): boolean {
  return (
    error instanceof CoveyError &&
    !mayHaveArrived(error) &&
    error.code !== 'controller_unreachable' &&
    error.code !== 'internal_error'
  );
}

function mayHaveArrived(error: unknown): boolean {
  if (!(error instanceof CoveyError)) return false;
  const { code, details } = error;
  if (code === 'timeout' || code === 'shutting_down' || code === 'stream_interrupted') return true;
  if (code !== 'controller_unreachable') return false;
  // A worker that passes requests on says when to ask again.
  if (details.retryAfterS !== undefined) return true;
  const cause = (error.cause as NodeJS.ErrnoException | undefined)?.code ?? '';
  return ['ECONNRESET', 'EPIPE', 'ETIMEDOUT'].includes(cause);
}
