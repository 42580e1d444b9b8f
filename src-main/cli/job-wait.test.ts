import { describe, expect, test } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import { scriptedIo, type ScriptedIo } from '../../e2e/support/cli-io.ts';
import { doneJob, exampleJob, exampleJobId, failedJob } from '../../e2e/support/job-views.ts';
import { useCovey } from '../../e2e/support/use-covey.ts';

const { covey } = useCovey();

/** A person who is asked and types nothing; `asked` is called when the question is there. */
function silentIo(asked: (io: ScriptedIo) => void): ScriptedIo & { readonly questions: () => number } {
  let open = 0;
  const io = scriptedIo({
    ask: (_question, signal) =>
      new Promise((resolve) => {
        open += 1;
        signal?.addEventListener('abort', () => {
          open -= 1;
          resolve(null);
        });
        asked(io);
      }),
  });
  return { ...io, questions: () => open };
}

describe('a question whether the job shall end too, that nobody answers', () => {
  test('is taken back when the job ends, and the result is there', async () => {
    let calls = 0;
    const io = silentIo(() => undefined);
    const job = (): unknown => {
      calls += 1;
      if (calls === 2) io.interrupt();
      return calls < 6 ? exampleJob() : doneJob();
    };
    const { code, stdout, stderr } = await covey('jobs wait sum', { job }, io);
    expect([code, stdout], stderr).toEqual([0, '9007199187632128\n']);
    expect(io.questions()).toBe(0);
  });

  test('is a no at the second interrupt, from wherever it comes', async () => {
    const io = silentIo((at) => at.interrupt());
    let calls = 0;
    const job = (): unknown => {
      calls += 1;
      if (calls === 2) io.interrupt();
      return exampleJob();
    };
    const { code, stderr, api } = await covey('jobs wait sum', { job }, io);
    expect(code).toBe(130);
    expect(stderr).toContain('goes on.');
    expect(io.questions()).toBe(0);
    expect(api.requests.filter(({ route }) => route === 'cancelJob')).toEqual([]);
  });

  test('a yes ends the job', async () => {
    let cancelled = false;
    const io = scriptedIo({ answers: ['y'] });
    const job = (): unknown => {
      if (!cancelled) io.interrupt();
      return exampleJob(cancelled ? { status: 'cancelled', finishedAt: exampleJob().createdAt } : {});
    };
    const cancelJob = (): unknown => {
      cancelled = true;
      return exampleJob();
    };
    const { code, stderr } = await covey('jobs wait sum', { job, cancelJob }, io);
    expect(code, stderr).toBe(1);
    expect(stderr).toContain('was cancelled');
  });
});

describe('a job that has made no files', () => {
  const nothing = { value: null, artifacts: [], missing: 0 };

  test('points to what it printed when it is done', async () => {
    const { stdout } = await covey('jobs wait sum', {
      job: () => doneJob({ kind: 'command', result: nothing }),
    });
    expect(stdout).toBe(
      `It has made no files. What it printed, if anything: "covey jobs logs ${exampleJobId}".\n`,
    );
  });

  test('says nothing of that when it has failed', async () => {
    const job = (): unknown => failedJob({ result: { ...nothing, missing: 3 } });
    const { stdout, stderr } = await covey('jobs wait render', { job });
    expect(stdout).toBe('');
    expect(stderr).toContain('has failed');
    expect((await covey('jobs info render', { job })).stdout).not.toMatch(/no files|\n\n$/);
  });
});

/** One answer after the other, the last of them for ever. */
function inTurn(answers: readonly (() => unknown)[]): () => unknown {
  let at = 0;
  return () => answers[Math.min(at++, answers.length - 1)]?.();
}

const times = <T>(count: number, one: T): T[] => Array.from({ length: count }, () => one);
const count = (text: string, part: string): number => text.split(part).length - 1;

describe('a job that waits', () => {
  const reason = (who: string): string =>
    `It waits, no machine can take it now. ${who}: ${'draining, and whoever reads this has to read all of it; '.repeat(4)}end.`;
  const queued = (note: string) => () =>
    exampleJob({
      ...{ status: 'queued', shares: [], remainingMs: null, notes: ['There are only 3.', note] },
      partitions: { total: 3, waiting: 3, running: 0, done: 0, failed: 0, cancelled: 0 },
      units: { unit: 'items', total: 3, done: 0 },
    });
  const job = (): (() => unknown) =>
    inTurn([...times(20, queued(reason('desk'))), ...times(60, queued(reason('attic'))), () => doneJob()]);

  test.each([false, true])('says why in full, once for each reason (terminal: %s)', async (errIsTty) => {
    const { stderr } = await covey('jobs wait sum', { job: job() }, scriptedIo({ errIsTty }));
    const lines = stderr.replaceAll('\n', ' ');
    expect([count(lines, reason('desk')), count(lines, reason('attic'))], stderr).toEqual([1, 1]);
    expect(stderr).not.toContain('[---');
    if (errIsTty)
      expect(Math.max(...stderr.split(/\n|\r/).map((line) => line.length))).toBeLessThanOrEqual(83);
  });

  test('says nothing of a reason that lasts a moment only', async () => {
    const { stderr } = await covey('jobs wait sum', {
      job: inTurn([...times(2, queued(reason('desk'))), () => doneJob()]),
    });
    expect(stderr).not.toContain('It waits');
  });
});

describe('a controller that does not answer for a while', () => {
  const away = (): never => {
    throw new CoveyError('controller_unreachable', 'No covey answers.');
  };

  test.each([false, true])('is said once, and once when it is back (terminal: %s)', async (errIsTty) => {
    const job = inTurn([
      ...times(4, () => exampleJob()),
      ...times(40, away),
      ...times(3, () => exampleJob()),
      doneJob,
    ]);
    const { code, stderr } = await covey('jobs wait sum', { job }, scriptedIo({ errIsTty }));
    expect(code, stderr).toBe(0);
    const [before = '', during = '', after = ''] = stderr.split(
      /The controller (?:does not answer|answers again)\./,
    );
    expect(during).toContain('It is asked again until it does, for 60 s.');
    expect(count(stderr, 'The controller does not answer.')).toBe(1);
    expect(count(stderr, 'The controller answers again.')).toBe(1);
    expect([before.includes('61%'), during.includes('%')], stderr).toEqual([true, false]);
    expect(after).toContain('is done');
  });

  test('is not said of one answer that was missed', async () => {
    const job = inTurn([...times(4, () => exampleJob()), away, ...times(3, () => exampleJob()), doneJob]);
    const { stderr } = await covey('jobs wait sum', { job });
    expect(stderr).not.toContain('The controller');
  });

  test('is given up after a minute', async () => {
    const job = inTurn([...times(4, () => exampleJob()), away]);
    const { code, stderr } = await covey('jobs wait sum', { job });
    expect(code, stderr).toBe(3);
    expect(count(stderr, 'The controller does not answer.')).toBe(1);
  });
});
