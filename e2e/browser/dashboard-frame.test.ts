import { gzipSync } from 'node:zlib';
import type { BrowserContext } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { RunningController, RunningNode } from '../support/cluster.ts';
import { startSplitCluster, untilEligible } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { noBrowser, openBrowser } from './browser.ts';
import { openDashboard } from './dashboard.ts';

/** What holds for every page: the frame around them, what the server lets them do, and being up to date. */
describe.skipIf(noBrowser !== null)(`dashboard${noBrowser === null ? '' : ` (${noBrowser})`}`, () => {
  const cluster = useCluster('file');
  let controller: RunningController;
  let ben: RunningNode;
  let browser: { context: BrowserContext; close: () => Promise<void> };
  beforeAll(async () => {
    ({ controller, ben } = await startSplitCluster(cluster.current, { controller: { name: 'study' } }));
    browser = await openBrowser();
  });
  afterAll(() => browser?.close());
  afterEach(async () => {
    for (const page of browser.context.pages()) await page.close();
  });

  it('is served with a policy that lets nothing in, and another nonce each time', async () => {
    const answers = await Promise.all([fetch(controller.api), fetch(controller.api)]);
    const nonces = await Promise.all(
      answers.map(async (answer) => {
        const nonce = /nonce="([^"]+)"/.exec(await answer.text())?.[1] ?? '';
        const policy = answer.headers.get('content-security-policy') ?? '';
        expect(policy).toContain("default-src 'none'; script-src 'self'; ");
        expect(policy).toContain(`style-src 'self' 'nonce-${nonce}'; `);
        expect(policy).toContain("frame-ancestors 'none'");
        expect(answer.headers.get('cache-control')).toBe('no-store');
        return nonce;
      }),
    );
    expect(nonces[0]).toMatch(/^[\w+/]{22}==$/);
    expect(nonces[0]).not.toBe(nonces[1]);
  });

  it.each([
    '/dashboard/../package.json',
    '/dashboard/%2e%2e%2fpackage.json',
    '/dashboard/assets/..%2f..%2f.stamp',
  ])('answers %s with nothing', async (path) => {
    const answer = await fetch(controller.api + path);
    expect(answer.status).toBe(404);
  });

  it('is less than 600 kB of script, all of it, and kept by the browser', async () => {
    const html = await (await fetch(controller.api)).text();
    const seen = new Set<string>();
    const queue = [...html.matchAll(/(?:src|href)="(\/dashboard\/assets\/[^"]+\.js)"/g)].map(
      (match) => match[1] ?? '',
    );
    let bytes = 0;
    for (let path = queue.pop(); path !== undefined; path = queue.pop()) {
      if (seen.has(path)) continue;
      seen.add(path);
      const answer = await fetch(controller.api + path, { headers: { 'accept-encoding': 'gzip' } });
      expect(answer.headers.get('content-encoding')).toBe('gzip');
      expect(answer.headers.get('cache-control')).toContain('immutable');
      const code = await answer.text();
      bytes += gzipSync(code).length;
      for (const [, name] of code.matchAll(/["'`]\.\/([\w.-]+\.js)["'`]/g))
        queue.push(`/dashboard/assets/${name}`);
      for (const [, name] of code.matchAll(/["'`]assets\/([\w.-]+\.js)["'`]/g))
        queue.push(`/dashboard/assets/${name}`);
    }
    expect(seen.size).toBeGreaterThan(4);
    expect(bytes).toBeLessThan(600_000);
  });

  it('is reached by keyboard alone: past the navigation, through it, and the menu', async () => {
    const { page, problems, go } = await openDashboard(controller, browser.context);
    await go('#/overview', 'Overview');
    await page.keyboard.press('Tab');
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Skip to the page');
    await page.keyboard.press('Enter');
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('main');
    const link = page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Settings' });
    await link.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Settings' }).waitFor();
    expect(await link.getAttribute('aria-current')).toBe('page');
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('main');
    const menu = page.getByRole('button', { name: 'Appearance and login' });
    await menu.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('menuitem', { name: 'Dark' }).focus();
    await page.keyboard.press('Enter');
    await page.locator('html[data-mantine-color-scheme="dark"]').waitFor();
    expect(problems).toEqual([]);
  });

  it('says so at an address without a page, and leads back', async () => {
    const { page, problems, go } = await openDashboard(controller, browser.context);
    await go('#/nonsense', 'No such page');
    await page.getByRole('main').getByRole('link', { name: 'Overview' }).click();
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    expect(problems).toEqual([]);
  });

  it('opens its navigation in a narrow window, and closes it when a page was chosen', async () => {
    const { page } = await openDashboard(controller, browser.context);
    await page.setViewportSize({ width: 400, height: 800 });
    await page.getByRole('button', { name: 'Open the navigation' }).click();
    await page.getByRole('link', { name: 'API' }).click();
    await page.getByRole('heading', { level: 1, name: 'API' }).waitFor();
    await page.getByRole('button', { name: 'Open the navigation' }).waitFor();
  });

  it('shows a machine that dies within 5 s, and what to do about it', async () => {
    const { page, go } = await openDashboard(controller, browser.context);
    await go('#/overview', 'Overview');
    const row = page.getByRole('row', { name: /ben/ });
    await row.getByText('Ready').waitFor();
    const startedAt = Date.now();
    await ben.crash();
    await row.getByText('Ready').waitFor({ state: 'detached' });
    expect(Date.now() - startedAt).toBeLessThan(5_000);
    await page.getByText('ben lost its connection').first().waitFor();
    // Told only after it stayed away; the clock of that is the controller's.
    await page.getByText('ben is lost', { exact: true }).waitFor({ timeout: 30_000 });
    ben = await cluster.current.startWorker({ name: 'ben', dataDirectory: ben.dataDirectory });
    await untilEligible(controller, 2);
    await row.getByText('Ready').waitFor();
    await page.getByText('ben is lost', { exact: true }).waitFor({ state: 'detached' });
  });

  it('says that it shows the past while it is cut off, and comes back by itself with what is true then', async () => {
    const { page, go } = await openDashboard(controller, browser.context);
    await go('#/overview', 'Overview');
    await page.getByRole('status').filter({ hasText: 'Live' }).first().waitFor();
    const { dataDirectory } = controller;
    const port = new URL(controller.api).port;
    const stale = page.locator('.shell-page[data-stale]');
    expect(await stale.count()).toBe(0);
    await controller.crash();
    await page.getByRole('alert').filter({ hasText: 'Not connected' }).waitFor();
    await page.getByRole('status').filter({ hasText: 'Not connected' }).first().waitFor();
    await page.getByText(/What you see is from \d\d:\d\d:\d\d/).waitFor();
    // Nothing of it is green, and nothing can be done with it.
    await stale.waitFor();
    await go('#/machines', 'Machines');
    expect(await page.getByRole('button', { name: 'Add a machine' }).isDisabled()).toBe(true);
    await go('#/overview', 'Overview');
    await ben.crash();
    controller = await cluster.current.startController({
      name: 'study',
      dataDirectory,
      api: `127.0.0.1:${port}`,
      cluster: controller.report.clusterAddress ?? '127.0.0.1:0',
    });
    await page.getByRole('alert').filter({ hasText: 'Not connected' }).waitFor({ state: 'detached' });
    await stale.waitFor({ state: 'detached' });
    await page.getByRole('row', { name: /anna/ }).getByText('Ready').waitFor({ timeout: 30_000 });
    // It was ready when the page last heard of it.
    expect(await page.getByRole('row', { name: /ben/ }).getByText('Ready').count()).toBe(0);
    ben = await cluster.current.startWorker({ name: 'ben', dataDirectory: ben.dataDirectory });
    await page.getByRole('row', { name: /ben/ }).getByText('Ready').waitFor({ timeout: 30_000 });
  });

  it('shows markup and escapes in names as text', async () => {
    const { page, problems, go } = await openDashboard(controller, browser.context);
    await controller.client.call('createKey', { body: { name: '<img src=x onerror=alert(1)>' } });
    await go('#/settings', 'Settings');
    await page.getByText('<img src=x onerror=alert(1)>').first().waitFor();
    await go('#/overview', 'Overview');
    await page.getByText('<img src=x onerror=alert(1)>').first().waitFor();
    expect(await page.locator('img[src="x"]').count()).toBe(0);
    expect(problems).toEqual([]);
  });

  it('is drawn within 1.5 s', async () => {
    const { code } = await controller.client.call('loginCode');
    const page = await browser.context.newPage();
    await page.goto(`${controller.api}/#code=${code}`);
    await page.getByRole('heading', { level: 1 }).first().waitFor();
    const paintMs = await page.evaluate(
      () => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN,
    );
    console.log(`first contentful paint after ${Math.round(paintMs)} ms`);
    expect(paintMs).toBeLessThan(1_500);
  });
});
