import { fork, type ChildProcess } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { BrowserContext, CDPSession, Page } from 'playwright-core';
import { apply } from '../../src-main/controller/state/apply.ts';
import { openDatabase } from '../../src-main/controller/state/sqlite/database.ts';
import { createStore, type NewEvent } from '../../src-main/controller/state/sqlite/store.ts';
import { emptyState } from '../../src-main/controller/state/state.ts';
import { ensureIdentity } from '../../src-main/nodejs/identity/identity.ts';
import { nodeIdOfCertificate } from '../../src-main/nodejs/identity/node-id.ts';
import { createSelfSigned } from '../../src-main/nodejs/identity/self-signed.ts';
import { silentLogger } from '../../src-main/nodejs/transport/fixtures.ts';
import type { NodeId } from '../../src-main/shared/lib/ids.ts';
import { noBrowser, openBrowser } from '../browser/browser.ts';
import { openDashboard, type Dashboard } from '../browser/dashboard.ts';
import { checkout } from '../support/checkout.ts';
import { createCluster, type RunningController } from '../support/cluster.ts';
import { waitFor } from '../support/wait.ts';
import {
  startSimulatedWorker,
  type FleetOrder,
  type SimulatedIdentity,
  type SimulatedWorker,
} from './control-plane-fleet.ts';
import { describeMachine, median, type BenchOptions, type BenchResult, type BenchRun } from './result.ts';
import { causeJobs, jobsOfOld } from './ui-jobs.ts';

const nodeCount = 200;
const storedEvents = 100_000;
const storedJobs = 10_000;
const computingNodes = 20;
const eventsPerS = 100;
const heartbeatMs = 5_000;
const firstLoads = 3;
const roundMs = 60_000;
const partsOfRound = 8;
const stepMs = 50;
const connectMs = 60_000;
const shownMs = 30_000;

/** It takes `--minutes N`. */
export const takesMinutes = true;

/**
 * The dashboard in Chromium with 200 machines, 100,000 stored events and 100 new ones a second (machines that are
 * paused and resumed through the API, as people do it), and 10,000 jobs, of which one is submitted every two seconds
 * and some always run on 20 of the machines. The machines are simulated (see control-plane-fleet.ts), all send
 * heartbeats with figures.
 *
 * - `firstPaintMs`, `firstRowsMs`: from opening the login link to the first contentful paint, and to the Overview
 *   with its machines in it. Nothing is in the browser's cache. Medians.
 * - `scriptKb`: all scripts of the dashboard, compressed.
 * - `long…Ms`: the longest task of the page's main thread in each part of a round of 60 s; 0: none was over 50 ms.
 * - `heap…`: what the page's scripts hold on the Overview after a collection, before the first round and after each.
 *   `--minutes N` makes N rounds; `heapMbPerMinute` is the slope through those of the second half then.
 * - `jobs`, `jobsDone`: how many there were at the end, and how many of those submitted meanwhile were done.
 * - `killShownMs`: from a worker's end to the machine's new state in the table.
 */
export async function run({ log, minutes }: BenchOptions): Promise<BenchResult> {
  if (noBrowser !== null) throw new Error(`This bench needs a browser: ${noBrowser}.`);
  const cluster = createCluster();
  let fleet: ChildProcess | null = null;
  let marked: SimulatedWorker | null = null;
  let browser: Awaited<ReturnType<typeof openBrowser>> | null = null;
  const stop = new AbortController();
  let commotion: Promise<number> | null = null;
  let working: Promise<number> | null = null;
  try {
    log(`${nodeCount} machines, ${storedEvents} events and ${storedJobs} jobs ...`);
    const identities: SimulatedIdentity[] = [];
    for (let number = 0; number < nodeCount; number += 1) {
      const computes = number > 0 && number <= computingNodes;
      identities.push({ name: `node-${number}`, computes, ...(await createSelfSigned(Date.now())) });
    }
    const dataDirectory = path.join(cluster.directory, 'controller');
    const controllerId = await prepare(dataDirectory, identities);
    const controller = await cluster.startController({ dataDirectory });
    const port = Number(controller.report.clusterAddress?.split(':').at(-1));
    const order = { port, controllerId, heartbeatMs };
    const [own, ...others] = identities;
    if (!own) throw new Error('there is no identity');
    fleet = startFleet({ ...order, identities: others });
    const ignore = (): void => undefined;
    marked = startSimulatedWorker(own, order, {
      ack: ignore,
      welcome: ignore,
      ended: ignore,
      trouble: ignore,
    });
    await waitFor(
      'all machines to be ready',
      async () => {
        const { nodes } = await controller.client.call('nodes');
        const ready = nodes.filter(({ status }) => status === 'ready').length;
        if (ready === nodeCount) return true;
        throw new Error(`${ready} of ${nodeCount}`);
      },
      connectMs,
      500,
    );
    // Those that compute are left alone: what is paused takes no work.
    commotion = causeEvents(controller, others.slice(computingNodes), stop.signal);
    commotion.catch(() => undefined);
    working = causeJobs(controller, stop.signal);
    working.catch(() => undefined);
    browser = await openBrowser();
    const measured = await measure(controller, browser.context, marked, minutes ?? 1, log);
    const { total: jobs } = await controller.client.call('jobs', { query: { limit: '1' } });
    const done = await controller.client.call('jobs', {
      query: { status: 'done', text: 'now', limit: '1' },
    });
    stop.abort();
    const caused = { eventsPerS: await commotion, jobs, jobsDone: done.total };
    log(`  ${await working} jobs submitted meanwhile, ${done.total} of them done`);
    return result({ ...measured, ...caused }, minutes ?? 1);
  } finally {
    stop.abort();
    await commotion?.catch(() => undefined);
    await working?.catch(() => undefined);
    await browser?.close();
    marked?.close();
    fleet?.kill('SIGKILL');
    await cluster.close();
  }
}

