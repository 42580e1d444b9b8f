import { mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Download, Locator } from 'playwright-core';
import { afterAll, beforeAll, expect } from 'vitest';
import type { JobView } from '#shared/domain/job.ts';
import { probeSandbox } from '../../src-worker/engines/task-runner/sandbox/probe-sandbox.ts';
import type { Cluster, RunningController } from '../support/cluster.ts';
import { startSplitCluster } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';
import { noBrowser, openBrowser } from './browser.ts';
import { accessibilityProblems, openDashboard, takePictures, type Dashboard } from './dashboard.ts';

/** Why pages of jobs cannot be tested here; null: they can. */
export const missing: string | null =
  noBrowser ?? ((await probeSandbox()).sandbox.kind === 'none' ? 'programs cannot be kept apart here' : null);

/** What tests of the pages of jobs look for again and again. */
export interface JobsPages {
  readonly cluster: { readonly current: Cluster };
  /** Inside of hooks and tests only. */
  readonly open: () => { readonly controller: RunningController; readonly dashboard: Dashboard };
  /** What the owners of both machines lend from now on; each says it at the machine itself. */
  readonly lend: (lend: object) => Promise<void>;
  /** Pictures in all looks; nothing wider than its window, nothing that axe or the console complain of. */
  readonly looksRight: (name: string) => Promise<void>;
  readonly job: (id: string) => Promise<JobView>;
  /** Once it is over, however. */
  readonly ended: (id: string, timeoutMs?: number) => Promise<JobView>;
  readonly section: (name: string) => Locator;
  readonly heading: (name: string) => Promise<void>;
  /** On the form of a new job. */
  readonly kindOf: (name: string) => Locator;
  readonly newJob: (kind: string, name: string) => Promise<void>;
  readonly submit: () => Promise<void>;
  /** Presses what downloads, and has the file under the name that the browser was told. */
  readonly downloaded: (button: Locator) => Promise<{ readonly name: string; readonly bytes: Buffer }>;
  /** Of the job that is shown. */
  readonly shownId: () => string;
}

/**
 * A controller with two machines, anna and ben, and a browser at its dashboard, for the tests of the enclosing
 * `describe`, each of which goes on from where the one before it ended.
 */
export function useJobsPages(): JobsPages {
  const cluster = useCluster('file');
  let close: (() => Promise<void>) | undefined;
  let opened: (ReturnType<JobsPages['open']> & { readonly lend: JobsPages['lend'] }) | undefined;
  beforeAll(async () => {
    const own = (name: string): { dataDirectory: string; api: string } => {
      const dataDirectory = path.join(cluster.current.directory, name);
      mkdirSync(dataDirectory, { mode: 0o700 });
      return { dataDirectory, api: '127.0.0.1:0' };
    };
    const { controller, anna, ben } = await startSplitCluster(cluster.current, {
      anna: own('anna'),
      ben: own('ben'),
    });
    const browser = await openBrowser();
    ({ close } = browser);
    opened = {
      controller,
      dashboard: await openDashboard(controller, browser.context),
      async lend(lend) {
        for (const { client } of [anna, ben]) await client.call('setSettings', { body: { lend } });
      },
    };
  });
  afterAll(() => close?.());

  const open = (): NonNullable<typeof opened> => {
    if (opened === undefined) throw new Error('there are no pages outside of a test');
    return opened;
  };
  const section = (name: string): Locator => open().dashboard.page.getByRole('region', { name, exact: true });
  const kindOf = (name: string): Locator => section('Kind of work').getByRole('radio', { name });
  const job = (id: string): Promise<JobView> => open().controller.client.call('job', { params: { job: id } });
  return {
    cluster,
    open,
    lend: (lend) => open().lend(lend),
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
    kindOf,
    async newJob(kind, name) {
      const { dashboard } = open();
      await dashboard.go('#/jobs/new', 'New job');
      await kindOf(kind).check();
      await dashboard.page.getByLabel('Name of the job').fill(name);
    },
    submit: () => open().dashboard.page.getByRole('button', { name: 'Submit' }).click(),
    async downloaded(button) {
      const [download] = await Promise.all([open().dashboard.page.waitForEvent('download'), button.click()]);
      return { name: download.suggestedFilename(), bytes: await bytesOf(download) };
    },
    shownId: () => /#\/jobs\/(j-[0-9a-z]+)/.exec(open().dashboard.page.url())?.[1] ?? '',
  };
}

async function bytesOf(download: Download): Promise<Buffer> {
  return readFileSync(await download.path());
}
