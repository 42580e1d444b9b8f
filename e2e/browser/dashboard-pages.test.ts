import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunningController } from '../support/cluster.ts';
import { heavyModel } from '../support/models.ts';
import { loadReady, startSplitCluster } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';
import { noBrowser, openBrowser } from './browser.ts';
import { accessibilityProblems, openDashboard, takePictures, type Dashboard } from './dashboard.ts';

const run = promisify(execFile);

/** Overview, API and settings; each test goes on from where the one before it ended. */
describe.skipIf(noBrowser !== null)(`pages${noBrowser === null ? '' : ` (${noBrowser})`}`, () => {
  const cluster = useCluster('file');
  let controller: RunningController;
  let browser: { context: BrowserContext; close: () => Promise<void> };
  let dashboard: Dashboard;
  let page: Page;
  beforeAll(async () => {
    ({ controller } = await startSplitCluster(cluster.current, { controller: { name: 'study' } }));
    browser = await openBrowser();
    dashboard = await openDashboard(controller, browser.context);
    page = dashboard.page;
  });
  afterAll(() => browser?.close());

  async function looksRight(name: string): Promise<void> {
    expect(await takePictures(page, name)).toEqual({});
    expect(await accessibilityProblems(page)).toEqual([]);
    expect(dashboard.problems).toEqual([]);
  }

  const setting = async () => (await controller.client.call('settings')).settings;

  describe('overview', () => {
    it('says what to do where nothing runs', async () => {
      await dashboard.go('#/overview', 'Overview');
      await page.getByText('All is well').waitFor();
      await page.getByText('Nothing is loaded').waitFor();
      await page.getByRole('link', { name: 'Load a model' }).waitFor();
      await looksRight('overview-empty');
    });

    it('shows a machine that waits for approval, with the way to it', async () => {
      const guest = await cluster.current.startWorker({ name: 'guest', api: '127.0.0.1:0' });
      const address = controller.report.clusterAddress ?? '';
      await guest.client.call('join', { body: { controller: address } });
      await page.getByText('guest asks to join').waitFor();
      await page.getByLabel('1 waiting for approval').waitFor();
      await page.getByRole('link', { name: /^Review: guest/ }).waitFor();
      const { pending } = await controller.client.call('pending');
      await controller.client.call('deny', { params: { id: pending[0]?.id ?? '' }, body: {} });
      await page.getByText('guest asks to join').waitFor({ state: 'detached' });
      await guest.stop();
    });

    it('shows how fast a model answers, and on which machines', async () => {
      await loadReady(controller, await heavyModel(), { split: { anna: 70, ben: 30 }, name: 'stories' });
      const models = page.getByRole('region', { name: 'Models that run' });
      await models.getByText('Ready').waitFor();
      expect(await models.textContent()).toMatch(/anna 6\d %.*ben 3\d %/);
      const stop = new AbortController();
      const answers = generate(controller.api, stop.signal);
      await waitFor(
        'tokens/s on the page',
        async () => {
          const text = (await page.getByRole('group', { name: 'Generating' }).textContent()) ?? '';
          return Number(/([\d.]+) tokens/.exec(text)?.[1] ?? 0) > 1;
        },
        30_000,
      );
      await models.getByText(/1 of \d+ slots/).waitFor();
      await page.getByRole('img', { name: /^Tokens per second of all models/ }).waitFor();
      await looksRight('overview');
      stop.abort();
      await answers;
    });

    it('offers what to do about a drained machine, and does it', async () => {
      const drain = { params: { node: 'ben' }, body: {} };
      const { deployments } = await controller.client.call('deployments');
      await controller.client.call('unload', { params: { id: deployments[0]?.id ?? '' } });
      await controller.client.call('drain', drain);
      await page.getByRole('button', { name: 'Resume: ben is drained' }).click();
      await page.getByText('ben takes work again').first().waitFor();
      await page.getByText('ben is drained', { exact: true }).waitFor({ state: 'detached' });
    });
  });

  describe('API', () => {
    it('gives a snippet that works when it is pasted', async () => {
      await loadReady(controller, await heavyModel(), {
        split: { anna: 70, ben: 30 },
        name: "it's a model",
        contextPerRequest: 256,
      });
      await dashboard.go('#/api', 'API');
      await page.getByRole('textbox', { name: 'the base URL' }).getByText(`${controller.api}/v1`).waitFor();
      const snippet = page.getByLabel('snippet for curl', { exact: true });
      await snippet.getByText("it'\\''s a model").waitFor();
      const command = (await snippet.textContent()) ?? '';
      const { stdout } = await run('sh', ['-c', `${command} --silent --max-time 60`], { timeout: 70_000 });
      expect(JSON.parse(stdout)).toMatchObject({ choices: [{ message: { role: 'assistant' } }] });
      for (const name of ['Python', 'Node.js', 'Open WebUI', 'Continue', 'aider']) {
        await page.getByRole('tab', { name }).click();
        await page.getByLabel(`snippet for ${name}`, { exact: true }).getByText(controller.api).waitFor();
      }
      await looksRight('api');
    });
  });

  describe('settings', () => {
    it('turns a switch at once and takes it back', async () => {
      await dashboard.go('#/settings', 'Settings');
      const label = 'Want a key on this machine too';
      await page.getByLabel(label).click({ force: true });
      await page.getByText(`“${label}” was saved`).waitFor();
      expect((await setting()).api.requireKey).toBe(true);
      await page.getByRole('button', { name: 'Undo' }).click();
      await waitFor('it to be taken back', async () => !(await setting()).api.requireKey, 10_000);
      await expect.poll(() => page.getByLabel(label).isChecked()).toBe(false);
    });

    it('checks what is typed while it is typed, and saves what is right', async () => {
      const threads = page.getByRole('textbox', { name: 'CPU threads' });
      await threads.fill('0');
      await page.getByText('At least 1 thread.').waitFor();
      expect(await page.getByRole('button', { name: 'Save', exact: true }).isDisabled()).toBe(true);
      await threads.fill('2');
      await page.getByRole('textbox', { name: 'Memory', exact: true }).fill('1.5');
      await page.keyboard.press('Enter');
      await page.getByText('How much it lends was saved').waitFor();
      expect((await setting()).lend.limits).toMatchObject({ cpuThreads: 2, ramBytes: 1.5 * 2 ** 30 });
      await page.getByRole('button', { name: 'Undo' }).last().click();
      await waitFor(
        'it to be taken back',
        async () => (await setting()).lend.limits.cpuThreads === null,
        10_000,
      );

      const file = page.getByRole('textbox', { name: 'Certificate of your own' });
      await file.fill('/certificate.pem');
      await page.getByText('Must be set together with lan.certificateFile').waitFor();
      await page.getByRole('button', { name: 'Discard' }).click();
      expect(await file.inputValue()).toBe('');
    });

    it('sets hours', async () => {
      await page.getByRole('button', { name: 'Add hours' }).click();
      const hours = page.getByRole('group', { name: 'Hours 1' });
      await hours.getByText('Saturday').click({ force: true });
      await hours.getByLabel('From').fill('22:15');
      await page
        .getByRole('region', { name: 'Lend this machine' })
        .getByRole('button', { name: 'Save' })
        .click();
      await waitFor('the hours to be saved', async () => (await setting()).lend.schedule !== null, 10_000);
      expect((await setting()).lend.schedule).toEqual([
        { days: [0, 1, 2, 3, 4, 5], from: '22:15', to: '08:00' },
      ]);
    });

    it('refuses to open the network without a key, makes one, shows it once, and takes it back', async () => {
      const open = page.getByLabel('Open it to the network');
      await open.click({ force: true });
      await page.getByText('“Open it to the network” was not saved').waitFor();
      await page.getByRole('textbox', { name: 'Name', exact: true }).fill('phone');
      await page.getByRole('button', { name: 'Create key' }).click();
      const dialog = page.getByRole('dialog', { name: /The key/ });
      const key = (await dialog.getByRole('textbox', { name: 'the key' }).textContent()) ?? '';
      expect(key).toMatch(/^covey_key_/);
      await dialog.getByRole('button', { name: 'Done' }).click();
      await page.getByRole('row', { name: /phone/ }).waitFor();
      expect(await page.content()).not.toContain(key);
      await looksRight('settings');

      await page.getByRole('button', { name: 'Revoke phone' }).click();
      await page
        .getByRole('dialog', { name: /^Revoke/ })
        .getByRole('button', { name: 'Revoke' })
        .click();
      await page.getByText('No keys yet').waitFor();
      expect((await controller.client.call('keys')).keys).toEqual([]);
    });

    it('shows the cluster secret to who asks for it, and makes one', async () => {
      const section = page.getByRole('region', { name: 'Cluster secret' });
      await section.getByRole('button', { name: 'Show' }).click();
      await section.getByRole('button', { name: 'Make a secret' }).click();
      const shown = (await section.getByRole('textbox').textContent()) ?? '';
      expect((await controller.client.call('clusterSecret')).secret).toBe(shown);
      await section.getByRole('button', { name: 'Drop it' }).click();
      await page
        .getByRole('dialog', { name: 'Drop the cluster secret?' })
        .getByRole('button', { name: 'Drop' })
        .click();
      await section.getByText('There is none').waitFor();
    });
  });
});

/** Asks the model again and again until the signal. */
async function generate(api: string, signal: AbortSignal): Promise<void> {
  const body = JSON.stringify({
    model: 'stories',
    prompt: 'Once upon a time',
    max_tokens: 400,
    stream: true,
  });
  const headers = { 'content-type': 'application/json' };
  while (!signal.aborted) {
    await fetch(`${api}/v1/completions`, { method: 'POST', headers, body, signal })
      .then((answer) => answer.text())
      .catch(() => undefined);
  }
}
