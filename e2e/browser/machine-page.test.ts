import { writeFileSync } from 'node:fs';
import path from 'node:path';
import type { BrowserContext, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runCovey } from '../support/cli.ts';
import type { RunningController, RunningNode } from '../support/cluster.ts';
import { untilEligible } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';
import { noBrowser, openBrowser } from './browser.ts';
import { accessibilityProblems, openDashboard, takePictures } from './dashboard.ts';

/** A machine that only lends, and the person at it. Each test goes on from where the one before it ended. */
describe.skipIf(noBrowser !== null)(
  `a machine that only lends${noBrowser === null ? '' : ` (${noBrowser})`}`,
  () => {
    const cluster = useCluster('file');
    let controller: RunningController;
    let worker: RunningNode;
    let browser: { context: BrowserContext; close: () => Promise<void> };
    let page: Page;
    let problems: string[];

    beforeAll(async () => {
      controller = await cluster.current.startController({ name: 'hall' });
      // A machine that can tell these two things and no other.
      const sensors = path.join(cluster.current.directory, 'sensors.json');
      writeFileSync(sensors, JSON.stringify({ onBattery: false, programs: ['editor'] }));
      worker = await cluster.current.startWorker({
        name: 'desk',
        join: await controller.invite(),
        api: '127.0.0.1:0',
        env: { COVEY_LEND_SENSORS: sensors },
      });
      await untilEligible(controller, 1);
      browser = await openBrowser();
    });
    afterAll(async () => {
      await browser?.close();
    });

    async function openPage(url: string): Promise<Page> {
      page = await browser.context.newPage();
      problems = [];
      const complaints = problems;
      page.on('pageerror', (error) => complaints.push(error.stack ?? error.message));
      page.on('console', (message) => {
        // A refusal, or no answer while the controller is away, is what the page shows.
        const isQuiet = message.type() !== 'error' && message.type() !== 'warning';
        if (!isQuiet && !message.text().startsWith('Failed to load resource'))
          complaints.push(message.text());
      });
      await page.goto(url);
      return page;
    }
    const region = (name: string): Locator => page.getByRole('region', { name, exact: true });
    const field = (): Locator => page.getByRole('textbox', { name: 'Code, or the whole link' });
    async function tryCode(code: string): Promise<void> {
      await field().fill(code);
      await page.getByRole('button', { name: 'Sign in' }).click();
    }
    const saysAtField = (text: RegExp): Promise<void> =>
      page.getByRole('alert').filter({ hasText: text }).waitFor();
    const rules = async () => (await worker.client.call('settings')).settings.lend;

    describe('the dashboard at its address', () => {
      let code: string;

      test("wants a code, which the controller's dashboard shows", async () => {
        const dashboard = await openDashboard(controller, browser.context);
        await dashboard.go('#/settings', 'Settings');
        const card = dashboard.page.getByRole('region', { name: 'Sign in on another machine' });
        await card.getByRole('button', { name: 'Show a code' }).click();
        code = (await card.getByRole('textbox', { name: 'Sign-in code' }).textContent()) ?? '';
        expect(code).toMatch(/^([0-9A-Z]{4}-){3}[0-9A-Z]{4}$/);
        await card
          .getByRole('timer')
          .filter({ hasText: /4:\d\d min/ })
          .waitFor();
        await card.getByText(`http://localhost:${new URL(controller.api).port}/#code=${code}`).waitFor();
        expect(await takePictures(dashboard.page, 'settings-sign-in')).toEqual({});
        expect(await accessibilityProblems(dashboard.page)).toEqual([]);

        await openPage(worker.api ?? '');
        await page.getByText('This computer is lent to hall.').waitFor();
        expect(await takePictures(page, 'sign-in')).toEqual({});
        expect(await accessibilityProblems(page)).toEqual([]);
        await tryCode('ABCD-EFGH');
        await saysAtField(/16 letters and digits/);
        await tryCode('AAAA-BBBB-CCCC-DDDD');
        await saysAtField(/There is no such code/);
        expect(await takePictures(page, 'sign-in-wrong')).toEqual({});
        expect(await accessibilityProblems(page)).toEqual([]);
        await tryCode(` ${code.toLowerCase().replaceAll('-', '')} `);
        await page.getByRole('navigation', { name: 'Pages' }).waitFor({ state: 'attached' });
        await card.getByText('Somebody has signed in').waitFor();
        expect(dashboard.problems).toEqual([]);
        await dashboard.page.close();
      });

      test('then is the whole dashboard, but for what belongs to the controller itself', async () => {
        for (const [place, heading] of [
          ['#/api', 'API'],
          ['#/overview', 'Overview'],
          ['#/machines', 'Machines'],
          ['#/settings', 'Settings'],
        ] as const) {
          await page.evaluate((hash) => {
            location.hash = hash;
          }, place);
          await page.getByRole('heading', { level: 1, name: heading }).waitFor();
          await page.getByText('Loading').waitFor({ state: 'detached' });
          expect(await page.getByRole('alert').count(), heading).toBe(0);
        }
        await region('The controller').getByText('What hall lends').waitFor();
        await region('Sign in on another machine or tab')
          .getByRole('button', { name: 'Show a code' })
          .waitFor();
        expect(await takePictures(page, 'settings-at-worker')).toEqual({});
        expect(await accessibilityProblems(page)).toEqual([]);
        expect(problems).toEqual([]);
        await page.close();
      });

      test('refuses a code that was used or has expired, and says which', async () => {
        await openPage(`${worker.api}/#code=${code}`);
        await saysAtField(/used already/);
        const { code: other } = await controller.client.call('signInCode');
        // A whole link will do.
        await tryCode(`http://localhost:7878/#code=${other}`);
        await page.getByRole('navigation', { name: 'Pages' }).waitFor({ state: 'attached' });
        await page.close();

        const dashboard = await openDashboard(controller, browser.context);
        await dashboard.page.clock.install();
        await dashboard.go('#/settings', 'Settings');
        const card = dashboard.page.getByRole('region', { name: 'Sign in on another machine' });
        await card.getByRole('button', { name: 'Show a code' }).click();
        await card.getByRole('timer').waitFor();
        await dashboard.page.clock.fastForward('05:01');
        await card.getByText('The code has expired.').waitFor();
        await dashboard.page.close();
      });

      test('quiets who goes on guessing', async () => {
        await openPage(worker.api ?? '');
        for (let count = 0; count < 10; count++) {
          const answer = page.waitForResponse((response) => response.url().endsWith('/api/sessions'));
          await tryCode(`AAAA-BBBB-CCCC-${String(1_000 + count)}`);
          await answer;
        }
        await saysAtField(/Too many wrong .* Try again in \d+ s/);
        await page.close();
      });
    });

    describe('its own page', () => {
      let link: string;

      test('opens by a one-time link that "covey open" prints there', async () => {
        const opened = await runCovey(worker, ['open']);
        link = opened.stdout.trim();
        expect(link).toBe(`${worker.api}/machine${link.slice(link.indexOf('#'))}`);
        await openPage(link);
        await page.getByText('This computer is lent to hall.').waitFor();
        await page.getByText(/^Connected/).waitFor();
        expect(page.url()).toBe(`${worker.api}/machine`);
        await region('Lend this machine').getByText('Lent now').waitFor();
        expect(await takePictures(page, 'this-computer')).toEqual({});
        expect(await accessibilityProblems(page)).toEqual([]);
      });

      test('says which rules this system cannot keep, before anybody sets them', async () => {
        const unavailable = page.getByText(/Not available on this system/);
        await expect.poll(() => unavailable.count()).toBe(3);
        await region('Lend this machine')
          .getByText(/Not available/)
          .waitFor();
        const giveWay = region('Give way to its owner');
        expect(await giveWay.getByText(/Not available/).count()).toBe(2);
      });

      test('checks a rule while it is typed, saves what is right, and takes it back', async () => {
        const limits = region('How much it lends');
        await limits.getByRole('textbox', { name: 'CPU threads' }).fill('0');
        await limits.getByText('At least 1 thread.').waitFor();
        expect(await limits.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true);
        await limits.getByRole('textbox', { name: 'CPU threads' }).fill('2');
        await limits.getByRole('textbox', { name: 'Disk' }).fill('20');
        await limits.getByRole('textbox', { name: 'Upload' }).fill('1.5');
        await limits.getByRole('button', { name: 'Save' }).click();
        await page.getByText('How much it lends was saved').waitFor();
        expect((await rules()).limits).toMatchObject({
          cpuThreads: 2,
          diskBytes: 20 * 2 ** 30,
          uploadBytesPerS: 1.5 * 2 ** 20,
        });
        await page.getByRole('button', { name: 'Undo' }).click();
        await waitFor('it to be taken back', async () => (await rules()).limits.cpuThreads === null, 10_000);
        await expect.poll(() => limits.getByRole('textbox', { name: 'CPU threads' }).inputValue()).toBe('');
      });

      test('edits every rule; they stay, and "covey lend" tells them', async () => {
        const lend = region('Lend this machine');
        await lend.getByRole('button', { name: 'Add hours' }).click();
        await lend.getByRole('textbox', { name: 'Only when nobody uses it for' }).fill('15');
        await lend.getByRole('button', { name: 'Save' }).click();
        await page.getByText('Lend this machine was saved').waitFor();
        const giveWay = region('Give way to its owner');
        await giveWay.getByRole('textbox', { name: 'When it gets hot' }).fill('20');
        await giveWay.getByText('At least 40 °C.').waitFor();
        await giveWay.getByRole('textbox', { name: 'When it gets hot' }).fill('80');
        await giveWay.getByLabel('These programs').fill('blender,');
        await giveWay.getByRole('button', { name: 'Save' }).click();
        await page.getByText('Give way to its owner was saved').waitFor();
        await giveWay.getByLabel('A full-screen program').click({ force: true });
        await waitFor('the switch', async () => (await rules()).giveWay.fullScreen, 10_000);
        await region('How much it lends').getByRole('textbox', { name: 'Memory', exact: true }).fill('3');
        await region('How much it lends').getByRole('button', { name: 'Save' }).click();
        await region('What it may be used for').getByLabel('Programs of members').click({ force: true });
        await waitFor('the kinds', async () => (await rules()).kinds.commands, 10_000);
        expect(await takePictures(page, 'this-computer-rules')).toEqual({});
        expect(await accessibilityProblems(page)).toEqual([]);

        await page.reload();
        await expect
          .poll(() => lend.getByRole('textbox', { name: 'Only when nobody uses it for' }).inputValue())
          .toBe('15 minutes');
        await giveWay.getByText('blender', { exact: true }).waitFor();
        await lend.getByRole('group', { name: 'Hours 1' }).waitFor();
        const told = await runCovey(worker, ['lend', '--json']);
        expect(JSON.parse(told.stdout)).toMatchObject({
          rules: {
            idleMinutes: 15,
            schedule: [{ from: '20:00', to: '08:00' }],
            giveWay: { programs: ['blender'], hotCelsius: 80, fullScreen: true },
            limits: { ramBytes: 3 * 2 ** 30 },
            kinds: { commands: true },
          },
        });
        // And the other way round, without a reload.
        await runCovey(worker, ['lend', 'set', 'idle', 'none']);
        await expect
          .poll(() => lend.getByRole('textbox', { name: 'Only when nobody uses it for' }).inputValue(), {
            timeout: 5_000,
          })
          .toBe('');
      });

      test('works while the controller is away', async () => {
        await controller.stop();
        await region('Covey').getByText('Not connected', { exact: true }).waitFor({ timeout: 30_000 });
        await region('Lend this machine').getByLabel('Lend this machine').last().click({ force: true });
        await region('Lend this machine').getByText('Its owner has switched lending off.').waitFor();
        expect((await rules()).enabled).toBe(false);
        expect((await runCovey(worker, ['lend'])).stdout).toContain('switched lending off');
        expect(await takePictures(page, 'this-computer-alone')).toEqual({});
        expect(await accessibilityProblems(page)).toEqual([]);
        expect(problems).toEqual([]);
        await page.close();

        await openPage(worker.api ?? '');
        await page.getByText(/^hall does not answer now/).waitFor();
        expect(await accessibilityProblems(page)).toEqual([]);
        await page.getByRole('link', { name: 'This computer' }).click();
        await page.getByRole('heading', { level: 1, name: 'This computer' }).waitFor();
        await page.close();
      });

      test('lets nobody in twice by one link', async () => {
        await openPage(link);
        await saysAtField(/used already/);
        expect(await takePictures(page, 'this-computer-sign-in')).toEqual({});
        expect(await accessibilityProblems(page)).toEqual([]);
        const again = await runCovey(worker, ['open', 'machine', '--json']);
        await tryCode((JSON.parse(again.stdout) as { code: string }).code);
        await region('Covey').waitFor();
        await page.close();
      });
    });
  },
);
