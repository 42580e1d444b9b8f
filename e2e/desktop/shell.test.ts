import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { readApiAccess } from '../../src-main/nodejs/access/local-access.ts';
import { noBrowser } from '../browser/browser.ts';
import { checkout } from '../support/checkout.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';
import { becomeController, choose, useDesktop } from './use-desktop.ts';

const cluster = useCluster();
const { start, clientOf } = useDesktop();

const screenshots = path.join(checkout, 'build', 'screenshots');

/** No violation for axe, light and dark, narrow and wide; and a picture of each for people. */
async function inspect(page: Page, name: string): Promise<void> {
  const axe = readFileSync(path.join(checkout, 'node_modules', 'axe-core', 'axe.min.js'), 'utf8');
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const width of [400, 1_200]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 800 });
      await page.screenshot({
        path: path.join(screenshots, `${name}-${colorScheme}-${width}.png`),
        fullPage: true,
      });
      const overflows = await page.evaluate('document.documentElement.scrollWidth > innerWidth');
      expect(overflows, `${name} is wider than ${width} px`).toBe(false);
      // The policy of the page lets no script in: this one comes by the debugger.
      const found = await page.evaluate(
        `${axe}; axe.run().then(({ violations }) => violations.map(({ id }) => id))`,
      );
      expect(found).toEqual([]);
    }
  }
}

