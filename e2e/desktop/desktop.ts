import { fork, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { chromium, type Browser, type Page } from 'playwright-core';
import { checkout, engineDirectory } from '../support/checkout.ts';
import { descendantsOf, killTree, listProcesses, stillRuns } from '../support/processes.ts';
import { waitFor, withDeadline } from '../support/wait.ts';

/** What the stand-in tells of the app. */
export interface DesktopLook {
  readonly debuggingPort: number | null;
  readonly windows: readonly {
    readonly visible: boolean;
    readonly url: string;
    /** How often it was brought to the front. */
    readonly focused: number;
    readonly preferences: Readonly<Record<string, boolean>>;
  }[];
  readonly tray: {
    readonly image: string;
    readonly toolTip: string;
    readonly menu: readonly string[];
    readonly checked: readonly string[];
  } | null;
  readonly dialogs: readonly { readonly message: string; readonly detail: string }[];
  readonly notifications: readonly { readonly title: string; readonly body: string }[];
  readonly openedExternal: readonly string[];
  readonly awake: boolean;
  readonly sandboxed: boolean;
  readonly utilities: readonly string[];
  readonly updater: {
    readonly looked: number;
    readonly channel: string;
    /** Whether the app was to start again after the installation; null: nothing was installed. */
    readonly installed: boolean | null;
  };
}

export interface Desktop {
  readonly data: string;
  readonly pid: number;
  readonly exited: Promise<number | null>;
  look(): Promise<DesktopLook>;
  /** One of the stand-in's operations (`stand-in/electron.ts`). */
  act(operation: string, argument?: string): Promise<unknown>;
  until(what: string, check: (look: DesktopLook) => boolean, timeoutMs?: number): Promise<DesktopLook>;
  /** The page in the window. */
  page(): Promise<Page>;
  output(): string;
  /** Ends it and all that it started; throws when something was left after an end in order. */
  close(): Promise<void>;
}

const standIn = path.join(import.meta.dirname, 'stand-in', 'register.mjs');
const deadlineMs = 20_000;

export interface DesktopOptions {
  /** Default: a new directory, removed at the end. */
  readonly data?: string;
  readonly args?: readonly string[];
  /** As an installed app, which has updates: `electron-updater` is stood in for as well. */
  readonly installed?: boolean;
}

/** Starts the built app on the stand-in for Electron. */
export function startDesktop(options: DesktopOptions = {}): Desktop {
  const home = mkdtempSync(path.join(os.tmpdir(), 'covey-desk-'));
  const data = options.data ?? path.join(home, 'data');
  const child: ChildProcess = fork(
    path.join(checkout, 'dist', 'electron.js'),
    [
      `--data=${data}`,
      `--engine=${engineDirectory()}`,
      '--api=127.0.0.1:0',
      '--cluster=127.0.0.1:0',
      '--no-discovery',
      ...(options.args ?? []),
    ],
    {
      execArgv: ['--import', standIn],
      env: {
        ...{ PATH: process.env['PATH'], HOME: home, LANG: 'C.UTF-8' },
        ...(options.installed ? { COVEY_STAND_IN_INSTALLED: '1' } : {}),
      },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    },
  );
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => (output = (output + chunk.toString()).slice(-100_000)));
  }
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const answers = new Map<number, (answer: unknown) => void>();
  child.on('message', ({ id, answer }: { id: number; answer: unknown }) => answers.get(id)?.(answer));
  let lastId = 0;
  const request = (operation: string, argument: string): Promise<unknown> => {
    const id = (lastId += 1);
    const answer = new Promise((resolve) => answers.set(id, resolve));
    child.send({ id, operation, argument });
    return withDeadline(`the stand-in to ${operation}`, answer, 5_000);
  };
  const look = async (): Promise<DesktopLook> => (await request('look', '')) as DesktopLook;
  let browser: Browser | null = null;
  return {
    data,
    pid: child.pid ?? -1,
    exited,
    look,
    act: (operation, argument = '') => request(operation, argument),
    until: (what, check, timeoutMs = deadlineMs) =>
      waitFor(
        what,
        async () => {
          const seen = await look();
          return check(seen) ? seen : null;
        },
        timeoutMs,
        100,
      ),
    async page() {
      const { debuggingPort } = await this.until(
        'a page in the window',
        (seen) => seen.debuggingPort !== null && (seen.windows[0]?.url.startsWith('http:') ?? false),
      );
      browser ??= await chromium.connectOverCDP(`http://127.0.0.1:${debuggingPort}`);
      const [context] = browser.contexts();
      const page = await waitFor(
        'the page over the debugging port',
        () => context?.pages().find((one) => one.url().startsWith('http:')),
        5_000,
      );
      page.setDefaultTimeout(deadlineMs);
      return page;
    },
    output: () => output + readLog(data),
    async close() {
      await browser?.close().catch(() => undefined);
      const tree = descendantsOf(child.pid ?? -1, listProcesses());
      if (child.exitCode === null && child.connected) {
        await request('quit', '').catch(() => undefined);
        const waiting = child.connected ? await look().catch(() => null) : null;
        if (waiting?.dialogs.length) await request('answer', '1').catch(() => undefined);
        await withDeadline('the app to end', exited, deadlineMs).catch(() => undefined);
      }
      const left = tree.filter(stillRuns);
      await waitFor('its children to end', () => left.every((info) => !stillRuns(info)), 5_000).catch(
        () => undefined,
      );
      const leftovers = [
        ...(child.exitCode === null ? [{ pid: child.pid ?? -1, command: 'the app' }] : []),
        ...left.filter(stillRuns),
      ];
      if (child.pid !== undefined && child.exitCode === null) killTree(child.pid);
      for (const info of left.filter(stillRuns)) killTree(info.pid);
      rmSync(home, { recursive: true, force: true, maxRetries: 5 });
      if (leftovers.length > 0) {
        throw new Error(
          `left running: ${leftovers.map(({ pid, command }) => `${pid} ${command}`).join('; ')}`,
        );
      }
    },
  };
}

function readLog(data: string): string {
  try {
    return readFileSync(path.join(data, 'logs', 'covey.log'), 'utf8');
  } catch {
    return '';
  }
}
