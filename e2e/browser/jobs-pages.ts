import { readFileSync } from 'node:fs';
import type { Download, Locator } from 'playwright-core';
import { expect } from 'vitest';
import type { JobView } from '#shared/domain/job.ts';
import type { RunningController } from '../support/cluster.ts';
import { waitFor } from '../support/wait.ts';
import { accessibilityProblems, takePictures, type Dashboard } from './dashboard.ts';

/** What tests of the pages of jobs look for again and again. */
export interface JobsPages {
  /** Pictures in all looks; nothing wider than its window, nothing that axe or the console complain of. */
  readonly looksRight: (name: string) => Promise<void>;
  readonly job: (id: string) => Promise<JobView>;
  /** Once it is over, however. */
  readonly ended: (id: string, timeoutMs?: number) => Promise<JobView>;
  readonly section: (name: string) => Locator;
  readonly heading: (name: string) => Promise<void>;
  /** On the form of a new job. */
  readonly kindOf: (name: string) => Locator;
  /** Of the job that is shown. */
  readonly shownId: () => string;
}

/** @param open what there is from the first test on */
export function jobsPages(
  open: () => { readonly controller: RunningController; readonly dashboard: Dashboard },
): JobsPages {
  const section = (name: string): Locator => open().dashboard.page.getByRole('region', { name, exact: true });
  const job = (id: string): Promise<JobView> => open().controller.client.call('job', { params: { job: id } });
  return {
    section,
    job,
    async looksRight(name) {
      const { dashboard } = open();
      const { page } = dashboard;
      expect(await takePictures(page, name)).toEqual({});
      expect(await accessibilityProblems(page)).toEqual([]);
      expect(dashboard.problems).toEqual([]);
    },
    ended: (id, timeoutMs = 60_000) =>
      waitFor(
        'the job to end',
        async () => {
          const view = await job(id);
          if (view.finishedAt !== null) return view;
          throw new Error(JSON.stringify({ ...view, shares: undefined }));
        },
        timeoutMs,
        100,
      ),
    heading: (name) => open().dashboard.page.getByRole('heading', { level: 1, name }).waitFor(),
    kindOf: (name) => section('Kind of work').getByRole('radio', { name }),
    shownId: () => /#\/jobs\/(j-[0-9a-z]+)/.exec(open().dashboard.page.url())?.[1] ?? '',
  };
}

export async function bytesOf(download: Download): Promise<Buffer> {
  return readFileSync(await download.path());
}
