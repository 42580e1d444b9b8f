import type { BrowserContext, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { heavyModel, predictableModel } from '../support/models.ts';
import { startSplitCluster, untilStatus, type SplitCluster } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';
import { noBrowser, openBrowser } from './browser.ts';
import {
  accessibilityProblems,
  dragBoundary,
  openDashboard,
  takePictures,
  type Dashboard,
} from './dashboard.ts';

/** The newcomer's path, without a terminal; each test goes on from where the one before it ended. */
describe.skipIf(noBrowser !== null)(
  `models and playground${noBrowser === null ? '' : ` (${noBrowser})`}`,
  () => {
    const cluster = useCluster('file');
    let split: SplitCluster;
    let browser: { context: BrowserContext; close: () => Promise<void> };
    let dashboard: Dashboard;
    let page: Page;
    beforeAll(async () => {
      split = await startSplitCluster(cluster.current);
      browser = await openBrowser();
      dashboard = await openDashboard(split.controller, browser.context);
      page = dashboard.page;
    });
    afterAll(async () => {
      await browser?.close();
    });

    const card = (model: string): Locator => page.getByRole('article', { name: model });
    const dialog = (): Locator => page.getByRole('dialog', { name: /^Load / });
    const boundary = (): Locator => dialog().getByRole('slider');
    const field = (machine: string): Locator => dialog().getByLabel(`Layers on ${machine}`);

    async function importFile(path: string, name: string): Promise<void> {
      await page.getByRole('button', { name: 'Import a file' }).click();
      const form = page.getByRole('dialog', { name: 'Import a file' });
      await form.getByRole('combobox', { name: 'Machine that has the file' }).click();
      await page.getByRole('option', { name: 'anna' }).click();
      await form.getByLabel('Path of the file there').fill(path);
      await form.getByLabel('Name').fill(name);
      await form.getByRole('button', { name: 'Import' }).click();
      await form.waitFor({ state: 'detached' });
      await page.getByRole('button', { name: `Load ${name}` }).waitFor();
    }

    async function deployment(model: string) {
      const { deployments } = await split.controller.client.call('deployments');
      return deployments.find((one) => one.model === model) ?? null;
    }

    /** Layers by machine, as the controller has them. */
    async function layers(model: string): Promise<Record<string, number>> {
      const view = await deployment(model);
      return Object.fromEntries((view?.stages ?? []).map((stage) => [stage.nodeName, stage.layers]));
    }

    test('pages without anything say what to do, and fit any window', async () => {
      await dashboard.go('#/models', 'Models');
      await page.getByText('No model is loaded').waitFor();
      await page.getByText('No machine has a model yet').waitFor();
      expect(await takePictures(page, 'models-empty')).toEqual({});
      expect(await accessibilityProblems(page)).toEqual([]);
      await dashboard.go('#/playground', 'Playground');
      await page.getByText('Load one under Models').waitFor();
      expect(await takePictures(page, 'playground-empty')).toEqual({});
      expect(await accessibilityProblems(page)).toEqual([]);
    });

    test('a file of a machine is imported; what is wrong with a path is said at once', async () => {
      await dashboard.go('#/models', 'Models');
      await importFile(await predictableModel(), 'tiny');
      const row = page.getByRole('row', { name: /tiny/ });
      expect(await row.textContent()).toContain('anna');

      await page.getByRole('button', { name: 'Import a file' }).click();
      const form = page.getByRole('dialog', { name: 'Import a file' });
      await form.getByLabel('Path of the file there').fill('/nowhere/model.gguf');
      await form.getByRole('button', { name: 'Import' }).click();
      await page.getByText(/Failed/).waitFor();
      await page.getByRole('button', { name: 'Put /nowhere/model.gguf away' }).click();
      await page.getByText(/Failed/).waitFor({ state: 'detached' });

      await page.getByRole('button', { name: 'Download', exact: true }).click();
      const pull = page.getByRole('dialog', { name: 'Download a model' });
      expect(await accessibilityProblems(page)).toEqual([]);
      await pull.getByLabel('Model').fill('hf:only-an-owner');
      await pull.getByRole('button', { name: 'Download' }).click();
      await page.getByText(/names no repository/).waitFor();
      await page.keyboard.press('Escape');
    });

    test('a model is split by dragging and loaded', async () => {
      await dashboard.go('#/models', 'Models');
      await page.getByRole('button', { name: 'Load tiny' }).click();
      await dialog().getByText('All 9 layers on anna').waitFor();
      await dialog().getByRole('checkbox', { name: 'ben' }).check();
      await boundary().waitFor();
      expect(await accessibilityProblems(page)).toEqual([]);

      await dragBoundary(dialog(), boundary(), [0.5, 0.68]);
      expect(await boundary().getAttribute('aria-valuetext')).toBe('anna 6 layers, ben 3 layers');
      expect(await field('ben').inputValue()).toMatch(/^3 of 9/);
      await dialog().getByText('It fits.').waitFor();
      expect(await takePictures(page, 'load-dialog')).toEqual({});
      await dialog().getByRole('button', { name: 'Load', exact: true }).click();

      await card('tiny').getByText('Ready', { exact: true }).waitFor({ timeout: 60_000 });
      expect(await layers('tiny')).toEqual({ anna: 6, ben: 3 });
      await card('tiny').getByText('6 of 9 layers · 67 %').waitFor();
      expect(await takePictures(page, 'models')).toEqual({});
      expect(await accessibilityProblems(page)).toEqual([]);
    });

    test('it answers in the playground, and who served it is said', async () => {
      await dashboard.go('#/playground', 'Playground');
      await page.getByText('Served by anna + ben').waitFor();
      await page.getByText('Chat', { exact: true }).click();
      await page.getByLabel('Message').fill('Hello <b>you</b>');
      await page.keyboard.press('Enter');
      const answer = page.getByRole('article', { name: 'Answer' });
      await answer
        .getByTestId('facts')
        .getByText(/by anna \+ ben/)
        .waitFor();
      await page.getByRole('button', { name: 'Send' }).waitFor();
      expect(await answer.getByTestId('facts').textContent()).toMatch(/^\d+ tokens? · /);
      expect(await page.getByRole('article', { name: 'You' }).textContent()).toBe('Hello <b>you</b>');
      expect(await takePictures(page, 'playground')).toEqual({});
      expect(await accessibilityProblems(page)).toEqual([]);
    });

    test('what does not fit is refused with its reasons, before anything is loaded', async () => {
      await dashboard.go('#/models', 'Models');
      await importFile(await heavyModel(), 'heavy');
      await page.getByRole('button', { name: 'Load heavy' }).click();
      await dialog().getByText('It fits.').waitFor();
      await dialog()
        .getByRole('button', { name: /^Options/ })
        .click();
      await dialog().getByLabel('Context for each request').fill('5000');
      await dialog()
        .getByText(/was trained for 4096 tokens/)
        .waitFor();
      expect(await dialog().getByRole('button', { name: 'Load', exact: true }).isDisabled()).toBe(true);
      expect(await takePictures(page, 'load-dialog-refused')).toEqual({});
      expect(await accessibilityProblems(page)).toEqual([]);
      await dialog().getByLabel('Context for each request').fill('512');
      await dialog().getByText('It fits.').waitFor();
      await page.keyboard.press('Escape');
      await dialog().waitFor({ state: 'detached' });
      expect(await deployment('heavy')).toBeNull();
    });

    test('the keyboard alone splits and loads a model', async () => {
      await page.getByRole('button', { name: 'Load heavy' }).focus();
      await page.keyboard.press('Enter');
      await dialog().getByText('It fits.').waitFor();
      const tabTo = async (target: Locator): Promise<void> => {
        for (let count = 0; count < 40; count++) {
          if (await target.evaluate((element) => element === document.activeElement)) return;
          await page.keyboard.press('Tab');
        }
        throw new Error('the keyboard does not get there');
      };
      await tabTo(dialog().getByRole('checkbox', { name: 'ben' }));
      await page.keyboard.press('Space');
      await boundary().waitFor();
      await tabTo(boundary());
      await page.keyboard.press('End');
      expect(await field('ben').inputValue()).toMatch(/^1 of 13/);
      for (let count = 0; count < 3; count++) await page.keyboard.press('ArrowLeft');
      expect(await boundary().getAttribute('aria-valuetext')).toBe('anna 9 layers, ben 4 layers');
      await dialog().getByText('It fits.').waitFor();
      await tabTo(dialog().getByRole('button', { name: 'Load', exact: true }));
      await page.keyboard.press('Enter');
      await dialog().waitFor({ state: 'detached' });
      await card('heavy').getByText('Ready', { exact: true }).waitFor({ timeout: 90_000 });
      expect(await layers('heavy')).toEqual({ anna: 9, ben: 4 });
    });

    test('an answer that runs is stopped, and the engine stops with it', async () => {
      await dashboard.go('#/playground', 'Playground');
      await page.getByRole('combobox', { name: 'Model' }).click();
      await page.getByRole('option', { name: 'heavy' }).click();
      await page.getByLabel('Tokens at most').fill('');
      await page.getByRole('button', { name: 'New conversation' }).click();
      await page.getByLabel(/Message|Text to go on from/).fill('Once upon a time');
      await page.getByRole('button', { name: 'Send' }).click();
      const facts = page.getByRole('article', { name: 'Answer' }).getByTestId('facts');
      await facts.getByText(/tokens\/s/).waitFor();
      await waitFor(
        'the request to run',
        async () => (await deployment('heavy'))?.requestsRunning === 1,
        5_000,
      );
      await page.getByRole('button', { name: 'Stop' }).click();
      await page.getByText('stopped', { exact: true }).waitFor();
      await waitFor(
        'the request to end',
        async () => (await deployment('heavy'))?.requestsRunning === 0,
        5_000,
      );
      const before = await facts.textContent();
      await page.getByRole('button', { name: 'Send' }).waitFor();
      expect(await facts.textContent()).toBe(before);
    });

    test('a machine that dies shows in the models within five seconds, with what became of them', async () => {
      await dashboard.go('#/models', 'Models');
      await card('tiny').getByText('Ready', { exact: true }).waitFor();
      const diedAt = Date.now();
      await split.ben.crash();
      await page
        .getByRole('article', { name: 'tiny' })
        .getByText('Ready', { exact: true })
        .waitFor({ state: 'detached', timeout: 10_000 });
      expect(Date.now() - diedAt).toBeLessThan(5_000);
      for (const model of ['tiny', 'heavy']) {
        await card(model).getByText('Ready', { exact: true }).waitFor({ state: 'detached' });
        // Why, and that it does not just stay like this.
        await card(model)
          .getByText(/\bben\b/)
          .first()
          .waitFor();
        await card(model)
          .getByText(/^(Waiting|Recovering)$/)
          .waitFor();
      }
      expect(await takePictures(page, 'models-lost')).toEqual({});
      await dashboard.go('#/overview', 'Overview');
      const attention = page.getByRole('region', { name: 'Needs attention' });
      for (const model of ['tiny', 'heavy']) {
        await attention.getByText(new RegExp(`^${model} waits for`)).waitFor();
        await attention.getByRole('link', { name: new RegExp(`^Open models: ${model}`) }).waitFor();
      }
    });

    test('models are unloaded and a file is removed, each after a question', async () => {
      await dashboard.go('#/models', 'Models');
      for (const model of ['tiny', 'heavy']) {
        await page.getByRole('button', { name: `Unload ${model}` }).click();
        const question = page.getByRole('dialog', { name: `Unload ${model}?` });
        await question.getByRole('button', { name: 'Unload' }).click();
        await card(model).waitFor({ state: 'detached', timeout: 30_000 });
      }
      await page.getByRole('button', { name: 'More for heavy' }).click();
      await page.getByRole('menuitem', { name: /Remove from anna/ }).click();
      const question = page.getByRole('dialog', { name: 'Remove heavy from anna?' });
      await question.getByRole('button', { name: 'Remove' }).click();
      await page.getByRole('button', { name: 'Load heavy' }).waitFor({ state: 'detached' });
      const { models } = await split.controller.client.call('models');
      expect(models.map(({ name }) => name)).toEqual(['tiny']);
      expect(dashboard.problems).toEqual([]);
    });

    test('a load that fails again and again stays failed until somebody tries again from its card', async () => {
      const ben = await cluster.current.startWorker({
        name: 'ben',
        dataDirectory: split.ben.dataDirectory,
      });
      expect(ben.report.nodeId).toBe(split.ben.report.nodeId);
      await page.getByRole('button', { name: 'Load tiny' }).click();
      await dialog().getByRole('checkbox', { name: 'ben' }).check();
      await boundary().waitFor();
      await dialog().getByText('It fits.').waitFor();
      await dialog().getByRole('button', { name: 'Load', exact: true }).click();
      await card('tiny').getByText('Ready', { exact: true }).waitFor({ timeout: 60_000 });
      const view = await deployment('tiny');
      await untilStatus(split.controller, view?.id ?? '', 'ready');
      expect(Object.keys(await layers('tiny')).sort()).toEqual(['anna', 'ben']);

      for (let epoch = view?.epoch ?? 0, deaths = 0; deaths < 3; deaths++) {
        const engine = split.anna.engines('llama-server')[0];
        if (engine === undefined) throw new Error('the engine is not there');
        process.kill(engine.pid, 'SIGKILL');
        const next = await waitFor(
          `what follows death ${deaths + 1}`,
          async () => {
            const now = await deployment('tiny');
            return now?.status === 'failed' || (now?.status === 'ready' && now.epoch > epoch) ? now : null;
          },
          60_000,
        );
        epoch = next.epoch;
      }
      await card('tiny').getByText('Failed', { exact: true }).waitFor();
      expect(await takePictures(page, 'models-failed')).toEqual({});
      expect(await accessibilityProblems(page)).toEqual([]);
      await page.getByRole('button', { name: 'Try again: tiny' }).click();
      await card('tiny').getByText('Ready', { exact: true }).waitFor({ timeout: 60_000 });
      expect(dashboard.problems).toEqual([]);
    });
  },
);
