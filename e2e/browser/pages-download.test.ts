import type { BrowserContext, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RunningController } from '../support/cluster.ts';
import { startHubServer, type HubServer } from '../support/hub-server.ts';
import { heavyModel, predictableModel } from '../support/models.ts';
import { untilEligible } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { noBrowser, openBrowser } from './browser.ts';
import { accessibilityProblems, openDashboard, takePictures, type Dashboard } from './dashboard.ts';

const source = 'hf:somebody/stories/big.gguf';

/** A model is fetched by its name on a hub; each test goes on from where the one before it ended. */
describe.skipIf(noBrowser !== null)(`downloads${noBrowser === null ? '' : ` (${noBrowser})`}`, () => {
  const cluster = useCluster('file');
  let controller: RunningController;
  let hub: HubServer;
  let browser: { context: BrowserContext; close: () => Promise<void> };
  let dashboard: Dashboard;
  let page: Page;
  beforeAll(async () => {
    hub = await startHubServer();
    await hub.add('somebody/stories', 'big.gguf', await heavyModel());
    await hub.add('somebody/other', 'bad.gguf', await predictableModel());
    controller = await cluster.current.startController();
    await cluster.current.startWorker({
      name: 'anna',
      join: await controller.invite(),
      env: { HF_ENDPOINT: hub.url },
    });
    await untilEligible(controller, 1);
    browser = await openBrowser();
    dashboard = await openDashboard(controller, browser.context);
    page = dashboard.page;
  });
  afterAll(async () => {
    await browser?.close();
    await hub?.close();
  });

  const transfer = (name: string): Locator =>
    page.getByRole('listitem').filter({ hasText: `Download of ${name}` });
  async function ask(name: string): Promise<void> {
    const form = page.getByRole('dialog', { name: 'Download a model' });
    await form.getByLabel('Model').fill(name);
    await form.getByRole('button', { name: 'Download' }).click();
    await form.waitFor({ state: 'detached' });
  }
  const mebibytes = async (of: Locator): Promise<number> =>
    Number(/([\d.]+)(?: MiB)? of 99 MiB/.exec((await of.textContent()) ?? '')?.[1] ?? 0);

  test('one that runs shows how far it is, how fast, and how long it takes', async () => {
    // Some 3 MB a second: it would take half a minute.
    hub.misbehave({ kind: 'slow', pieceBytes: 64 * 1024, pauseMs: 20 });
    await dashboard.go('#/models', 'Models');
    await page.getByRole('button', { name: 'Download a model' }).click();
    await ask(source);
    const running = transfer(source);
    await running.getByText(/of 99 MiB · \d+ % · [\d.]+ [KM]iB\/s · \d+ s left$/).waitFor();
    await expect.poll(() => mebibytes(running), { timeout: 20_000 }).toBeGreaterThan(4);
    await running.getByRole('progressbar', { name: `${source}, progress` }).waitFor();
    expect(await takePictures(page, 'download')).toEqual({});
    expect(await accessibilityProblems(page)).toEqual([]);
  });

  test('is cancelled, keeps what has come, and goes on from there', async () => {
    await page.getByRole('button', { name: `Cancel ${source}` }).click();
    const ended = transfer(source);
    await ended.getByText('Cancelled', { exact: true }).waitFor();
    await ended.getByText(/MiB have arrived and are kept\.$/).waitFor();
    const requests = hub.requests.length;
    hub.misbehave(null);
    await page.getByRole('button', { name: `Resume ${source}` }).click();
    await transfer(source)
      .getByText(/^99 MiB, hash verified: in the library as big\.$/)
      .waitFor({ timeout: 60_000 });
    const asked = hub.requests.slice(requests).filter(({ at }) => at === 'cdn');
    const from = Number(/^bytes=(\d+)-$/.exec(asked[0]?.headers.range ?? '')?.[1]);
    expect(from).toBeGreaterThan(4 * 2 ** 20);
    await page.getByRole('button', { name: 'Load big' }).waitFor();
    expect((await controller.client.call('models')).models.map(({ name }) => name)).toEqual(['big']);
  });

  test('what is not what the hub says is refused, with the reason', async () => {
    hub.misbehave({ kind: 'wrong-content' });
    await page.getByRole('button', { name: 'Download', exact: true }).click();
    await ask('hf:somebody/other/bad.gguf');
    const failed = transfer('hf:somebody/other/bad.gguf');
    await failed.getByText('Failed', { exact: true }).waitFor({ timeout: 60_000 });
    await failed.getByText(/hash|SHA-256/).waitFor();
    expect((await controller.client.call('models')).models.map(({ name }) => name)).toEqual(['big']);
    expect(dashboard.problems).toEqual([]);
  });
});
