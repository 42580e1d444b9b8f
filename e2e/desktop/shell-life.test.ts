import { describe, expect, test } from 'vitest';
import type { ApiClient } from '../../src-main/cli/api-client.ts';
import type { DeploymentView } from '../../src-main/shared/domain/deployment.ts';
import { productVersion } from '../../src-main/nodejs/version.ts';
import { noBrowser } from '../browser/browser.ts';
import { predictableModel } from '../support/models.ts';
import { complete } from '../support/openai-http.ts';
import { descendantsOf, listProcesses, stillRuns, type ProcessInfo } from '../support/processes.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor, withDeadline } from '../support/wait.ts';
import type { Desktop } from './desktop.ts';
import { becomeController, choose, useDesktop } from './use-desktop.ts';

const cluster = useCluster();
const { start, clientOf } = useDesktop();
const later = '99.0.0';

/** Loads a model on this computer and waits until it is served. */
async function serve(client: ApiClient): Promise<DeploymentView> {
  await waitFor('its own machine', async () => (await client.call('nodes')).nodes[0]?.eligible, 20_000);
  const { id } = await client.call('load', { body: { model: await predictableModel() } });
  return waitFor(
    'the model to be served',
    async () => {
      const view = await client.call('deployment', { params: { id } });
      return view.status === 'ready' && view;
    },
    30_000,
  );
}
const enginesOf = ({ pid }: Desktop): ProcessInfo[] =>
  descendantsOf(pid, listProcesses()).filter(({ command }) => command.includes('llama-server'));

describe.skipIf(noBrowser !== null)('the life of the desktop app', () => {
  test('it keeps awake while it serves, asks before it quits, and leaves nothing when it does', async () => {
    const desktop = start();
    await becomeController(desktop, true);
    const client = clientOf(desktop);
    expect((await desktop.look()).awake).toBe(false);
    const { id, model } = await serve(client);
    await desktop.until('it to keep awake', ({ awake }) => awake);
    const told = await desktop.until('the notification', ({ notifications }) =>
      notifications.some(({ title }) => title === 'A model is ready'),
    );
    expect(told.notifications.at(-1)?.body).toContain(model);
    await desktop.until('the tray', ({ tray }) => tray?.toolTip === `Covey: Serving ${model}`);

    await desktop.act('close');
    await desktop.until('no window', ({ windows }) => windows.length === 0);
    expect(await complete(client.baseUrl, model, 'Once upon a time', 4)).not.toBe('');

    await client.call('unload', { params: { id } });
    await desktop.until('it to be allowed to sleep', ({ awake }) => !awake);
    await serve(client);
    await desktop.until('it to keep awake again', ({ awake }) => awake);
    await desktop.act('quit');
    const asked = await desktop.until('the question', ({ dialogs }) => dialogs.length === 1);
    expect(asked.dialogs[0]).toMatchObject({
      message: `Quit while serving "${model}"?`,
      detail: expect.stringContaining('loaded again when Covey starts') as string,
      buttons: ['Keep running', 'Quit'],
    });
    await desktop.act('answer', '0');
    await desktop.until('the question to go', ({ dialogs }) => dialogs.length === 0);
    expect(await complete(client.baseUrl, model, 'Once upon a time', 4)).not.toBe('');

    const engines = enginesOf(desktop);
    expect(engines).toHaveLength(1);
    await desktop.act('tray', 'Quit Covey');
    await desktop.until('the question again', ({ dialogs }) => dialogs.length === 1);
    await desktop.act('answer', '1');
    expect(await withDeadline('the app to end', desktop.exited, 20_000)).toBe(0);
    await waitFor('its engine to end', () => engines.every((engine) => !stillRuns(engine)), 5_000);
  });

  test('a second start brings the window to the front, and its link is asked about there', async () => {
    const controller = await cluster.current.startController({ name: 'office' });
    const desktop = start();
    await choose(desktop, /^Lend only/);
    await desktop.until('the window', ({ windows: [window] }) => window?.visible === true);
    const before = (await desktop.look()).windows[0]?.focused ?? 0;
    expect(await start({ data: desktop.data }).exited).toBe(0);
    await desktop.until('the focus', ({ windows: [window] }) => (window?.focused ?? 0) > before);

    const link = `covey://join/${await controller.invite()}`;
    expect(await start({ data: desktop.data, args: [link] }).exited).toBe(0);
    const { windows, dialogs } = await desktop.until('the question', (seen) => seen.dialogs.length === 1);
    expect(windows).toHaveLength(1);
    expect(dialogs[0]?.detail.replaceAll(' ', '')).toContain(controller.report.nodeId.slice(0, 32));
    expect((await clientOf(desktop).call('self')).join?.phase).toBe('idle');
    const { nodes } = await controller.client.call('nodes');
    const { pending } = await controller.client.call('pending');
    expect([nodes, pending]).toEqual([[], []]);
    await desktop.act('answer', '0');
  });

  test('no page opens a window, and pages elsewhere get nothing from the shell', async () => {
    const desktop = start();
    await becomeController(desktop, false);
    const page = await desktop.page();
    // Past the navigation, and past its own first steps.
    await page.getByRole('link', { name: 'Machines' }).first().waitFor();
    await page.evaluate("window.open('https://example.org/docs')");
    await desktop.until('the browser', ({ openedExternal }) => openedExternal.length === 1);
    for (const url of [
      'http://127.0.0.1:9/',
      'file:///etc/passwd',
      'javascript:alert(1)',
      'covey://join/x',
    ]) {
      await page.evaluate(`window.open(${JSON.stringify(url)})`);
    }
    const looked = await desktop.look();
    expect(looked.openedExternal).toEqual(['https://example.org/docs']);
    expect(looked.windows).toHaveLength(1);

    const ask = "coveyShell.open('machine').then(() => 'did it', String)";
    // A frame of our own page is not our page.
    await page.evaluate("document.body.append(document.createElement('iframe'))");
    const frame = await waitFor(
      'the frame',
      () => page.frames().find((one) => one !== page.mainFrame()),
      5_000,
    );
    expect(await frame.evaluate(ask)).toMatch(/may not ask/);
    for (const elsewhere of ['about:blank', 'data:text/html,<p>elsewhere</p>']) {
      await page.goto(elsewhere);
      expect(await page.evaluate(ask), elsewhere).toMatch(/may not ask/);
    }
    expect(desktop.output()).toContain('a page asked for what it may not');
  });

  test('a machine that is lost is told when the window is away', async () => {
    const desktop = start();
    await becomeController(desktop, false);
    const client = clientOf(desktop);
    await desktop.act('close');
    const { joinString } = await client.call('invite');
    const worker = await cluster.current.startWorker({ name: 'ben', join: joinString });
    await waitFor('it to be there', async () => (await client.call('nodes')).nodes[0]?.eligible, 20_000);
    await worker.crash();
    const seen = await desktop.until(
      'the notification',
      ({ notifications }) => notifications.some(({ title }) => title === 'A machine is lost'),
      30_000,
    );
    expect(seen.notifications.at(-1)?.body).toContain('ben');
  });
});