describe.skipIf(noBrowser !== null)('the desktop app on a stand-in for Electron', () => {
  test('the first start asks one question; the answer becomes the role and is kept', async () => {
    const desktop = start();
    const page = await desktop.page();
    await page.getByRole('heading', { name: 'Use this computer for' }).waitFor();
    await page.getByText('No controller was found on your network.').waitFor();
    await inspect(page, 'this-computer-first-start');
    const { windows, sandboxed } = await desktop.look();
    expect(sandboxed).toBe(true);
    expect(windows).toHaveLength(1);
    expect(windows[0]?.preferences).toMatchObject({
      contextIsolation: true,
      sandbox: true,
      nodeIntegration: false,
      webviewTag: false,
      webSecurity: true,
    });
    await page.getByRole('button', { name: /^Controller, and lend this computer/ }).click();
    await desktop.until('the dashboard', ({ windows: [window] }) => /:\d+\/(#|$)/.test(window?.url ?? ''));
    const client = clientOf(desktop);
    expect((await client.call('self')).role).toBe('controller');
    await waitFor('its own machine', async () => (await client.call('nodes')).nodes[0]?.eligible, 20_000);
    const kept = JSON.parse(readFileSync(path.join(desktop.data, 'desktop.json'), 'utf8')) as object;
    expect(kept).toMatchObject({ role: 'both' });
    const { tray } = await desktop.until(
      'the tray',
      (seen) => seen.tray?.toolTip.includes('no model') ?? false,
    );
    expect(tray).toMatchObject({
      image: 'idle-light.png',
      toolTip: 'Covey: Controller, no model loaded',
      checked: ['Lend this machine'],
    });
    expect((await desktop.look()).utilities.some((name) => name.includes('transport'))).toBe(true);
  });

  test('the tray switches lending, follows the theme, and opens pages', async () => {
    const desktop = start();
    await choose(desktop, /^Controller, and lend/);
    await desktop.until('the switch', ({ tray }) => tray?.checked.includes('Lend this machine') ?? false);
    await desktop.act('tray', 'Lend this machine');
    await desktop.until('lending off', ({ tray }) => tray?.checked.length === 0);
    const client = clientOf(desktop);
    expect((await client.call('settings')).settings.lend.enabled).toBe(false);
    await desktop.act('theme', 'dark');
    expect((await desktop.look()).tray?.image).toBe('idle-dark.png');
    await desktop.act('tray', 'This computer');
    await desktop.until('the page', ({ windows: [window] }) => window?.url.endsWith('/machine') ?? false);
  });

  test('closing the window leaves the app; it opens again, and a second start only wakes it', async () => {
    const desktop = start();
    await becomeController(desktop, false);
    await desktop.act('close');
    const closed = await desktop.until('no window', ({ windows }) => windows.length === 0);
    expect(closed.notifications.map(({ title }) => title)).toEqual(['Covey keeps running']);
    expect(closed.tray).not.toBeNull();
    const second = start({ data: desktop.data });
    expect(await second.exited).toBe(0);
    await desktop.until('the window again', ({ windows }) => windows.length === 1);
  });

  test('pages get what they may and nothing else, and cannot leave', async () => {
    const desktop = start();
    const page = await desktop.page();
    await page.getByRole('heading', { name: 'Use this computer for' }).waitFor();
    const call = (script: string): Promise<unknown> =>
      page.evaluate(
        `(async () => { try { return await (${script}) } catch (error) { return String(error) } })()`,
      );
    expect(await call('coveyShell.localToken()')).toMatch(/^covey_local_/);
    expect(await call("coveyShell.chooseRole('king')")).toMatch(/Invalid/);
    await becomeController(desktop, false);
    await page.waitForLoadState();
    expect(await call('coveyShell.localToken()')).toMatch(/may not ask/);
    expect(await call("coveyShell.chooseRole('lend')")).toMatch(/may not ask/);
    expect(await call("fetch('https://example.org/').then(() => 'out')")).toMatch(/TypeError|Failed/);
    const before = page.url();
    await page.evaluate("void (location.href = 'https://example.org/')");
    await desktop.until('the browser', ({ openedExternal }) => openedExternal.length === 1);
    expect(page.url()).toBe(before);
    await page.evaluate("void (location.href = 'file:///etc/passwd')");
    expect((await desktop.look()).openedExternal).toEqual(['https://example.org/']);
    expect(page.url()).toBe(before);
  });

  test('a link joins only after a person agreed; the page shows the covey, and works without it', async () => {
    const controller = await cluster.current.startController({ name: 'office' });
    const link = `covey://join/${await controller.invite()}`;
    const desktop = start({ args: ['--name=laptop', link] });
    const asked = await desktop.until('the question', ({ dialogs }) => dialogs.length === 1);
    expect(asked.dialogs[0]?.message).toMatch(/^Lend this computer to/);
    const { nodeId } = controller.report;
    expect(asked.dialogs[0]?.detail.replaceAll(' ', '')).toContain(nodeId.slice(0, 32));
    await desktop.act('answer', '0');
    expect((await controller.client.call('nodes')).nodes).toEqual([]);
    await desktop.act('link', link);
    await desktop.until('the question again', ({ dialogs }) => dialogs.length === 1);
    await desktop.act('answer', '1');
    await waitFor(
      'the machine',
      async () =>
        (await controller.client.call('nodes')).nodes.find(({ name }) => name === 'laptop')?.connected,
      20_000,
    );
    await desktop.act('tray', 'This computer');
    const page = await desktop.page();
    await page.getByText('This computer is lent to office.').waitFor();
    await page.getByText(/^Connected/).waitFor();
    await inspect(page, 'this-computer-member');
    await controller.stop();
    await desktop.until('the tray', ({ tray }) => tray?.image === 'attention-light.png');
    await page.getByText(/^Connected/).waitFor({ state: 'detached' });
    await page.getByText('This computer is lent to office.').waitFor();
  });

  test('a link that is none of ours is refused in a sentence', async () => {
    const desktop = start({ args: ['covey://join/hello'] });
    const { dialogs } = await desktop.until('the refusal', (seen) => seen.dialogs.length === 1);
    expect(dialogs[0]?.detail).toMatch(/join string/);
    await desktop.act('answer', '0');
  });

  test('a machine that asks to join is told, and the tray shows it', async () => {
    const desktop = start();
    await becomeController(desktop, false);
    await desktop.act('close');
    const client = clientOf(desktop);
    const { clusterAddress } = await client.call('self');
    const worker = await cluster.current.startWorker({ name: 'ben', api: '127.0.0.1:0' });
    await worker.client.call('join', { body: { controller: `127.0.0.1:${clusterAddress?.port}` } });
    const seen = await desktop.until('the notification', ({ notifications }) =>
      notifications.some(({ title }) => title === 'A machine asks to join'),
    );
    expect(seen.notifications.at(-1)?.body).toContain('ben');
    await desktop.until('the tray', ({ tray }) => tray?.toolTip === 'Covey: A machine asks to join');
    await desktop.act('notification', 'A machine asks to join');
    await desktop.until('the window', ({ windows }) => windows.length === 1);
  });

  test('quitting ends everything, and the next start needs no question', async () => {
    const desktop = start();
    await choose(desktop, /^Lend only/);
    const page = await desktop.page();
    await page.getByRole('heading', { name: 'Join a covey' }).waitFor();
    await desktop.act('quit').catch(() => undefined);
    expect(await desktop.exited).toBe(0);
    expect(existsSync(path.join(desktop.data, 'lock'))).toBe(false);
    expect(readApiAccess(desktop.data)?.apiAddress).toBeNull();
    const again = start({ data: desktop.data });
    await (await again.page()).getByRole('heading', { name: 'Join a covey' }).waitFor();
  });
});
