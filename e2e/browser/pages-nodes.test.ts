import type { BrowserContext, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RunningController, RunningNode } from '../support/cluster.ts';
import { predictableModel } from '../support/models.ts';
import { startJoin, untilJoin } from '../support/pairing.ts';
import { loadReady, startSplitCluster } from '../support/split-cluster.ts';
import { eventSubjects } from '../../src-renderer/features/events/event-kinds.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';
import { noBrowser, openBrowser } from './browser.ts';
import { accessibilityProblems, openDashboard, takePictures, type Dashboard } from './dashboard.ts';

/** Each test goes on from where the one before it ended. */
describe.skipIf(noBrowser !== null)(
  `machines and events${noBrowser === null ? '' : ` (${noBrowser})`}`,
  () => {
    const cluster = useCluster('file');
    let controller: RunningController;
    let carl: RunningNode;
    let browser: { context: BrowserContext; close: () => Promise<void> };
    let dashboard: Dashboard;
    let page: Page;
    beforeAll(async () => {
      ({ controller } = await startSplitCluster(cluster.current));
      await loadReady(controller, await predictableModel(), { name: 'tiny' });
      browser = await openBrowser();
      dashboard = await openDashboard(controller, browser.context);
      page = dashboard.page;
    });
    afterAll(async () => {
      await browser?.close();
    });

    const card = (name: string): Locator => page.getByRole('article', { name, exact: true });
    async function act(machine: string, action: RegExp): Promise<void> {
      await page.getByRole('button', { name: `Actions for ${machine}` }).click();
      await page.getByRole('menuitem', { name: action }).click();
    }
    const statusOf = async (name: string): Promise<string | undefined> =>
      (await controller.client.call('nodes')).nodes.find((node) => node.name === name)?.status;

    test('machines show with what they are and do', async () => {
      await dashboard.go('#/machines', 'Machines');
      for (const name of ['anna', 'ben']) {
        await card(name).getByText('Busy', { exact: true }).waitFor();
        await card(name)
          .getByText(/runs 1 model/)
          .waitFor();
        await card(name)
          .getByRole('meter', { name: `Memory of ${name}` })
          .waitFor();
      }
      await page.getByRole('button', { name: 'Measure now' }).click();
      await page
        .getByRole('row', { name: /^anna/ })
        .getByText(/MiB\/s|GiB\/s/)
        .waitFor({ timeout: 60_000 });
      expect(await takePictures(page, 'machines')).toEqual({});
      expect(await accessibilityProblems(page)).toEqual([]);
      await page.getByText('Table', { exact: true }).click();
      await page.getByRole('row', { name: /ben/ }).first().waitFor();
      expect(await takePictures(page, 'machines-table')).toEqual({});
      expect(await accessibilityProblems(page)).toEqual([]);
      await page.getByText('Cards', { exact: true }).click();
    });

    test('one machine alone has its charts, engines and hardware', async () => {
      await page.getByRole('link', { name: 'anna' }).first().click();
      await page.getByRole('heading', { level: 1, name: 'anna' }).waitFor();
      await page.getByRole('img', { name: /^CPU of anna. Now: CPU: \d/ }).waitFor();
      await page.getByRole('img', { name: /^Memory of anna. Now: used: \d/ }).waitFor();
      await page.getByText('leads', { exact: true }).waitFor();
      expect(await takePictures(page, 'machine')).toEqual({});
      expect(await accessibilityProblems(page)).toEqual([]);
      await page.getByRole('link', { name: 'All machines' }).click();
    });

    test('a machine is added: a join string as text, commands and a code', async () => {
      await dashboard.go('#/machines', 'Machines');
      await page.getByRole('button', { name: 'Add a machine' }).click();
      const dialog = page.getByRole('dialog', { name: 'Add a machine' });
      const joinString = await dialog
        .getByRole('textbox', { name: 'join string', exact: true })
        .textContent();
      expect(joinString).toMatch(/^covey1\./);
      await dialog.getByRole('tab', { name: 'Windows' }).click();
      await dialog.getByText(`"${joinString}" | covey worker --join -`).waitFor();
      await dialog.getByRole('tab', { name: 'QR code' }).click();
      await dialog.getByRole('img', { name: /^QR code/ }).waitFor();
      expect(await takePictures(page, 'add-machine')).toEqual({});
      expect(await accessibilityProblems(page)).toEqual([]);
      const dora = await cluster.current.startWorker({ name: 'dora', join: joinString ?? '' });
      await dialog.getByRole('tab', { name: 'By comparing digits' }).click();
      await dialog.getByText('Type the digits here').waitFor();
      await page.keyboard.press('Escape');
      await card('dora').getByText('Ready', { exact: true }).waitFor();
      await dora.stop();
      await card('dora').getByText('Offline', { exact: true }).waitFor({ timeout: 5_000 });
      await act('dora', /^Remove/);
      await page
        .getByRole('dialog', { name: 'Remove dora?' })
        .getByRole('button', { name: 'Remove' })
        .click();
      await card('dora').waitFor({ state: 'detached' });
    });

    test('a machine that asks is let in by its digits and by no others', async () => {
      carl = await cluster.current.startWorker({ name: 'carl', api: '127.0.0.1:0' });
      await startJoin(carl, { controller: controller.report.clusterAddress ?? '' });
      const { code } = await untilJoin(carl, 'comparing');
      const digits = code ?? '';
      await page.getByText('A machine asks to join').waitFor();
      expect(await page.textContent('body')).not.toContain(digits);
      const field = page.getByLabel('Digits that carl shows');
      await field.fill(String((Number(digits) + 1) % 1_000_000).padStart(6, '0'));
      await page.getByRole('button', { name: 'Approve' }).click();
      await page.getByText(/No waiting machine shows that number/).waitFor();
      expect(await takePictures(page, 'machines-pending')).toEqual({});
      expect(await accessibilityProblems(page)).toEqual([]);
      await field.fill(`${digits.slice(0, 3)} ${digits.slice(3)}`);
      await page.getByRole('button', { name: 'Approve' }).click();
      await page.getByText(/confirms the digits at that machine/).waitFor();
      await carl.client.call('confirmJoin');
      await card('carl').getByText('Ready', { exact: true }).waitFor();
      await page.getByText('A machine asks to join').waitFor({ state: 'detached' });
    });

    test('a machine that nobody knows is denied and blocked, and unblocked again', async () => {
      const eve = await cluster.current.startWorker({ name: 'eve', api: '127.0.0.1:0' });
      await startJoin(eve, { controller: controller.report.clusterAddress ?? '' });
      await page.getByRole('button', { name: 'Deny and block eve' }).click();
      const question = page.getByRole('dialog', { name: 'Deny eve and block it?' });
      await question.getByRole('button', { name: 'Deny and block' }).click();
      await untilJoin(eve, 'failed');
      await page.getByRole('button', { name: 'Unblock eve' }).click();
      await page.getByRole('button', { name: 'Unblock eve' }).waitFor({ state: 'detached' });
      expect((await controller.client.call('pending')).blocked).toEqual([]);
      await eve.stop();
    });

    test('a machine is paused, renamed, drained and resumed', async () => {
      await act('carl', /^Pause/);
      await card('carl').getByText('Paused', { exact: true }).waitFor();
      await page
        .getByRole('alert')
        .filter({ hasText: 'carl takes no new work' })
        .getByRole('button', { name: 'Undo' })
        .click();
      await card('carl').getByText('Ready', { exact: true }).waitFor();

      await act('carl', /^Rename/);
      const rename = page.getByRole('dialog', { name: 'Rename carl' });
      await rename.getByLabel('Name').fill('anna');
      await rename.getByRole('button', { name: 'Rename' }).click();
      await rename.getByText(/anna/).last().waitFor();
      await rename.getByLabel('Name').fill('küche');
      await rename.getByRole('button', { name: 'Rename' }).click();
      await card('küche').waitFor();

      await act('ben', /^Drain/);
      const question = page.getByRole('dialog', { name: 'Drain ben?' });
      await question.getByRole('button', { name: 'Drain' }).click();
      await card('ben')
        .getByText(/^Drain(ing|ed)$/)
        .waitFor();
      await waitFor(
        'the model to leave ben',
        async () =>
          !(await controller.client.call('deployments')).deployments[0]?.stages.some(
            (stage) => stage.nodeName === 'ben',
          ),
        30_000,
      );
      expect(await statusOf('ben')).toBe('draining');
      await page.getByRole('button', { name: 'Resume ben' }).click();
      await card('ben')
        .getByText(/^(Ready|Busy)$/)
        .waitFor();
      expect(dashboard.problems.filter((line) => !/40[039]|422/.test(line))).toEqual([]);
    });

    test('events are filtered by machine, kind, level and text, and follow', async () => {
      await dashboard.go('#/events', 'Events and logs');
      const list = page.getByRole('region', { name: 'List of events' });
      await list.getByText(/^ben is draining\./).waitFor();
      expect(await takePictures(page, 'events')).toEqual({});
      expect(await accessibilityProblems(page)).toEqual([]);

      await page.getByRole('textbox', { name: 'Text in the message' }).fill('DRAINING');
      await list.getByText('tiny is ready.').first().waitFor({ state: 'detached' });
      await list.getByText(/^ben is draining\./).waitFor();
      await page.getByRole('button', { name: 'Clear', exact: true }).click();
      await page.getByRole('combobox', { name: 'Machine' }).click();
      await page.getByRole('option', { name: 'küche' }).click();
      await list.getByText(/^ben is draining\./).waitFor({ state: 'detached' });
      await list
        .getByText(/^carl takes work again\./)
        .first()
        .waitFor();
      // What happens now and fits comes by itself; what does not fit stays away.
      await controller.client.call('pause', { params: { node: 'küche' } });
      await list
        .getByText(/^küche is paused/)
        .first()
        .waitFor({ timeout: 5_000 });
      await controller.client.call('pause', { params: { node: 'ben' } });
      await controller.client.call('resume', { params: { node: 'küche' } });
      await list
        .getByText(/^küche takes work again\./)
        .first()
        .waitFor();
      expect(await list.getByText(/^ben is paused/).count()).toBe(0);

      await page.getByRole('button', { name: 'Clear', exact: true }).click();
      await page.getByRole('combobox', { name: 'Kind' }).click();
      await page.getByRole('option', { name: 'Drain began', exact: true }).click();
      await list.getByText('tiny is ready.').first().waitFor({ state: 'detached' });
      await list
        .getByText(/^ben is draining/)
        .first()
        .waitFor();
      await page.getByRole('combobox', { name: 'Kind' }).click();
      await page.getByRole('option', { name: 'Models', exact: true }).click();
      await list.getByText('tiny is ready.').first().waitFor();
      expect(await list.getByText(/^ben is draining/).count()).toBe(0);
      // Every kind that has happened here can be chosen.
      const { events } = await controller.client.call('eventHistory', { query: { limit: '1000' } });
      const known = eventSubjects.flatMap(({ kinds }) => kinds.map(({ kind }) => kind));
      expect(events.map(({ kind }) => kind).filter((kind) => !known.includes(kind))).toEqual([]);

      await page.getByRole('combobox', { name: 'Level' }).click();
      await page.getByRole('option', { name: 'Errors only' }).click();
      await page.getByText('No event fits the filter').waitFor();
      await page.getByRole('button', { name: 'Clear the filter' }).click();
      await list
        .getByText(/^ben is paused/)
        .first()
        .waitFor();
    });

    test('events and logs are downloaded', async () => {
      const events = page.waitForEvent('download');
      await page.getByRole('button', { name: 'Download' }).click();
      expect((await events).suggestedFilename()).toBe('covey-events.jsonl');
      await page.getByText('Logs', { exact: true }).click();
      const lines = page.getByRole('region', { name: 'Log lines' });
      await lines.waitFor();
      // They come by themselves while they are followed, and by the stream: nothing is asked for again.
      const asked: string[] = [];
      page.on('request', (request) => asked.push(new URL(request.url()).pathname));
      await cluster.current.startWorker({ name: 'fritz', join: await controller.invite() });
      await lines
        .getByText(/fritz worker/)
        .first()
        .waitFor({ timeout: 10_000 });
      expect(asked.filter((path) => path === '/api/logs')).toEqual([]);
      await page.getByRole('switch', { name: 'Follow' }).click({ force: true });
      await cluster.current.startWorker({ name: 'greta', join: await controller.invite() });
      await waitFor(
        'a line of the new machine',
        async () =>
          (await controller.client.call('logs', { query: { limit: '5000' } })).lines.some(
            ({ nodeName }) => nodeName === 'greta',
          ),
        10_000,
      );
      expect(await lines.getByText(/greta worker/).count()).toBe(0);
      await page.getByRole('switch', { name: 'Follow' }).click({ force: true });
      await lines
        .getByText(/greta worker/)
        .first()
        .waitFor({ timeout: 10_000 });
      expect(await takePictures(page, 'logs')).toEqual({});
      expect(await accessibilityProblems(page)).toEqual([]);
      const logs = page.waitForEvent('download');
      await page.getByRole('button', { name: 'Download' }).click();
      expect((await logs).suggestedFilename()).toBe('covey.log');
    });
  },
);