describe.skipIf(noBrowser !== null)('updates of the installed app', () => {
  test('are looked for at once, by the channel that is set, and wait until nothing runs', async () => {
    const desktop = start({ installed: true });
    await becomeController(desktop, true);
    const client = clientOf(desktop);
    const first = await desktop.until('a look for updates', ({ updater }) => updater.looked > 0);
    expect(first.updater).toMatchObject({ channel: 'latest', installed: null });
    await client.call('setSettings', { body: { app: { updates: { channel: 'beta' } } } });
    await desktop.until(
      'a look at the other channel',
      ({ updater }) => updater.channel === 'beta' && updater.looked > first.updater.looked,
    );
    const { id } = await serve(client);
    await desktop.act('update', later);
    await waitFor('it to wait', () => desktop.output().includes('waits until nothing runs'), 5_000);
    expect(desktop.output()).not.toContain('installs the update');
    await client.call('unload', { params: { id } });
    expect(await withDeadline('the installation', desktop.exited, 30_000)).toBe(0);
    expect(desktop.output()).toContain('installs the update in silence, start again: true');
  });

  test('come to the controller first', async () => {
    const controller = await cluster.current.startController({ name: 'office' });
    const desktop = start({ installed: true, args: [`covey://join/${await controller.invite()}`] });
    await desktop.until('the question', ({ dialogs }) => dialogs.length === 1);
    await desktop.act('answer', '1');
    await waitFor(
      'the machine',
      async () => (await controller.client.call('nodes')).nodes[0]?.connected,
      20_000,
    );
    await desktop.act('update', later);
    await waitFor('it to wait', () => desktop.output().includes('waits until the controller has it'), 5_000);
    expect(desktop.output()).not.toContain('installs the update');
    await desktop.act('update', productVersion);
    expect(await withDeadline('the installation', desktop.exited, 30_000)).toBe(0);
    expect(desktop.output()).toContain('installs the update');
  });

  test('that lie ready are installed when a person quits', async () => {
    const desktop = start({ installed: true });
    await becomeController(desktop, true);
    const client = clientOf(desktop);
    await serve(client);
    await desktop.act('update', later);
    await desktop.act('quit');
    await desktop.until('the question', ({ dialogs }) => dialogs.length === 1);
    await desktop.act('answer', '1');
    expect(await withDeadline('the installation', desktop.exited, 20_000)).toBe(0);
    expect(desktop.output()).toContain('installs the update in silence, start again: false');
  });
});
