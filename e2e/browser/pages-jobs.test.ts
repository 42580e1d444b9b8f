import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Page, Route } from 'playwright-core';
import tar from 'tar-stream';
import { beforeAll, describe, expect, test } from 'vitest';
import type { JobView } from '#shared/domain/job.ts';
import type { RunningController } from '../support/cluster.ts';
import { waitFor } from '../support/wait.ts';
import { accessibilityProblems, type Dashboard } from './dashboard.ts';
import { missing, useJobsPages } from './jobs-pages.ts';

const MiB = 1024 * 1024;
/** What a hostile member would like to do to whoever looks. */
const hostile = '<img src=x onerror=alert(1)><b>b.txt';

/** A person's way through jobs and artifacts; each test goes on from where the one before it ended. */
describe.skipIf(missing !== null)(`jobs and artifacts${missing === null ? '' : ` (${missing})`}`, () => {
  const {
    cluster,
    open,
    lend,
    looksRight,
    job,
    ended,
    section,
    heading,
    kindOf,
    newJob,
    submit,
    downloaded,
    shownId,
  } = useJobsPages();
  let controller: RunningController;
  let dashboard: Dashboard;
  let page: Page;
  beforeAll(async () => {
    ({ controller, dashboard } = open());
    ({ page } = dashboard);
    await lend({ kinds: { commands: true } });
  });

  const artifacts = async () => (await controller.client.call('artifacts')).artifacts;
  const hash = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

  async function run(spec: object): Promise<JobView> {
    return controller.client.call('submitJob', { body: spec as never });
  }

  test('pages without anything say what to do, and fit any window', async () => {
    await dashboard.go('#/jobs', 'Jobs');
    await page.getByText('No job was submitted yet').waitFor();
    await looksRight('jobs-empty');
    await dashboard.go('#/artifacts', 'Artifacts');
    await page.getByText('There is nothing yet').waitFor();
    await looksRight('artifacts-empty');
  });

  describe('artifacts', () => {
    const big = Buffer.alloc(9 * MiB + 17, 'covey ');

    test('a file of several chunks is uploaded and comes back as it was', async () => {
      await page.getByLabel('Files to upload').setInputFiles([
        { name: 'big.bin', mimeType: 'application/octet-stream', buffer: big },
        { name: hostile, mimeType: 'text/html', buffer: Buffer.from('<script>alert(1)</script>') },
        { name: 'rows.jsonl', mimeType: 'text/plain', buffer: Buffer.from('{"a":1}\n{"a":2}\n{"a":3}\n') },
        { name: 'empty.txt', mimeType: 'text/plain', buffer: Buffer.alloc(0) },
      ]);
      await page.getByText('Uploaded').nth(3).waitFor();
      const found = (await artifacts()).find(({ name }) => name === 'big.bin');
      expect(found).toMatchObject({ id: hash(big), bytes: big.length, pinned: true });
      const { name, bytes } = await downloaded(page.getByRole('button', { name: 'Download big.bin' }));
      expect([name, hash(bytes)]).toEqual(['big.bin', hash(big)]);
    });

    test('a folder is uploaded with its paths', async () => {
      const folder = path.join(cluster.current.directory, 'tool');
      mkdirSync(path.join(folder, 'lib'), { recursive: true });
      writeFileSync(path.join(folder, 'run.sh'), '#!/bin/sh\ncat lib/words\n');
      writeFileSync(path.join(folder, 'lib', 'words'), 'hello from the folder\n');
      await page.getByLabel('Folder to upload').setInputFiles(folder);
      await page.getByText('Uploaded').nth(4).waitFor();
      expect((await artifacts()).find(({ name }) => name === 'tool')).toMatchObject({
        kind: 'tree',
        files: 2,
      });
      const { name, bytes } = await downloaded(page.getByRole('button', { name: 'Download tool' }));
      expect(name).toBe('tool.tar');
      expect(bytes.includes('hello from the folder')).toBe(true);
      await looksRight('artifacts');
    });

    test('an upload is cancelled and goes on where it was', async () => {
      const other = randomBytes(20 * MiB);
      let sent = 0;
      const held: Route[] = [];
      const hold = async (route: Route): Promise<void> => {
        sent += 1;
        if (sent <= 2) await route.continue();
        else held.push(route);
      };
      await page.route('**/chunks/*', hold);
      await page
        .getByLabel('Files to upload')
        .setInputFiles([{ name: 'other.bin', mimeType: 'application/octet-stream', buffer: other }]);
      await waitFor('two chunks to be there', () => Promise.resolve(held.length >= 3 || null), 20_000);
      await page.getByText(/^Sending · .*left/).waitFor();
      await page.getByRole('button', { name: 'Cancel the upload of other.bin' }).click();
      await page.getByText('Cancelled', { exact: true }).waitFor();
      await page.unroute('**/chunks/*', hold);
      for (const route of held) await route.abort().catch(() => undefined);
      let again = 0;
      page.on('request', (request) => {
        if (request.url().includes('/chunks/')) again += 1;
      });
      await page.getByRole('button', { name: 'Resume the upload of other.bin' }).click();
      await page.getByText('Uploaded').nth(5).waitFor();
      expect(again).toBeLessThanOrEqual(3);
      expect((await artifacts()).find(({ name }) => name === 'other.bin')?.id).toBe(hash(other));
    });

    test('details, removal and clean-up', async () => {
      await page.getByRole('button', { name: 'Actions for other.bin' }).click();
      await page.getByRole('menuitem', { name: 'Details' }).click();
      const dialog = page.getByRole('dialog', { name: 'other.bin' });
      await dialog.getByText('No job uses it.').waitFor();
      expect(await accessibilityProblems(page)).toEqual([]);
      await page.keyboard.press('Escape');
      await page.getByRole('button', { name: 'Actions for other.bin' }).click();
      await page.getByRole('menuitem', { name: 'Remove' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
      await page.getByText(/20 MiB of 1 artifact can go, the first in/).waitFor();
      expect((await artifacts()).find(({ name }) => name === 'other.bin')?.pinned).toBe(false);
      await page.getByRole('button', { name: 'Clean up' }).click();
      await page.getByRole('dialog', { name: 'Clean up?' }).getByRole('button', { name: 'Clean up' }).click();
      await page.getByText('There was nothing to clean up.').waitFor();
      await page.getByRole('textbox', { name: 'Name of the artifact' }).fill('nothing like it');
      await page.getByText('No artifact fits').waitFor();
      await page.getByRole('button', { name: 'Clear the filter' }).click();
    });
  });

  describe('a new job', () => {
    test('what is wrong is said beside its field; the command and the specification are shown', async () => {
      await dashboard.go('#/jobs/new', 'New job');
      await submit();
      await page.getByText('Is needed.').waitFor();
      expect(await page.evaluate(() => document.activeElement?.getAttribute('aria-invalid'))).toBe('true');
      // Its list of choices opened with it.
      await page.keyboard.press('Escape');
      await looksRight('job-form-kernel');
      for (const kind of ['Command', 'Map', 'Inference', 'Gang']) {
        await kindOf(kind).check();
        expect(await accessibilityProblems(page)).toEqual([]);
      }
      await kindOf('Command').check();
      const command = page.getByLabel('Program and arguments');
      await command.fill('sh run.sh {nothing}');
      await page.getByText(/There is no \{nothing\} here/).waitFor();
      await command.fill('sh tool/run.sh "a b"');
      await page.getByText(/There is no/).waitFor({ state: 'detached' });
      await page.getByRole('button', { name: 'Add an input' }).click();
      await page.getByRole('combobox', { name: 'Artifact 1' }).click();
      await page.getByRole('option', { name: /^tool/ }).click();
      expect(await page.getByLabel('Path 1 for the program').inputValue()).toBe('tool');
      await page.getByLabel('Runs').fill('2');
      await page.getByLabel('Name of the job').fill(hostile);
      const line = `covey run command --partitions 2 --input tool --name`;
      await page.getByLabel('the command').getByText(line).waitFor();
      await page.getByText('Specification', { exact: true }).click();
      await page.getByLabel('the specification').getByText('"partitions": 2').waitFor();
    });

    test('it is submitted, and its page follows it to its end', async () => {
      await submit();
      await section('Progress').waitFor();
      // The folder's script looks beside itself.
      expect((await ended(shownId())).status).toBe('failed');
      await page.getByText('It failed').waitFor();
      await page.getByRole('button', { name: 'Log of partition 0' }).click();
      await page
        .getByRole('dialog')
        .getByText(/lib\/words/)
        .waitFor();
      await page.keyboard.press('Escape');
      expect(await page.locator('img[src="x"]').count()).toBe(0);
    });

    test('another one like it, put right', async () => {
      await page.getByRole('button', { name: /^More actions/ }).click();
      await page.getByRole('menuitem', { name: 'New job like this' }).click();
      await heading('New job');
      expect(await page.getByLabel('Name of the job').inputValue()).toBe(hostile);
      await page.getByLabel('Name of the job').fill('words');
      await page.getByLabel('Program and arguments').fill(`sh -c 'cd tool && sh run.sh'`);
      await submit();
      await heading('words');
      await page.getByText('Done', { exact: true }).first().waitFor({ timeout: 60_000 });
      await page.getByRole('button', { name: 'Log of partition 1' }).click();
      await page.getByRole('dialog').getByText('hello from the folder').waitFor();
      await page.keyboard.press('Escape');
      const needed = (await artifacts()).find(({ name }) => name === 'tool')?.jobs ?? [];
      expect(needed).toContain(shownId());
    });

    test('sent twice, and again after an answer that was lost, it is one job', async () => {
      const keys: (string | undefined)[] = [];
      const lose = async (route: Route): Promise<void> => {
        if (route.request().method() !== 'POST') return route.fallback();
        const isFirst = keys.length === 0;
        keys.push(route.request().headers()['idempotency-key']);
        if (!isFirst) return route.continue();
        await route.fetch();
        await route.abort('connectionreset');
      };
      await newJob('Command', 'once');
      await page.getByLabel('Program and arguments').fill('true');
      await page.route('**/api/jobs', lose);
      await submit();
      await page.getByText('It may have arrived. Submit it again: it will not run twice.').waitFor();
      expect(dashboard.problems.splice(0)).toEqual(['Failed to load resource: net::ERR_CONNECTION_RESET']);
      await looksRight('job-form-no-answer');
      await page.getByRole('button', { name: 'Submit' }).dblclick();
      await heading('once');
      await page.unroute('**/api/jobs', lose);
      expect([...new Set(keys)]).toEqual([expect.stringMatching(/^[\w-]{36}$/)]);
      expect(keys.length).toBeGreaterThan(1);
      const { jobs } = await controller.client.call('jobs');
      expect(jobs.filter((one) => one.name === 'once').map((one) => one.id)).toEqual([shownId()]);
    });
  });

  describe('a job that runs', () => {
    test('shows its progress and machines; shares set by keyboard count at once', async () => {
      const { id } = await run({
        kind: 'command',
        name: 'slow steps',
        script: 'sleep 0.4',
        partitions: 400,
        requires: { memoryBytes: 0 },
      });
      await dashboard.go(`#/jobs/${id}`, 'slow steps');
      await page.getByText(/[1-9]\d* of 400 items/).waitFor();
      await section('Machines').getByRole('row', { name: /^anna/ }).waitFor();
      await section('Distribution').getByText('By hand', { exact: true }).click();
      const slider = page.getByRole('slider', { name: 'Boundary between anna and ben' });
      await slider.focus();
      await page.keyboard.press('Home');
      for (let press = 0; press < 2; press++) await page.keyboard.press('PageUp');
      expect(await slider.getAttribute('aria-valuetext')).toBe('anna 21 %, ben 79 %');
      expect(await page.getByLabel('Share of ben').inputValue()).toBe('79 %');
      await page.keyboard.press('ArrowLeft');
      await looksRight('job-running');
      await page.getByRole('button', { name: 'Use these shares' }).click();
      await page.getByText('What has not begun is shared out anew.').waitFor();
      const view = await job(id);
      expect(view.distribution).toBe('manual');
      expect(view.shares.map(({ targetPercent }) => targetPercent).sort()).toEqual([20, 80]);
      await page.getByText('Shares are set by hand.').waitFor();
    });

    test('is cancelled', async () => {
      await page.getByRole('button', { name: 'Cancel', exact: true }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel the job' }).click();
      await page.getByText('Cancelled', { exact: true }).first().waitFor();
      expect((await ended(shownId())).status).toBe('cancelled');
    });
  });

  test('failed partitions are shown with their output as text, and tried again', async () => {
    const script =
      'printf "\\033[31mred\\033[0m \\033]0;title\\007%s $COVEY_ATTEMPT\\n" "<b>bold</b>"; ' +
      'echo result $COVEY_INDEX > $COVEY_OUTPUT/r.txt; [ $COVEY_INDEX != 3 ] || exit 7';
    const { id } = await run({
      kind: 'command',
      name: 'one bad',
      script,
      partitions: 6,
      outputs: [{ path: 'r.txt' }],
      retry: { attempts: 2, backoffMs: 0 },
    });
    expect((await ended(id)).status).toBe('failed');
    await dashboard.go(`#/jobs/${id}`, 'one bad');
    await page.getByText('It is incomplete').waitFor();
    await page.getByRole('combobox', { name: 'Status of partitions' }).click();
    await page.getByRole('option', { name: 'Failed' }).click();
    const table = page.getByRole('table', { name: 'Partitions' });
    await table.getByText('Done', { exact: true }).first().waitFor({ state: 'detached' });
    await table.getByText('Failed', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Log of partition 3' }).click();
    const dialog = page.getByRole('dialog', { name: 'Partition 3' });
    await dialog.getByText('red <b>bold</b> 2').waitFor();
    await dialog.getByText(/^attempt 2 on .* exit code 7/).waitFor();
    await looksRight('job-log');
    await dialog.getByRole('combobox', { name: 'Attempt' }).click();
    await page.getByRole('option', { name: /^1 on/ }).click();
    await dialog.getByText('red <b>bold</b> 1').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    const one = section('Result').getByRole('button', { name: /^Download .*r\.txt/ });
    expect((await downloaded(one.first())).bytes.toString()).toBe('result 0\n');
    await looksRight('job-failed');
    await page.getByRole('button', { name: 'Retry 1 failed partition' }).click();
    await page.getByRole('button', { name: 'Retry 1 failed partition' }).waitFor({ state: 'detached' });
    expect((await ended(id)).status).toBe('failed');
    await page.getByRole('button', { name: 'Retry 1 failed partition' }).waitFor();
  });

  test('a program over records: the file that comes out is downloaded, the job removed', async () => {
    await newJob('Map', 'a to b');
    await page.getByRole('combobox', { name: 'File with the records' }).click();
    await page.getByRole('option', { name: /^rows\.jsonl/ }).click();
    await page.getByLabel('Program and arguments').fill('tr a b');
    await page.getByLabel('Partitions', { exact: true }).fill('2');
    await looksRight('job-form-map');
    await submit();
    await heading('a to b');
    expect(await ended(shownId())).toMatchObject({ status: 'done' });
    const { bytes } = await downloaded(section('Result').getByRole('button', { name: /^Download/ }));
    expect(bytes.toString()).toBe('{"b":1}\n{"b":2}\n{"b":3}\n');
    await looksRight('job-done');
    await page.getByRole('button', { name: /^More actions/ }).click();
    await page.getByRole('menuitem', { name: 'Remove' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await heading('Jobs');
    await page.getByRole('link', { name: 'one bad' }).waitFor();
    expect(await page.getByRole('link', { name: 'a to b' }).count()).toBe(0);
  });

  test('all results come as one archive, under the names that the job gave them', async () => {
    const script =
      'echo picture $COVEY_INDEX > $COVEY_OUTPUT/frame.png; mkdir -p $COVEY_OUTPUT/notes/deep; ' +
      'echo a note > $COVEY_OUTPUT/notes/deep/one.txt; echo more > $COVEY_OUTPUT/notes/two';
    const { id } = await run({
      kind: 'command',
      name: 'film: part 1/2',
      script,
      partitions: 3,
      outputs: [{ path: 'frame.png' }, { path: 'notes' }],
    });
    expect(await ended(id)).toMatchObject({ status: 'done', result: { missing: 0 } });
    await dashboard.go(`#/jobs/${id}`, 'film: part 1/2');
    const { name, bytes } = await downloaded(page.getByRole('button', { name: /^Download all/ }));
    expect(name).toBe('film_ part 1_2.tar');
    const held: Record<string, string> = {};
    const extract = tar.extract();
    Readable.from(bytes).pipe(extract);
    for await (const entry of extract) held[entry.header.name] = await text(entry);
    const of = (index: number): [string, string][] => [
      [`${index}/frame.png`, `picture ${index}\n`],
      [`${index}/notes`, ''],
      [`${index}/notes/deep`, ''],
      [`${index}/notes/deep/one.txt`, 'a note\n'],
      [`${index}/notes/two`, 'more\n'],
    ];
    expect(held).toEqual(Object.fromEntries([0, 1, 2].flatMap(of)));
    await looksRight('job-results');
  });

  test('what became of a job is a step away', async () => {
    await page.getByRole('button', { name: /^More actions/ }).click();
    await page.getByRole('menuitem', { name: 'Events' }).click();
    await heading('Events and logs');
    const list = page.getByRole('list').filter({ hasText: 'is done.' });
    await list.getByText('film: part 1/2 was submitted.').waitFor();
    expect(await page.getByRole('combobox', { name: 'Job' }).inputValue()).toBe('film: part 1/2');
    const messages = await list.getByRole('listitem').allInnerTexts();
    expect(messages.filter((message) => !message.includes('film: part 1/2'))).toEqual([]);
    await looksRight('events-job');
    await page.getByRole('button', { name: 'Clear', exact: true }).click();
    await list.getByText(/^a to b was removed\./).waitFor();
    expect(await page.getByRole('combobox', { name: 'Job' }).count()).toBe(0);
  });

  test('10,000 partitions: only those in sight exist and are asked for', async () => {
    const { id } = await run({
      kind: 'command',
      name: 'a great many',
      command: ['true'],
      partitions: 10_000,
      requires: { os: 'win32' },
    });
    const asked: string[] = [];
    page.on('request', (request) => {
      if (request.url().includes(`${id}/partitions`)) asked.push(new URL(request.url()).search);
    });
    await dashboard.go(`#/jobs/${id}`, 'a great many');
    await page.getByText(/^It waits, no machine can take it now/).waitFor();
    const table = page.getByRole('group', { name: 'Partitions' });
    await table.getByText('Waiting', { exact: true }).first().waitFor();
    const longest = await table.evaluate(
      (element) =>
        new Promise<number>((resolve) => {
          let longestMs = 0;
          let before = performance.now();
          let left = 60;
          const step = (): void => {
            const now = performance.now();
            longestMs = Math.max(longestMs, now - before);
            before = now;
            element.scrollTop += element.scrollHeight / 60;
            if (--left > 0) requestAnimationFrame(step);
            else resolve(longestMs);
          };
          requestAnimationFrame(step);
        }),
    );
    console.info(`the longest frame of scrolling 10,000 partitions took ${Math.round(longest)} ms`);
    await table.getByText('9,999', { exact: true }).waitFor();
    await page.getByRole('row', { name: /^9,999 .*Waiting/ }).waitFor();
    expect(await table.getByRole('row').count()).toBeLessThan(80);
    expect(new Set(asked).size).toBeLessThan(51);
    await looksRight('job-waiting');
    await controller.client.call('cancelJob', { params: { job: id } });
    await page.getByText('Cancelled', { exact: true }).first().waitFor();
  });

  test('the list is filtered by name, status and kind', async () => {
    await dashboard.go('#/jobs', 'Jobs');
    const table = page.getByRole('table', { name: 'Jobs' });
    await table.getByRole('link', { name: 'slow steps' }).waitFor();
    await looksRight('jobs');
    await page.getByRole('textbox', { name: 'Name of the job' }).fill('ONE');
    await table.getByRole('link', { name: 'slow steps' }).waitFor({ state: 'detached' });
    await table.getByRole('link', { name: 'one bad' }).waitFor();
    await page.getByRole('combobox', { name: 'Status' }).click();
    await page.getByRole('option', { name: 'Done' }).click();
    await page.getByText('No job fits the filter').waitFor();
    await page.getByRole('button', { name: 'Clear the filter' }).click();
    await page.getByRole('combobox', { name: 'Kind' }).click();
    await page.getByRole('option', { name: 'Command' }).click();
    await table.getByRole('link', { name: 'words' }).focus();
    await page.keyboard.press('Enter');
    await heading('words');
    expect(await page.locator('img[src="x"]').count()).toBe(0);
    expect(dashboard.problems).toEqual([]);
  });
});
