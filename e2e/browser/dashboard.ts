import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import type { BrowserContext, Locator, Page } from 'playwright-core';
import { checkout } from '../support/checkout.ts';
import type { RunningController } from '../support/cluster.ts';
import { withDeadline } from '../support/wait.ts';

/**
 * The library lets a call that asks the page or resizes it wait for ever: with a busy machine, or a page whose
 * drawing has stalled, a test would end without a word about what it waited for.
 */
const answerMs = 30_000;
const settleMs = 20_000;
const axeMs = 60_000;

/** A page of the dashboard and all that it complained about. */
export interface Dashboard {
  readonly page: Page;
  /** What the console said, exceptions, and violations of the page's policy. */
  readonly problems: string[];
  /** `#/overview` and so on; returns when the page's heading is there. */
  readonly go: (place: string, heading: string) => Promise<void>;
}

/** Logs in with a one-time link. */
export async function openDashboard(
  controller: RunningController,
  context: BrowserContext,
): Promise<Dashboard> {
  const { code } = await controller.client.call('loginCode');
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('console', (message) => {
    const isQuiet = message.type() === 'debug' || message.type() === 'info';
    // A refusal of the server is an answer like any other: the page shows it.
    const isRefusal = message.text().startsWith('Failed to load resource: the server responded');
    if (!isQuiet && !isRefusal) problems.push(message.text());
  });
  page.on('pageerror', (error) => problems.push(error.message));
  await page.goto(`${controller.api}/#code=${code}`);
  await page.getByRole('navigation', { name: 'Pages' }).waitFor({ state: 'attached' });
  return {
    page,
    problems,
    async go(place, heading) {
      await withDeadline(
        `the page to go to ${place}`,
        page.evaluate((hash) => {
          location.hash = hash;
        }, place),
        answerMs,
      );
      await page.getByRole('heading', { level: 1, name: heading }).waitFor();
    },
  };
}

const screenshots = path.join(checkout, 'build', 'screenshots');

/** Width and colours of each picture: `overview-400-dark.png`. */
const looks = [
  { width: 1280, height: 860, scheme: 'light' },
  { width: 1280, height: 860, scheme: 'dark' },
  { width: 400, height: 860, scheme: 'light' },
  { width: 400, height: 860, scheme: 'dark' },
  { width: 2560, height: 1300, scheme: 'light' },
] as const;

/** Those that are drawn in every look. What else has a name is a page in another state: two looks show that. */
const pages: ReadonlySet<string> = new Set([
  ...[
    'overview',
    'machines',
    'machines-table',
    'machine',
    'add-machine',
    'events',
    'logs',
    'settings',
    'api',
  ],
  ...['models', 'load-dialog', 'playground', 'this-computer', 'sign-in'],
  ...['jobs', 'job-form-kernel', 'job-running', 'job-results', 'artifacts'],
]);
const stateLooks = [looks[0], looks[3]] as const;

/** Into build/screenshots. @returns how far the page is wider than its window, in each look */
export async function takePictures(page: Page, name: string): Promise<Record<string, number>> {
  mkdirSync(screenshots, { recursive: true });
  const tooWide: Record<string, number> = {};
  for (const { width, height, scheme } of pages.has(name) ? looks : stateLooks) {
    const what = `${name} at ${width} px, ${scheme}`;
    await setLook(page, scheme, { width, height }, what);
    const { over, pageHeight } = await withDeadline(
      `the measures of ${what}`,
      page.evaluate(() => {
        scrollTo(0, 0);
        const { scrollWidth, scrollHeight } = document.documentElement;
        return { over: scrollWidth - innerWidth, pageHeight: scrollHeight };
      }),
      answerMs,
    );
    if (over > 0) tooWide[`${width} ${scheme}`] = over;
    // What is fixed to the window (navigation, the ground of a dialog) reaches as far as the picture does.
    if (pageHeight > height) await setLook(page, scheme, { width, height: pageHeight }, what);
    await page.screenshot({ path: path.join(screenshots, `${name}-${width}-${scheme}.png`), fullPage: true });
  }
  await setLook(page, 'light', { width: 1280, height: 860 }, `${name} as before`);
  return tooWide;
}

