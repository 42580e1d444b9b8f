import type { BrowserContext, Page, Response } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { RunningController } from '../support/cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { tryEverything } from './attempts.ts';
import { noBrowser, openBrowser, startSite } from './browser.ts';

describe.skipIf(noBrowser !== null)(`in a real browser${noBrowser === null ? '' : ` (${noBrowser})`}`, () => {
  const cluster = useCluster('file');
  let controller: RunningController;
  let browser: { context: BrowserContext; close: () => Promise<void> };
  let site: { port: number; close: () => Promise<void> };
  /** The path of the dashboard's script. */
  let script: string;
  beforeAll(async () => {
    controller = await cluster.current.startController({ name: 'hall' });
    browser = await openBrowser(['evil.example', 'rebind.example']);
    site = await startSite('<!doctype html><title>elsewhere</title><body>');
    const html = await (await fetch(controller.api)).text();
    script = /src="([^"]+\.js)"/.exec(html)?.[1] ?? '';
    expect(script).toMatch(/^\/dashboard\/assets\//);
  });
  afterAll(async () => {
    await browser?.close();
    await site?.close();
  });
  afterEach(async () => {
    for (const page of browser.context.pages()) await page.close();
  });

  const loggedIn = (page: Page): Promise<void> =>
    page.getByRole('navigation', { name: 'Pages' }).waitFor({ state: 'attached' });
  const loggedOut = (page: Page): Promise<void> =>
    page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor();

  async function logIn(): Promise<{ page: Page; code: string; requests: string[] }> {
    const { code } = await controller.client.call('loginCode');
    const page = await browser.context.newPage();
    const requests: string[] = [];
    page.on('request', (request) => requests.push(`${request.method()} ${request.url()}`));
    await page.goto(`${controller.api}/#code=${code}`);
    await loggedIn(page);
    return { page, code, requests };
  }

  describe('a one-time link', () => {
    it('logs in, and its code is in no address, history or request line', async () => {
      const problems: string[] = [];
      const { code } = await controller.client.call('loginCode');
      const page = await browser.context.newPage();
      const requests: string[] = [];
      page.on('request', (request) => requests.push(request.url()));
      page.on('console', (message) => problems.push(message.text()));
      page.on('pageerror', (error) => problems.push(error.message));
      await page.goto(`${controller.api}/#code=${code}`);
      await loggedIn(page);
      await page.getByRole('status').filter({ hasText: 'hall' }).waitFor();
      expect(page.url()).toBe(`${controller.api}/`);
      expect(requests.filter((url) => url.includes(code))).toEqual([]);
      await page.goto('about:blank');
      await page.goBack();
      await loggedIn(page);
      expect(page.url()).toBe(`${controller.api}/`);
      expect(problems).toEqual([]);
    });

    it('leaves its token in this tab alone: no cookie, no lasting storage, not in another tab', async () => {
      const { page, requests } = await logIn();
      const kept = await page.evaluate(() => ({
        session: sessionStorage.length,
        local: localStorage.length,
        cookie: document.cookie,
        globals: Object.keys(window).filter((key) => /token|session/i.test(key) && key !== 'sessionStorage'),
      }));
      expect(kept).toEqual({ session: 1, local: 0, cookie: '', globals: [] });
      expect(await browser.context.cookies()).toEqual([]);
      const token = await page.evaluate(() => sessionStorage.getItem('covey.session') ?? '');
      expect(token).toMatch(/^covey_session_/);
      expect(requests.filter((line) => line.includes(token))).toEqual([]);
      const other = await browser.context.newPage();
      await other.goto(`${controller.api}/`);
      await loggedOut(other);
    });

    it('works once', async () => {
      const { code } = await logIn();
      const page = await browser.context.newPage();
      await page.goto(`${controller.api}/#code=${code}`);
      await loggedOut(page);
      await page.getByText('used already').waitFor();
      expect(page.url()).toBe(`${controller.api}/`);
    });

    it('and its code typed into the page do the same, and logging out ends it', async () => {
      const { code } = await controller.client.call('loginCode');
      const page = await browser.context.newPage();
      await page.goto(`${controller.api}/`);
      await page.getByLabel('Code').fill(code.toLowerCase());
      await page.getByRole('button', { name: 'Sign in' }).click();
      await loggedIn(page);
      const token = await page.evaluate(() => sessionStorage.getItem('covey.session') ?? '');
      const ended = page.waitForResponse((response) => response.request().method() === 'DELETE');
      await page.getByRole('button', { name: 'Appearance and login' }).click();
      await page.getByRole('menuitem', { name: 'Sign out' }).click();
      expect((await ended).status()).toBe(200);
      await loggedOut(page);
      expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
      const response = await fetch(`${controller.api}/api/status`, {
        headers: { authorization: `Bearer ${token}` },
      });
      expect(response.status).toBe(401);
    });

    it('fits a narrow window, in light and dark', async () => {
      const { page } = await logIn();
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width: 400, height: 700 });
        await page.locator(`html[data-mantine-color-scheme="${colorScheme}"]`).waitFor();
        const { wide, back } = await page.evaluate(() => ({
          wide: document.documentElement.scrollWidth,
          back: getComputedStyle(document.body).backgroundColor,
        }));
        expect(wide).toBeLessThanOrEqual(400);
        const channels = (back.match(/\d+/g) ?? []).map(Number);
        expect(channels.every((value) => (colorScheme === 'dark' ? value < 64 : value > 192))).toBe(true);
      }
    });
  });

  describe('a page of another site', () => {
    it.each(['127.0.0.1', 'localhost'])(
      'gets nothing from %s, also while its owner is logged in',
      async (name) => {
        await logIn();
        const target = `http://${name}:${new URL(controller.api).port}`;
        const page = await browser.context.newPage();
        const reached: string[] = [];
        const note = (response: Response): void => {
          if (!response.url().startsWith(target)) return;
          reached.push(
            `${response.status()} ${response.request().method()} ${response.url().slice(target.length)}`,
          );
        };
        page.on('response', note);
        await page.goto(`http://evil.example:${site.port}/`);
        const results = await page.evaluate(tryEverything, [target, script] as const);
        const got = Object.entries(results).filter(([, result]) => result !== 'blocked');
        expect(got).toEqual([]);
        expect(Object.keys(results).length).toBeGreaterThan(20);
        // Whatever left the browser was refused before it was looked at.
        expect(reached.length).toBeGreaterThan(5);
        expect(reached.filter((line) => !/^(401|403|400|415) /.test(line))).toEqual([]);
        expect((await controller.client.call('keys')).keys).toEqual([]);
      },
    );

    it('would get a lot from a server without guards: the attempts are real ones', async () => {
      const open = await startSite('{}', {
        'access-control-allow-origin': `http://evil.example:${site.port}`,
        'access-control-allow-methods': 'GET, POST, DELETE',
        'access-control-allow-headers': 'authorization, content-type',
        'access-control-allow-credentials': 'true',
        'content-type': 'text/css',
      });
      try {
        const page = await browser.context.newPage();
        await page.goto(`http://evil.example:${site.port}/`);
        const results = await page.evaluate(tryEverything, [
          `http://127.0.0.1:${open.port}`,
          script,
        ] as const);
        const got = Object.keys(results).filter((name) => results[name] !== 'blocked');
        expect(got).toEqual([
          'read /api',
          'read /api with a token',
          'read /v1',
          'read /healthz',
          'post JSON',
          'delete',
          'script',
          'script of ours',
          'style',
        ]);
      } finally {
        await open.close();
      }
    });

    it('cannot look into or steer a window of ours that it opened', async () => {
      const page = await browser.context.newPage();
      await page.goto(`http://evil.example:${site.port}/`);
      const opened = browser.context.waitForEvent('page');
      await page.evaluate((url) => {
        (window as unknown as { other: Window | null }).other = window.open(url);
      }, `${controller.api}/`);
      const ours = await opened;
      await loggedOut(ours);
      expect(await ours.evaluate(() => window.opener === null)).toBe(true);
      // Ours opens in a group of its own: what the other page holds is a window that is closed.
      expect(
        await page.evaluate(() => (window as unknown as { other: Window | null }).other?.closed ?? true),
      ).toBe(true);
    });

    it('gets nothing by a name that leads here (rebinding), and the refusal names the setting', async () => {
      const { port } = new URL(controller.api);
      const page = await browser.context.newPage();
      const response = await page.goto(`http://rebind.example:${port}/`);
      expect(response?.status()).toBe(403);
      expect(await response?.text()).toContain('api.allowedHosts');
      const statuses = await page.evaluate(async () => {
        const ask = async (path: string, init?: RequestInit): Promise<number> =>
          (await fetch(path, init)).status;
        const headers = { 'content-type': 'application/json' };
        return {
          status: await ask('/api/status'),
          models: await ask('/v1/models'),
          health: await ask('/healthz'),
          page: await ask('/dashboard/icon.svg'),
          redeem: await ask('/api/sessions', { method: 'POST', body: '{"code":"x"}', headers }),
          generate: await ask('/v1/completions', { method: 'POST', body: '{"model":"m"}', headers }),
        };
      });
      expect(new Set(Object.values(statuses))).toEqual(new Set([403]));
    });
  });

  it('what was refused is in the list of events', async () => {
    const kinds = new Set<string>();
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), 2_000);
    for await (const event of controller.client.events({ afterId: 0, signal: stop.signal })) {
      kinds.add(event.kind);
      if (kinds.has('security-refused') && kinds.has('audit-login')) break;
    }
    clearTimeout(timer);
    expect([...kinds]).toEqual(expect.arrayContaining(['security-refused', 'audit-login']));
  });
});