/** As if they had all been paired, and much had happened since. Returns the controller's node id. */
async function prepare(dataDirectory: string, identities: readonly SimulatedIdentity[]): Promise<NodeId> {
  const options = { logger: silentLogger, now: Date.now };
  const { nodeId } = await ensureIdentity(path.join(dataDirectory, 'identity'), options);
  const store = createStore(openDatabase(path.join(dataDirectory, 'covey.db')));
  const at = Date.now();
  const nodes = identities.map(({ name, certPem }) => ({ name, nodeId: nodeIdOfCertificate(certPem) }));
  const state = nodes.reduce(
    (before, node) => apply(before, { type: 'node-joined', at, ...node }),
    emptyState(at),
  );
  const events = Array.from({ length: storedEvents }, (_, index): NewEvent => {
    const node = nodes[index % nodes.length];
    const level = index % 1_000 === 999 ? 'error' : index % 100 === 99 ? 'warn' : 'info';
    return {
      at: at - (storedEvents - index) * 1_000,
      kind: index % 2 === 0 ? 'session-opened' : 'session-closed',
      level,
      message: `${node?.name} ${index % 2 === 0 ? 'connected from 192.0.2.1.' : 'said goodbye.'}`,
      ...(node ? { nodeId: node.nodeId } : {}),
    };
  });
  store.save(emptyState(at), { ...state, jobs: jobsOfOld(storedJobs, at) }, events);
  store.close();
  return nodeId;
}

function startFleet(order: FleetOrder): ChildProcess {
  const child = fork(path.join(import.meta.dirname, 'control-plane-fleet.ts'), ['fleet'], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  child.send(order);
  return child;
}

/** One machine after the other is paused and resumed. @returns how many events a second that were */
async function causeEvents(
  controller: RunningController,
  machines: readonly SimulatedIdentity[],
  signal: AbortSignal,
): Promise<number> {
  const startedAt = performance.now();
  let caused = 0;
  for (let turn = 0; !signal.aborted; turn += 1) {
    const params = { node: machines[turn % machines.length]?.name ?? '' };
    await controller.client.call('pause', { params });
    await controller.client.call('resume', { params });
    caused += 2;
    // Against the clock, so that what was slow once is made up for.
    const aheadMs = (caused / eventsPerS) * 1_000 - (performance.now() - startedAt);
    if (aheadMs > 0) await delay(aheadMs);
  }
  return caused / ((performance.now() - startedAt) / 1_000);
}

/** Runs in each page before its own scripts. */
function observePage(): void {
  const seen: { at: number; ms: number }[] = [];
  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) seen.push({ at: startTime, ms: duration });
  }).observe({ type: 'longtask', buffered: true });
  const page = window as unknown as ObservedWindow;
  page.longTasks = seen;
  page.firstRowsMs = null;
  new MutationObserver((_, observer) => {
    if (document.querySelectorAll('[role="row"] .row-memory').length === 0) return;
    // With the next frame they are on the screen.
    requestAnimationFrame(() => (page.firstRowsMs = performance.now()));
    observer.disconnect();
  }).observe(document, { childList: true, subtree: true });
}

interface ObservedWindow {
  longTasks: { at: number; ms: number }[];
  firstRowsMs: number | null;
}