async function setLook(
  page: Page,
  colorScheme: 'light' | 'dark',
  size: { readonly width: number; readonly height: number } | null,
  what: string,
): Promise<void> {
  const media = page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
  await withDeadline(`the colours of ${what}`, media, answerMs);
  if (size !== null) await withDeadline(`the size of ${what}`, page.setViewportSize(size), answerMs);
  await settled(page, what);
}

/**
 * Some frames without a change of size or a transition: what depends on the window has been laid out again. Where
 * no frames come (nothing is drawn in a window that is hidden, or whose drawing has stalled) a timer stands in.
 */
async function settled(page: Page, what: string): Promise<void> {
  const unrest = await withDeadline(
    `${what} to say whether it is at rest`,
    page.evaluate(
      (limitMs) =>
        new Promise<string | null>((resolve) => {
          const endAt = performance.now() + limitMs;
          let still = 0;
          let before = -1;
          const next = (): void => {
            const timer = setTimeout(go, 100);
            const frame = requestAnimationFrame(go);
            function go(): void {
              clearTimeout(timer);
              cancelAnimationFrame(frame);
              look();
            }
          };
          const look = (): void => {
            const now = document.documentElement.scrollHeight;
            const changes = document.getAnimations().flatMap((one) => {
              if (!(one instanceof CSSTransition)) return [];
              const { target } = one.effect as KeyframeEffect;
              // In what is folded up (closed details) or out of sight one stays in the list for ever.
              const shows = target?.checkVisibility({ contentVisibilityAuto: true }) ?? false;
              return shows ? one.transitionProperty : [];
            });
            still = now === before && changes.length === 0 ? still + 1 : 0;
            const was = before;
            before = now;
            if (still >= 6) resolve(null);
            else if (performance.now() < endAt) next();
            else resolve(`height ${was}, then ${now}; transitions of ${changes.join(', ') || 'nothing'}`);
          };
          look();
        }),
      settleMs,
    ),
    settleMs + answerMs,
  );
  if (unrest !== null)
    throw new Error(`${what} does not come to rest within ${settleMs / 1_000} s: ${unrest}`);
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface AxeResult {
  readonly id: string;
  readonly impact: string | null;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

/** Between light and dark nothing changes but colours. */
const axeLooksFor = {
  light: { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] },
  dark: { type: 'rule', values: ['color-contrast', 'link-in-text-block'] },
};

/** What axe finds wrong, one line each, in light and in dark. */
export async function accessibilityProblems(page: Page): Promise<string[]> {
  const found = new Set<string>();
  for (const colorScheme of ['light', 'dark'] as const) {
    await setLook(page, colorScheme, null, `the page in ${colorScheme}`);
    // Not as a script element: the page's policy would rightly refuse it.
    await withDeadline('the page to take axe', page.evaluate(axeSource), answerMs);
    const violations = await withDeadline(
      'axe to look at the page',
      page.evaluate(async (runOnly) => {
        const { axe } = window as unknown as {
          axe: { run: (root: Document, options: object) => Promise<{ violations: AxeResult[] }> };
        };
        return (await axe.run(document, { runOnly })).violations;
      }, axeLooksFor[colorScheme]),
      axeMs,
    );
    for (const { id, nodes } of violations) {
      for (const node of nodes) {
        const why = (node.failureSummary ?? '').split('\n').slice(1, 2).join(' ').trim();
        found.add(`${colorScheme} ${id}: ${node.html.slice(0, 160)} ${why}`);
      }
    }
  }
  return [...found];
}

/** Drags a boundary of the strip of layers over these places in turn, each a share (0..1) of the strip's width. */
export async function dragBoundary(
  dialog: Locator,
  boundary: Locator,
  stops: readonly number[],
): Promise<void> {
  const track = await dialog.getByRole('group', { name: 'Layers by machine' }).boundingBox();
  const handle = await boundary.boundingBox();
  if (track === null || handle === null) throw new Error('the strip is not there');
  const { mouse } = dialog.page();
  const y = handle.y + handle.height / 2;
  await mouse.move(handle.x + handle.width / 2, y);
  await mouse.down();
  for (const stop of stops) await mouse.move(track.x + track.width * stop, y, { steps: 4 });
  await mouse.up();
}
