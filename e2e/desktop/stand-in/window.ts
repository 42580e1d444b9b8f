import { AsyncLocalStorage } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium, type BrowserContext, type Frame, type Page, type Route } from 'playwright-core';
import { app } from './app.ts';

type Handler = (event: object, ...args: unknown[]) => unknown;
type Api = Readonly<Record<string, unknown>>;

const handlers = new Map<string, Handler>();
export const ipcMain = { handle: (channel: string, handler: Handler) => void handlers.set(channel, handler) };

class StandInSession extends EventEmitter {
  beforeRequest: (details: { url: string }, answer: (verdict: { cancel: boolean }) => void) => void = (
    _details,
    answer,
  ) => answer({ cancel: false });
  readonly webRequest = {
    onBeforeRequest: (handler: StandInSession['beforeRequest']) => void (this.beforeRequest = handler),
  };
  setPermissionRequestHandler(): void {}
  setPermissionCheckHandler(): void {}
}
const own = new StandInSession();
export const session = { fromPartition: () => own };

/** Chromium, started with the first window. `--remote-debugging-port` lets the test look in. */
let browser: Promise<BrowserContext> | null = null;
function openBrowser(): Promise<BrowserContext> {
  browser ??= chromium.launchPersistentContext(app.userData, {
    executablePath: process.env['COVEY_STAND_IN_CHROMIUM'] ?? '/usr/bin/chromium',
    headless: true,
    chromiumSandbox: false,
    viewport: null,
    args: ['--disable-gpu', '--no-first-run', '--remote-debugging-port=0', '--disable-background-networking'],
  });
  return browser;
}
export async function closeBrowser(): Promise<void> {
  if (browser) await (await browser).close();
}

/** Stands for WebFrameMain: one object for each frame, so that identity works. */
class StandInFrame {
  readonly frame: Frame;

  constructor(frame: Frame) {
    this.frame = frame;
  }
  get url(): string {
    return this.frame.url();
  }
}

class WebContents extends EventEmitter {
  page: Page | null = null;
  loading = '';
  windowOpen: (details: { url: string }) => { action: string } = () => ({ action: 'allow' });
  private readonly frames = new WeakMap<Frame, StandInFrame>();

  frameOf(frame: Frame): StandInFrame {
    const made = this.frames.get(frame) ?? new StandInFrame(frame);
    this.frames.set(frame, made);
    return made;
  }
  get mainFrame(): StandInFrame | null {
    return this.page && this.frameOf(this.page.mainFrame());
  }
  getURL(): string {
    return this.page?.url() ?? '';
  }
  setWindowOpenHandler(handler: WebContents['windowOpen']): void {
    this.windowOpen = handler;
  }
}

const decide = {
  go: (route: Route) => route.continue(),
  cancel: (route: Route) => route.abort('blockedbyclient'),
  /** An answer without content leaves the page as it is, as a prevented navigation does. */
  stay: (route: Route) => route.fulfill({ status: 204 }),
};

interface WindowOptions {
  readonly webPreferences: { readonly preload: string; readonly additionalArguments: string[] };
}

export const windows = new Set<BrowserWindow>();

export class BrowserWindow extends EventEmitter {
  readonly options: WindowOptions;
  readonly webContents = new WebContents();
  visible = false;
  focused = 0;
  private readonly made: Promise<Page>;

  constructor(options: WindowOptions) {
    super();
    this.options = options;
    this.made = this.make();
    windows.add(this);
  }

  private async make(): Promise<Page> {
    const context = await openBrowser();
    const page = await context.newPage();
    this.webContents.page = page;
    await page.route('**', (route) => this.onRequest(route));
    // A denied window is none: the page gets null, and nothing is asked of anybody.
    await page.exposeBinding('__openWindow', (_source, url: string) => {
      const { action } = this.webContents.windowOpen({ url });
      if (action !== 'deny') throw new Error('the stand-in has no second window');
    });
    await page.addInitScript(`window.open = (url = '') => {
      void window.__openWindow(String(new URL(url, location.href)));
      return null;
    };
    addEventListener('click', (event) => {
      const link = event.target.closest?.('a[target=_blank]');
      if (!link) return;
      event.preventDefault();
      window.open(link.href);
    }, true);`);
    await runPreload(this, page);
    return page;
  }

