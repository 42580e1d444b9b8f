import type { JobView } from '#shared/domain/job.ts';
import { CoveyError } from '#shared/errors.ts';
import type { CommandContext } from './context.ts';
import { Exit, describeError, exitCodes } from './failure.ts';
import { isFinished, jobMs, partitionsText, progressText, waitReason } from './job-text.ts';
import { showFailedOutput } from './failed-part.ts';
import { resultNotes, resultText } from './job-result-text.ts';
import { createLiveLine, type LiveLine } from './live-line.ts';
import { duration, plural, printable, wrap } from './text.ts';

const pollMs = 250;
/** A controller may restart meanwhile: the job is in its records. */
const awayMs = 60_000;
/** A shorter silence is not worth a line. */
const silenceMs = 1_000;
/** Reasons for waiting that come and go are told at most so often. */
const reasonEveryMs = 10_000;

export function jobName(job: JobView): string {
  return `${printable(job.name)} (${job.id})`;
}

/**
 * Shows the job's progress until it is finished, then its result: on standard output the value, or what was made.
 * Ctrl-C asks whether the job shall end too; without an answer it goes on by itself.
 * @throws Exit 1 when it failed or was cancelled, 130 after Ctrl-C
 */
export async function finishJob(context: CommandContext, started: JobView): Promise<void> {
  const job = await untilFinished(context, started);
  const { io, json, width } = context;
  const took = jobMs(job, io.now());
  if (json) io.out(`${JSON.stringify(job)}\n`);
  else if (job.result) io.out(resultText(job, width));
  for (const note of resultNotes(job)) io.err(`${wrap(note, width).join('\n')}\n`);
  if (job.status === 'done') {
    io.err(`${jobName(job)} is done${took === null ? '' : ` after ${duration(took)}`}.\n`);
    return;
  }
  const missing = job.result?.missing ?? 0;
  io.err(
    `${jobName(job)} ${job.status === 'failed' ? 'has failed' : 'was cancelled'}: ${partitionsText(job)}.\n`,
  );
  if (job.error) io.err(`error: ${describeError(job.error)}`);
  if (job.status === 'failed') await showFailedOutput(context, job);
  if (job.status === 'failed' && missing > 0) {
    io.err(
      `${plural(missing, 'partition')} without a result: "covey jobs partitions ${job.id} --status failed" shows\n` +
        `which, "covey jobs retry ${job.id}" tries again.\n`,
    );
  }
  throw new Exit(exitCodes.failed);
}

async function untilFinished(context: CommandContext, started: JobView): Promise<JobView> {
  const { api, io } = context;
  const live = createLiveLine(io);
  const job: { latest: JobView; heardAt: number; away: CoveyError | null } = {
    ...{ latest: started, heardAt: io.now(), away: null },
  };
  const sayAway = createAwayNotes(live);
  const sayReason = createReasonNotes(io, live);
  let interrupt = new AbortController();
  const removeListener = io.onInterrupt(() => interrupt.abort());
  const look = async (): Promise<void> => {
    try {
      job.latest = await api.call('job', { params: { job: started.id }, timeoutMs: 10_000 });
      job.heardAt = io.now();
      job.away = null;
    } catch (error) {
      if (!(error instanceof CoveyError) || !error.retryable) throw error;
      if (io.now() - job.heardAt > awayMs) throw error;
      if (io.now() - job.heardAt > silenceMs) job.away = error;
    }
  };
  let cancelled = false;
  try {
    while (!isFinished(job.latest)) {
      sayAway(job.away);
      // What was known before is no progress of now.
      if (job.away === null) {
        sayReason(waitReason(job.latest));
        live.update(...progressText(job.latest));
      }
      await io.sleep(pollMs, interrupt.signal);
      if (interrupt.signal.aborted) {
        live.end();
        if (cancelled) throw detached(context, job.latest);
        interrupt = new AbortController();
        const answer = await wantsCancelled(context, () => job.latest, look, interrupt.signal);
        if (answer === 'finished') break;
        if (answer === 'no') throw detached(context, job.latest);
        cancelled = true;
        await api.call('cancelJob', { params: { job: started.id }, timeoutMs: 5_000 });
      }
      await look();
    }
  } finally {
    live.end();
    removeListener();
  }
  return job.latest;
}

/** Says once that the controller is away, and once that it is back. */
function createAwayNotes(live: LiveLine): (away: CoveyError | null) => void {
  let wasAway = false;
  return (away) => {
    if ((away !== null) === wasAway) return;
    wasAway = away !== null;
    if (away === null) return live.note('The controller answers again.');
    const silent = away.code === 'controller_unreachable' || away.code === 'timeout';
    const what = silent ? 'The controller does not answer.' : away.message;
    live.note(`${what} It is asked again until it does, for ${awayMs / 1_000} s.`);
  };
}

/** Says why a job waits: in full, when it has waited for a moment, and again when the reason has changed. */
function createReasonNotes(io: CommandContext['io'], live: LiveLine): (reason: string | null) => void {
  let since: number | null = null;
  let said: { readonly reason: string; readonly at: number } | null = null;
  return (reason) => {
    const now = io.now();
    since = reason === null ? null : (since ?? now);
    if (reason === null || since === null || now - since < silenceMs || reason === said?.reason) return;
    if (said !== null && now - said.at < reasonEveryMs) return;
    said = { reason, at: now };
    live.note(reason);
  };
}

/**
 * Only a person on a terminal is asked; a script that is interrupted leaves its job. The question is open as long as
 * the job goes on, and a second interrupt, from wherever, answers it with no.
 */
async function wantsCancelled(
  { io }: CommandContext,
  latest: () => JobView,
  look: () => Promise<void>,
  interrupt: AbortSignal,
): Promise<'yes' | 'no' | 'finished'> {
  const takenBack = new AbortController();
  const typed: { answer: 'yes' | 'no' | null } = { answer: null };
  const asked = io
    .ask(`End ${jobName(latest())} as well? [y/N] `, AbortSignal.any([takenBack.signal, interrupt]))
    .catch((error: unknown) => {
      if (error instanceof Exit) return null;
      throw error;
    })
    .then((line) => {
      typed.answer = line !== null && /^y(es)?$/i.test(line.trim()) ? 'yes' : 'no';
    });
  try {
    for (;;) {
      await Promise.race([asked, io.sleep(pollMs, interrupt)]);
      if (interrupt.aborted) return 'no';
      if (typed.answer !== null) return typed.answer;
      await look();
      if (isFinished(latest())) return 'finished';
    }
  } finally {
    takenBack.abort();
    await asked;
  }
}

function detached({ io }: CommandContext, job: JobView): Exit {
  io.err(
    `${jobName(job)} goes on. "covey jobs wait ${job.id}" waits for it again, "covey jobs cancel ${job.id}" ends it.\n`,
  );
  return new Exit(exitCodes.interrupted);
}
