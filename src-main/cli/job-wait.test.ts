import { describe, expect, test } from 'vitest';
import { scriptedIo, type ScriptedIo } from '../../e2e/support/cli-io.ts';
import { doneJob, exampleJob } from '../../e2e/support/job-views.ts';
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