  /** As the real window: the session's filter, then the guards of whoever navigates. */
  private async onRequest(route: Route): Promise<void> {
    const request = route.request();
    const url = request.url();
    let verdict: 'go' | 'stay' | 'cancel' = 'go';
    if (request.isNavigationRequest() && url !== this.webContents.loading) {
      this.webContents.emit('will-navigate', { url, preventDefault: () => (verdict = 'stay') });
    }
    if (verdict === 'go') own.beforeRequest({ url }, ({ cancel }) => (verdict = cancel ? 'cancel' : 'go'));
    await decide[verdict](route).catch(() => undefined);
  }

  async loadURL(url: string): Promise<void> {
    const page = await this.made;
    this.webContents.loading = url.replace(/#.*$/, '');
    await page.goto(url);
    this.emit('ready-to-show');
  }
  show(): void {
    this.visible = true;
  }
  focus(): void {
    this.focused += 1;
  }
  maximize(): void {}
  restore(): void {}
  isMinimized = (): boolean => false;
  isMaximized = (): boolean => false;
  isFocused = (): boolean => false;
  getNormalBounds = () => ({ x: 10, y: 20, width: 900, height: 700 });
  close(): void {
    this.emit('close', {});
    this.destroy();
  }
  destroy(): void {
    windows.delete(this);
    this.emit('closed');
    void this.made.then((page) => page.close()).catch(() => undefined);
  }
}

const calling = new AsyncLocalStorage<{ window: BrowserWindow; frame: Frame }>();

const ipcRenderer = {
  async invoke(channel: string, ...args: unknown[]): Promise<unknown> {
    const from = calling.getStore();
    const handler = handlers.get(channel);
    if (!from || !handler) throw new Error(`No handler registered for '${channel}'`);
    const { webContents } = from.window;
    try {
      return await handler({ sender: webContents, senderFrame: webContents.frameOf(from.frame) }, ...args);
    } catch (error) {
      throw new Error(`Error invoking remote method '${channel}': ${String(error)}`, { cause: error });
    }
  },
};

/** Runs the built preload script itself; what it exposes becomes bindings of the page. */
async function runPreload(window: BrowserWindow, page: Page): Promise<void> {
  const exposed: [string, Api][] = [];
  const contextBridge = { exposeInMainWorld: (key: string, api: Api) => void exposed.push([key, api]) };
  const { preload, additionalArguments } = window.options.webPreferences;
  const require = createRequire(preload);
  const sandboxed = (name: string): unknown =>
    name === 'electron' ? { contextBridge, ipcRenderer } : require(name);
  // eslint-disable-next-line @typescript-eslint/no-implied-eval -- the script is our own build
  const run = new Function('require', 'process', readFileSync(preload, 'utf8')) as (
    require: (name: string) => unknown,
    process: object,
  ) => void;
  run(sandboxed, { argv: ['electron', ...additionalArguments] });
  for (const [key, api] of exposed) {
    const functions = Object.keys(api).filter((name) => typeof api[name] === 'function');
    for (const name of functions) {
      const call = api[name] as (...args: unknown[]) => unknown;
      await page.exposeBinding(`__${key}_${name}`, ({ frame }, ...args: unknown[]) =>
        calling.run({ window, frame }, () => call(...args)),
      );
    }
    const values = Object.fromEntries(Object.entries(api).filter(([, value]) => typeof value !== 'function'));
    await page.addInitScript(`window[${JSON.stringify(key)}] = Object.freeze({
      ...${JSON.stringify(values)},
      ${functions.map((name) => `${name}: (...args) => window['__${key}_${name}'](...args)`).join(',\n')}
    });`);
  }
}

/** The port on which Chromium lets the test look in, once there is a window. */
export function debuggingPort(): number | null {
  try {
    return Number(readFileSync(`${app.userData}/DevToolsActivePort`, 'utf8').split('\n')[0]);
  } catch {
    return null;
  }
}
