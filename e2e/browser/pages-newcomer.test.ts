import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import type { BrowserContext, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { generateModel } from '../../src-worker/models/generate.ts';
import { startSplitCluster, type SplitCluster } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { noBrowser, openBrowser } from './browser.ts';
import { dragBoundary, openDashboard, type Dashboard } from './dashboard.ts';

const run = promisify(execFile);
const loadMs = 60_000;

/** Everything that somebody does on the first day, from a covey with two machines to an empty one again. */
describe.skipIf(noBrowser !== null)(`a newcomer${noBrowser === null ? '' : ` (${noBrowser})`}`, () => {
  const cluster = useCluster('file');
  let split: SplitCluster;
  let browser: { context: BrowserContext; close: () => Promise<void> };
  let dashboard: Dashboard;
  let page: Page;
  /** Ten layers with the output: 70 and 30 percent are whole ones. */
  let file: string;
  beforeAll(async () => {
    split = await startSplitCluster(cluster.current);
    file = path.join(cluster.current.directory, 'ten.gguf');
    await generateModel({
      path: file,
      layers: 9,
      embeddingLength: 256,
      feedForwardLength: 768,
      headCount: 8,
      headCountKv: 4,
      contextLength: 1_024,
      seed: 1,
      weightType: 'Q4_0',
    });
    browser = await openBrowser();
    const { origin } = new URL(split.controller.api);
    await browser.context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin });
    dashboard = await openDashboard(split.controller, browser.context);
    page = dashboard.page;
  });
  afterAll(() => browser?.close());

  const model = (): Locator => page.getByRole('article', { name: 'ten', exact: true });
  const machine = (name: string): Locator => page.getByRole('article', { name, exact: true });
  const layers = async (): Promise<Record<string, number>> => {
    const { deployments } = await split.controller.client.call('deployments');
    return Object.fromEntries(deployments.flatMap(({ stages }) => stages.map((s) => [s.nodeName, s.layers])));
  };

  test('sees two machines', async () => {
    await dashboard.go('#/overview', 'Overview');
    for (const name of ['anna', 'ben']) {
      await page
        .getByRole('row', { name: new RegExp(name) })
        .getByText('Ready')
        .waitFor();
    }
    await page.getByRole('link', { name: 'Load a model' }).click();
    await page.getByRole('heading', { level: 1, name: 'Models' }).waitFor();
  });

  test('brings a model in and splits it 70 to 30 by pulling', async () => {
    await page.getByRole('button', { name: 'Import a file' }).click();
    const form = page.getByRole('dialog', { name: 'Import a file' });
    await form.getByRole('combobox', { name: 'Machine that has the file' }).click();
    await page.getByRole('option', { name: 'anna' }).click();
    await form.getByLabel('Path of the file there').fill(file);
    await form.getByRole('button', { name: 'Import' }).click();
    await page.getByRole('button', { name: 'Load ten' }).click();

    const dialog = page.getByRole('dialog', { name: 'Load ten' });
    await dialog.getByRole('checkbox', { name: 'ben' }).check();
    const boundary = dialog.getByRole('slider');
    await boundary.waitFor();
    await dragBoundary(dialog, boundary, [0.4, 0.7]);
    expect(await boundary.getAttribute('aria-valuetext')).toBe('anna 7 layers, ben 3 layers');
    expect(await dialog.getByLabel('Layers on anna').inputValue()).toBe('7 of 10 · 70 %');
    await dialog.getByText('It fits.').waitFor();
    await dialog.getByRole('button', { name: 'Load', exact: true }).click();
    await model().getByText('Ready', { exact: true }).waitFor({ timeout: loadMs });
    await model().getByText('7 of 10 layers · 70 %').waitFor();
    expect(await layers()).toEqual({ anna: 7, ben: 3 });
  });

  test('chats with it', async () => {
    await dashboard.go('#/playground', 'Playground');
    await page.getByLabel('Tokens at most').fill('24');
    await page.getByLabel('Message').fill('Hello');
    await page.keyboard.press('Enter');
    const facts = page.getByRole('article', { name: 'Answer' }).getByTestId('facts');
    await facts.getByText(/^24 tokens · .*by anna \+ ben$/).waitFor();
  });

  test('copies the snippet and runs it', async () => {
    await dashboard.go('#/api', 'API');
    await page.getByLabel('snippet for curl', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Copy snippet for curl' }).click();
    await page.getByRole('button', { name: 'Copied snippet for curl' }).waitFor();
    const command = await page.evaluate(() => navigator.clipboard.readText());
    const { stdout } = await run('sh', ['-c', `${command} --silent --max-time 60`], { timeout: 70_000 });
    expect(JSON.parse(stdout)).toMatchObject({
      model: 'ten',
      choices: [{ message: { role: 'assistant', content: expect.stringMatching(/\w/) as string } }],
    });
  });

  test('takes a machine out and back in, and the model with it', async () => {
    await dashboard.go('#/machines', 'Machines');
    await page.getByRole('button', { name: 'Actions for ben' }).click();
    await page.getByRole('menuitem', { name: /^Drain/ }).click();
    await page.getByRole('dialog', { name: 'Drain ben?' }).getByRole('button', { name: 'Drain' }).click();
    // A short one is over before the page draws it.
    await machine('ben')
      .getByText(/^Drain(ing|ed)$/)
      .waitFor();
    await machine('ben')
      .getByText(/runs 1 model/)
      .waitFor({ state: 'detached', timeout: loadMs });
    expect(Object.keys(await layers())).not.toContain('ben');
    await page.getByRole('button', { name: 'Resume ben' }).click();
    await machine('ben').getByText('Busy', { exact: true }).waitFor({ timeout: loadMs });
    await dashboard.go('#/models', 'Models');
    await model().getByText('Ready', { exact: true }).waitFor({ timeout: loadMs });
    expect(await layers()).toEqual({ anna: 7, ben: 3 });
  });

  test('unloads it', async () => {
    await page.getByRole('button', { name: 'Unload ten' }).click();
    await page.getByRole('dialog', { name: 'Unload ten?' }).getByRole('button', { name: 'Unload' }).click();
    await page.getByText('No model is loaded').waitFor({ timeout: 30_000 });
    expect([...split.anna.engines(), ...split.ben.engines()]).toEqual([]);
    expect(dashboard.problems).toEqual([]);
  });
});