type Figures = Readonly<Record<string, number>>;

async function measure(
  controller: RunningController,
  context: BrowserContext,
  marked: SimulatedWorker,
  rounds: number,
  log: (text: string) => void,
): Promise<Figures> {
  await context.addInitScript(observePage);
  log(`${firstLoads} first loads ...`);
  const loads: { paintMs: number; rowsMs: number }[] = [];
  for (let number = 0; number < firstLoads; number += 1) {
    const first = await firstLoad(controller, context);
    loads.push(first);
  }
  const dashboard = await openDashboard(controller, context);
  const { page, go } = dashboard;
  await page.setViewportSize({ width: 1280, height: 860 });
  // Code of pages that were never open is no growth.
  await go('#/machines', 'Machines');
  await go('#/events', 'Events and logs');
  await go('#/jobs', 'Jobs');
  await go('#/overview', 'Overview');
  await delay(2_000);
  const session = await context.newCDPSession(page);
  const heaps = [{ minute: 0, mb: await heapMb(session) }];
  const startedAt = performance.now();
  const partMs = roundMs / partsOfRound;
  const figures: Record<string, number> = {};
  const part = async (name: string, act: () => Promise<void>): Promise<void> => {
    const from = await page.evaluate(() => performance.now());
    const until = performance.now() + partMs;
    while (performance.now() < until) await act();
    const tasks = await page.evaluate(
      (since) =>
        (window as unknown as ObservedWindow).longTasks.filter(({ at }) => at >= since).map(({ ms }) => ms),
      from,
    );
    figures[name] = Math.max(figures[name] ?? 0, ...tasks);
    log(`  ${name}: ${tasks.map(Math.round).join(' ') || 'none over 50'}`);
  };
  for (let round = 1; round <= rounds; round++) {
    log(`${roundMs / 1_000} s of scrolling and filtering, ${round} of ${rounds} ...`);
    await part('longOverviewMs', () => delay(500));
    await go('#/machines', 'Machines');
    await pointAt(page, page.getByRole('group', { name: 'Machines', exact: true }));
    await part('longMachinesMs', scrolling(page, 300));
    await go('#/events', 'Events and logs');
    await pointAt(page, page.getByRole('region', { name: 'List of events' }));
    await part('longEventsMs', scrolling(page, 900));
    await page.getByRole('textbox', { name: 'Text in the message' }).focus();
    await part('longFilterMs', () => filterOnce(page, filterTexts));
    await page.keyboard.press('Control+A');
    await page.keyboard.press('Delete');
    await go('#/jobs', 'Jobs');
    await pointAt(page, page.getByRole('group', { name: 'Jobs', exact: true }));
    await part('longJobsMs', scrolling(page, 1_200));
    await page.getByRole('textbox', { name: 'Name of the job' }).focus();
    await part('longJobFilterMs', () => filterOnce(page, jobTexts));
    const running = await controller.client.call('jobs', { query: { status: 'running', limit: '1' } });
    const [job] = running.jobs;
    if (job === undefined) throw new Error('no job runs');
    await go(`#/jobs/${job.id}`, job.name);
    await part('longJobMs', () => delay(500));
    await go('#/overview', 'Overview');
    await part('longEndMs', () => delay(500));
    heaps.push({ minute: (performance.now() - startedAt) / 60_000, mb: await heapMb(session) });
    log(`  heap: ${heaps.at(-1)?.mb.toFixed(1)} MB`);
  }
  log('a worker ends ...');
  const killShownMs = await killShown(dashboard, marked);
  if (dashboard.problems.length > 0) throw new Error(`the page complained: ${dashboard.problems.join('; ')}`);
  return {
    firstPaintMs: median(loads.map(({ paintMs }) => paintMs)),
    firstRowsMs: median(loads.map(({ rowsMs }) => rowsMs)),
    scriptKb: scriptBytes() / 1_000,
    ...figures,
    longestMs: Math.max(...Object.values(figures)),
    heapStartMb: heaps[0]?.mb ?? NaN,
    heapEndMb: heaps.at(-1)?.mb ?? NaN,
    heapMbPerMinute: slope(heaps.slice(rounds > 1 ? Math.floor(heaps.length / 2) : 0)),
    killShownMs,
  };
}

/** Of the straight line that is nearest to the points, in MB a minute. */
function slope(points: readonly { readonly minute: number; readonly mb: number }[]): number {
  const mean = (of: (point: (typeof points)[number]) => number): number =>
    points.reduce((sum, point) => sum + of(point), 0) / points.length;
  const [minute, mb] = [mean((point) => point.minute), mean((point) => point.mb)];
  const covariance = mean((point) => (point.minute - minute) * (point.mb - mb));
  return covariance / mean((point) => (point.minute - minute) ** 2);
}

