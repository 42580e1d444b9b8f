import path from 'node:path';
import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { apply } from '../../src-main/controller/state/apply.ts';
import { openDatabase } from '../../src-main/controller/state/sqlite/database.ts';
import { createStore } from '../../src-main/controller/state/sqlite/store.ts';
import { emptyState } from '../../src-main/controller/state/state.ts';
import { ensureIdentity } from '../../src-main/nodejs/identity/identity.ts';
import { nodeIdOfCertificate } from '../../src-main/nodejs/identity/node-id.ts';
import { createSelfSigned } from '../../src-main/nodejs/identity/self-signed.ts';
import { silentLogger } from '../../src-main/nodejs/transport/fixtures.ts';
import { startSimulatedWorker, type SimulatedWorker } from '../bench/control-plane-fleet.ts';
import type { RunningController } from '../support/cluster.ts';
import { predictableModel } from '../support/models.ts';
import { loadReady, untilEligible } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';
import { noBrowser, openBrowser } from './browser.ts';
import { openDashboard, type Dashboard } from './dashboard.ts';

/** What a member that means harm calls things: markup, a terminal's escapes, and text that runs backwards. */
const markup = (what: string): string => `<img src=x onerror="window.hit='${what}'">`;
const escapes = '\u001b[2J\u001b]0;owned\u0007\u202e';
const harmless = '\ufffd[2J\ufffd]0;owned\ufffd\ufffd';

const names = {
  machine: `${markup('node')}${escapes}`,
  event: `${markup('event')}${escapes}`,
  log: `${markup('log')}${escapes}`,
  // Names of models are checked where they are given: no control characters.
  model: markup('model'),
};

describe.skipIf(noBrowser !== null)(`hostile text${noBrowser === null ? '' : ` (${noBrowser})`}`, () => {
  const cluster = useCluster('file');
  let controller: RunningController;
  let worker: SimulatedWorker | null = null;
  let browser: { context: BrowserContext; close: () => Promise<void> };
  let dashboard: Dashboard;
  let page: Page;
  let hostileId: string;
  beforeAll(async () => {
    const dataDirectory = path.join(cluster.current.directory, 'controller');
    const options = { logger: silentLogger, now: Date.now };
    const { nodeId: controllerId } = await ensureIdentity(path.join(dataDirectory, 'identity'), options);
    const identity = { name: names.machine, ...(await createSelfSigned(Date.now())) };
    const nodeId = nodeIdOfCertificate(identity.certPem);
    hostileId = nodeId;
    const store = createStore(openDatabase(path.join(dataDirectory, 'covey.db')));
    const at = Date.now();
    const state = apply(emptyState(at), { type: 'node-joined', at, nodeId, name: names.machine });
    store.save(emptyState(at), state, [
      { at, kind: 'audit-login', level: 'error', message: names.event, nodeId },
    ]);
    store.close();
    controller = await cluster.current.startController({ dataDirectory });
    await cluster.current.startWorker({ name: 'anna', join: await controller.invite() });
    await untilEligible(controller, 1);
    await loadReady(controller, await predictableModel(), {
      name: names.model,
      nodes: ['anna'],
      split: { anna: 100 },
    });
    const port = Number(controller.report.clusterAddress?.split(':').at(-1));
    const ignore = (): void => undefined;
    worker = startSimulatedWorker(
      identity,
      { port, controllerId, heartbeatMs: 2_000 },
      { ack: ignore, welcome: ignore, ended: ignore, trouble: ignore },
    );
    await waitFor('the hostile machine to be connected', () => worker?.welcomed, 20_000);
    const line = { at, level: 'warn', source: markup('source'), message: names.log } as const;
    worker.send({ type: 'log', dropped: 0, lines: [line] });
    browser = await openBrowser();
    dashboard = await openDashboard(controller, browser.context);
    page = dashboard.page;
  }, 120_000);
  afterAll(async () => {
    worker?.close();
    await browser?.close();
  });

  /** Nothing of it became an element, ran, or reached the screen as a control character. */
  async function expectHarmless(): Promise<void> {
    expect(await page.locator('img[src="x"]').count()).toBe(0);
    expect(await page.evaluate(() => (window as { hit?: string }).hit)).toBeUndefined();
    const shown = await page.locator('body').innerText();
    expect(shown.match(/[\u001b\u0007\u202e]/g)).toBeNull();
    expect(dashboard.problems).toEqual([]);
  }
  const sees = (text: string): Promise<void> => page.getByText(text).first().waitFor();

  test('in names of machines and events', async () => {
    await dashboard.go('#/overview', 'Overview');
    await sees(`${markup('node')}${harmless}`);
    await sees(markup('model'));
    await expectHarmless();
    await dashboard.go('#/events', 'Events and logs');
    await sees(`${markup('event')}${harmless}`);
    await expectHarmless();
  });

  test('in lines of logs', async () => {
    await page.getByText('Logs', { exact: true }).click();
    await page.getByRole('textbox', { name: 'Text in the message' }).fill('onerror');
    await sees(`${markup('log')}${harmless}`);
    await sees(markup('source'));
    await expectHarmless();
  });

  test('on the pages of machines, as cards, as a table and alone', async () => {
    await dashboard.go('#/machines', 'Machines');
    await sees(`${markup('node')}${harmless}`);
    await expectHarmless();
    await page.getByText('Table', { exact: true }).click();
    await page.getByRole('table', { name: 'Machines' }).getByText(markup('node')).waitFor();
    await expectHarmless();
    await dashboard.go(`#/machines/${hostileId}`, `${markup('node')}${harmless}`);
    await expectHarmless();
  });

  test('in names of models', async () => {
    await dashboard.go('#/models', 'Models');
    await sees(markup('model'));
    await expectHarmless();
    await page.getByRole('button', { name: `Unload ${markup('model')}` }).click();
    await page.getByRole('dialog').getByText(markup('model')).first().waitFor();
    await expectHarmless();
    await page.keyboard.press('Escape');
    await dashboard.go('#/playground', 'Playground');
    await expectHarmless();
    await dashboard.go('#/api', 'API');
    await expectHarmless();
  });
});
