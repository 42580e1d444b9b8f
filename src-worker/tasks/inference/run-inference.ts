import { createWriteStream } from 'node:fs';
import { once } from 'node:events';
import { finished } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { CoveyError, isErrorCode } from '#shared/errors.ts';
import type { TaskAssignment } from '#shared/domain/task.ts';
import { backoffMs } from '#shared/lib/backoff.ts';
import { openDataset, recordsOf } from '../../engines/task-runner/records/scan.ts';
import { postToGateway, type DialGateway, type GatewayAnswer } from './gateway-client.ts';
import { inferencePaths, requestBody, type InferenceWork } from './request-body.ts';

const retry = { firstMs: 1_000, maxMs: 30_000, factor: 2, jitter: 0.3 };
/** How often one record is tried while the answer is that it may work later. */
const maxTries = 8;
/** Engines answer 500 to what they stumble over too, such as messages that a model's template does not take. */
const maxStumbles = 3;

/**
 * Asks a served model about each record of a share, several at once, and writes one line of JSON for each that is not
 * empty, in the records' order: `{"record", "response"}`, or `{"record", "error"}` where the record itself was refused.
 *
 * 1. What may work later (connections, 429, 502, 503, 504) is tried again with pauses; a record that never works ends
 *    the attempt at the whole share.
 * 2. What refuses every record (401, 403, 404) ends it at once.
 * 3. A 500 is tried again shortly; then it, like any other answer, is that record's own.
 *
 * @param options.random a number in [0, 1), for jitter
 * @returns how many records were refused
 * @throws CoveyError when the model cannot be asked now, `dataset_invalid`, `disk_full`, `cancelled`
 */
export async function runInference(options: {
  readonly work: InferenceWork;
  readonly assignment: TaskAssignment;
  readonly datasetPath: string;
  readonly outputPath: string;
  readonly dial: DialGateway;
  readonly signal: AbortSignal;
  readonly onProgress: (fraction: number) => void;
  readonly random: () => number;
}): Promise<number> {
  const { work, assignment, signal } = options;
  const { range, seek } = assignment;
  if (!range) throw new CoveyError('internal_error', 'it came without a range of records');
  const file = await openDataset(options.datasetPath);
  /** The first that fails ends the others. */
  const failing = new AbortController();
  const either = AbortSignal.any([signal, failing.signal]);
  const output = createWriteStream(options.outputPath, { mode: 0o600 });
  output.on('error', (error) => failing.abort(writingFailed(error)));
  /** In the records' order: as many as run at once, and as many that wait for an earlier one. */
  const lines: Promise<Line | null>[] = [];
  let done = range.from;
  let refused = 0;
  const writeFirst = async (): Promise<void> => {
    const line = await lines.shift();
    done += 1;
    either.throwIfAborted();
    if (line?.refused) refused += 1;
    if (line && !output.write(line.text)) await once(output, 'drain', { signal: either });
    options.onProgress((done - range.from) / Math.max(1, range.to - range.from));
  };
  const turns = createTurns(work.concurrency);
  try {
    let number = range.from;
    for await (const record of recordsOf(file, work.dataset, range, seek, either)) {
      const position = (number += 1) - 1;
      await turns.take(either);
      const line = lineOf(options, position, record, either).finally(() => turns.give());
      line.catch((error: unknown) => failing.abort(error));
      lines.push(line);
      if (lines.length >= 2 * work.concurrency) await writeFirst();
    }
    while (lines.length > 0) await writeFirst();
    output.end();
    await finished(output);
    return refused;
  } catch (error) {
    const cause: unknown = failing.signal.aborted && !signal.aborted ? failing.signal.reason : error;
    failing.abort(cause);
    throw cause;
  } finally {
    output.destroy();
    await file.close();
  }
}

interface Line {
  readonly text: string;
  readonly refused: boolean;
}

/** @returns null for an empty record */
async function lineOf(
  { work, dial, random }: Parameters<typeof runInference>[0],
  record: number,
  bytes: Buffer,
  signal: AbortSignal,
): Promise<Line | null> {
  const lineWith = (answer: { response: unknown } | { error: { code: string; message: string } }): Line => ({
    text: `${JSON.stringify({ record, ...answer })}\n`,
    refused: 'error' in answer,
  });
  let body: string;
  try {
    const request = requestBody(work, textOf(bytes));
    if (request === null) return null;
    body = JSON.stringify(request);
  } catch (error) {
    const message = `record ${record} ${CoveyError.from(error).message}`;
    return lineWith({ error: { code: 'dataset_invalid', message } });
  }
  for (let tries = 0; ; tries += 1) {
    signal.throwIfAborted();
    const answer = await postToGateway(dial, inferencePaths[work.task], body, signal).catch(
      (error: unknown) => CoveyError.from(error),
    );
    if (!(answer instanceof CoveyError) && answer.status === 200) {
      return lineWith({ response: parsed(answer.body) });
    }
    const error = answer instanceof CoveyError ? answer : refusalOf(answer.status, answer.body);
    const whose = blameOf(answer);
    if (whose === 'all' || (whose === 'later' && tries + 1 >= maxTries)) throw error;
    if (whose === 'record' || (whose === 'stumble' && tries + 1 >= maxStumbles)) {
      return lineWith({ error: { code: error.code, message: error.message } });
    }
    const wished = answer instanceof CoveyError ? null : answer.retryAfterS;
    await delay(Math.max(backoffMs(retry, tries, random()), (wished ?? 0) * 1_000), undefined, { signal });
  }
}

/** Whether one more try is worth it, or what an answer that is no success says something about. */
function blameOf(answer: GatewayAnswer | CoveyError): 'later' | 'stumble' | 'record' | 'all' {
  if (answer instanceof CoveyError) return answer.retryable ? 'later' : 'all';
  const { status } = answer;
  if (status === 429 || status > 500) return 'later';
  if (status === 500) return 'stumble';
  return status === 401 || status === 403 || status === 404 ? 'all' : 'record';
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Without a byte order mark. */
function textOf(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw new CoveyError('dataset_invalid', 'is not UTF-8');
  }
}

function writingFailed(error: NodeJS.ErrnoException): CoveyError {
  const code = error.code === 'ENOSPC' || error.code === 'EDQUOT' ? 'disk_full' : 'internal_error';
  return new CoveyError(code, `its answers could not be written: ${error.message}`, {}, error);
}

function refusalOf(status: number, body: string): CoveyError {
  const found = (parsed(body) as { error?: { code?: unknown; message?: unknown } } | null)?.error;
  const code = typeof found?.code === 'string' && isErrorCode(found.code) ? found.code : 'task_failed';
  const message =
    typeof found?.message === 'string' ? found.message : `the model answered with status ${status}`;
  return new CoveyError(code, message.slice(0, 1_024));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Lets so many at once. */
function createTurns(count: number): { take(signal: AbortSignal): Promise<void>; give(): void } {
  let free = count;
  const waiting: (() => void)[] = [];
  return {
    async take(signal) {
      if (free > 0) {
        free -= 1;
        return;
      }
      await new Promise<void>((resolve, reject) => {
        const onAbort = (): void => reject(signal.reason as Error);
        signal.addEventListener('abort', onAbort, { once: true });
        waiting.push(() => {
          signal.removeEventListener('abort', onAbort);
          resolve();
        });
      });
    },
    give() {
      const next = waiting.shift();
      if (next) next();
      else free += 1;
    },
  };
}