async function firstLoad(
  controller: RunningController,
  context: BrowserContext,
): Promise<{ paintMs: number; rowsMs: number }> {
  const { code } = await controller.client.call('loginCode');
  const page = await context.newPage();
  try {
    const session = await context.newCDPSession(page);
    await session.send('Network.setCacheDisabled', { cacheDisabled: true });
    await page.goto(`${controller.api}/#code=${code}`);
    const rows = await page.waitForFunction(
      () => (window as unknown as ObservedWindow).firstRowsMs,
      undefined,
      { timeout: shownMs },
    );
    const paintMs = await page.evaluate(
      () => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN,
    );
    return { paintMs, rowsMs: (await rows.jsonValue()) ?? NaN };
  } finally {
    await page.close();
  }
}

async function pointAt(page: Page, place: ReturnType<Page['getByRole']>): Promise<void> {
  await place.scrollIntoViewIfNeeded();
  const box = await place.boundingBox();
  if (!box) throw new Error('what is to be scrolled does not show');
  await page.mouse.move(box.x + box.width / 2, box.y + Math.min(box.height / 2, 200));
}

/** A turn of the wheel: three seconds down, one up. */
function scrolling(page: Page, px: number): () => Promise<void> {
  let turn = 0;
  return async () => {
    turn += 1;
    await page.mouse.wheel(0, turn % 80 < 60 ? px : -px * 2);
    await delay(stepMs);
  };
}

const filterTexts = ['node-1', 'goodbye', 'paused', 'nothing is like this'] as const;
const jobTexts = ['render', 'now', 'up 99', 'nothing is like this'] as const;

async function filterOnce(page: Page, texts: readonly string[]): Promise<void> {
  for (const text of texts) {
    await page.keyboard.press('Control+A');
    await page.keyboard.type(text, { delay: 80 });
    await delay(500);
  }
}

async function heapMb(session: CDPSession): Promise<number> {
  await session.send('HeapProfiler.collectGarbage');
  await session.send('Performance.enable');
  const { metrics } = await session.send('Performance.getMetrics');
  return (metrics.find(({ name }) => name === 'JSHeapUsedSize')?.value ?? NaN) / 1e6;
}

async function killShown({ page, go }: Dashboard, marked: SimulatedWorker): Promise<number> {
  await go('#/machines', 'Machines');
  const table = page.getByRole('table', { name: 'Machines', exact: true });
  const row = table.getByRole('row').filter({ has: page.locator('.name', { hasText: /^node-0$/ }) });
  const state = row.locator('.status-mark');
  await state.filter({ hasText: 'Ready' }).waitFor({ timeout: shownMs });
  const killedAt = performance.now();
  marked.close();
  await state.filter({ hasNotText: 'Ready' }).waitFor({ timeout: shownMs });
  return performance.now() - killedAt;
}

/** As the server sends them. */
function scriptBytes(): number {
  const assets = path.join(checkout, 'dist', 'dashboard', 'assets');
  return readdirSync(assets)
    .filter((name) => name.endsWith('.js.gz'))
    .reduce((sum, name) => sum + statSync(path.join(assets, name)).size, 0);
}

function result(figures: Figures, minutes: number): BenchResult {
  const runs: BenchRun[] = [{ side: 'dashboard', figures }];
  return {
    name: 'ui',
    ratio: null,
    ratioOf: `${nodeCount} machines, ${storedJobs} jobs, ${storedEvents} events, ${eventsPerS} more a second; lower is better`,
    ours: figures['longestMs'] ?? NaN,
    theirs: null,
    unit: 'ms, the longest task of the page',
    runs,
    more: figures,
    targets: {
      firstPaintMs: { atMost: 1_500 },
      firstRowsMs: { atMost: 1_500 },
      scriptKb: { atMost: 600 },
      longestMs: { atMost: 100 },
      // The page keeps ten minutes of figures: it grows while these fill, most in the first.
      heapMbPerMinute: { atMost: minutes > 1 ? 1 : 5 },
      killShownMs: { atMost: 5_000 },
      // Shows that as much happened as was meant to.
      eventsPerS: { atLeast: eventsPerS * 0.9 },
      jobs: { atLeast: storedJobs },
      jobsDone: { atLeast: 10 * minutes },
    },
    machine: describeMachine(),
  };
}
