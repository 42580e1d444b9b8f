import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import type { BrowserContext, Page } from 'playwright-core';
import { checkout } from '../support/checkout.ts';
import type { RunningController } from '../support/cluster.ts';

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
      await page.evaluate((hash) => {
        location.hash = hash;
      }, place);
      await page.getByRole('heading', { level: 1, name: heading }).waitFor();
    },
  };
}

const screenshots = path.join(checkout, 'build', 'screenshots');

/** Width and colours of each picture: `overview-400-dark.png`. */
export const looks = [
  { width: 1280, height: 860, scheme: 'light' },
  { width: 1280, height: 860, scheme: 'dark' },
  { width: 400, height: 860, scheme: 'light' },
  { width: 400, height: 860, scheme: 'dark' },
  { width: 2560, height: 1300, scheme: 'light' },
] as const;

/** Into build/screenshots. @returns how far the page is wider than its window, in each look */
export async function takePictures(page: Page, name: string): Promise<Record<string, number>> {
  mkdirSync(screenshots, { recursive: true });
  const tooWide: Record<string, number> = {};
  for (const { width, height, scheme } of looks) {
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width, height });
    await page.evaluate(() => scrollTo(0, 0));
    await settled(page);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (over > 0) tooWide[`${width} ${scheme}`] = over;
    await page.screenshot({ path: path.join(screenshots, `${name}-${width}-${scheme}.png`), fullPage: true });
  }
  await page.setViewportSize({ width: 1280, height: 860 });
  return tooWide;
}

/** Some frames without a change of size or a transition: what depends on the window has been laid out again. */
async function settled(page: Page): Promise<void> {
  await page.evaluate(
    () =>
      new Promise<void>((resolve) => {
        let still = 0;
        let before = -1;
        const look = (): void => {
          const now = document.documentElement.scrollHeight;
          const changes = document.getAnimations().some((one) => one instanceof CSSTransition);
          still = now === before && !changes ? still + 1 : 0;
          before = now;
          if (still >= 6) resolve();
          else requestAnimationFrame(look);
        };
        look();
      }),
  );
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface AxeResult {
  readonly id: string;
  readonly impact: string | null;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

/** What axe finds wrong, one line each, in light and in dark. */
export async function accessibilityProblems(page: Page): Promise<string[]> {
  const found = new Set<string>();
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await settled(page);
    // Not as a script element: the page's policy would rightly refuse it.
    await page.evaluate(axeSource);
    const violations = await page.evaluate(async () => {
      const { axe } = window as unknown as {
        axe: { run: (root: Document, options: object) => Promise<{ violations: AxeResult[] }> };
      };
      const options = { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] };
      return (await axe.run(document, options)).violations;
    });
    for (const { id, nodes } of violations) {
      for (const node of nodes) {
        const why = (node.failureSummary ?? '').split('\n').slice(1, 2).join(' ').trim();
        found.add(`${colorScheme} ${id}: ${node.html.slice(0, 160)} ${why}`);
      }
    }
  }
  return [...found];
}
