import { join } from 'node:path';
import { BrowserWindow, screen, session, shell, type Rectangle, type Session } from 'electron';
import type { ShellPlace } from '#shared/api/shell.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { productVersion } from '../nodejs/version.ts';
import type { DesktopFile } from './desktop-file.ts';

/** The one window of the app. Closing it leaves the app running; it is made again when it is asked for. */
export interface MainWindow {
  readonly browserWindow: BrowserWindow | null;
  /** Shows it, at this address. The dashboard that is open already only comes to the front. */
  show(place: ShellPlace, url: () => Promise<string>): Promise<void>;
  /** Where a page may be from: `http://127.0.0.1:7878`; null: nowhere, then pages load nothing. */
  setOrigin(origin: string | null): void;
  onClosed(listener: () => void): void;
  destroy(): void;
}

const defaultSize = { width: 1_200, height: 820 };

export function createMainWindow(options: {
  readonly file: DesktopFile;
  readonly preload: string;
  readonly icon: string;
  readonly logger: Logger;
}): MainWindow {
  const { file, logger } = options;
  const closedListeners: Array<() => void> = [];
  let window: BrowserWindow | null = null;
  let place: ShellPlace | null = null;
  let origin: string | null = null;
  let lockedSession: Session | null = null;

  const lock = (): Session => {
    lockedSession ??= lockSession(() => origin);
    return lockedSession;
  };

  const open = (): BrowserWindow => {
    const kept = file.current.window;
    const bounds =
      kept && isOnScreen(kept)
        ? { x: kept.x, y: kept.y, width: kept.width, height: kept.height }
        : defaultSize;
    const made = new BrowserWindow({
      ...bounds,
      ...{ minWidth: 400, minHeight: 400 },
      title: 'Covey',
      icon: options.icon,
      autoHideMenuBar: true,
      show: false,
      webPreferences: {
        preload: options.preload,
        session: lock(),
        contextIsolation: true,
        sandbox: true,
        nodeIntegration: false,
        nodeIntegrationInWorker: false,
        nodeIntegrationInSubFrames: false,
        webviewTag: false,
        webSecurity: true,
        navigateOnDragDrop: false,
        spellcheck: false,
        additionalArguments: [`--covey-version=${productVersion}`],
      },
    });
    if (kept?.maximized) made.maximize();
    lockNavigation(made, () => origin, logger);
    made.on('ready-to-show', () => made.show());
    made.on('close', () => {
      const { x, y, width, height } = made.getNormalBounds();
      void file
        .keep({ window: { x, y, width, height, maximized: made.isMaximized() } })
        .catch((error: unknown) => logger.warn('the window was not remembered', { reason: String(error) }));
    });
    made.on('closed', () => {
      window = null;
      place = null;
      for (const listener of closedListeners) listener();
    });
    return made;
  };

  return {
    get browserWindow() {
      return window;
    },
    async show(wanted, url) {
      window ??= open();
      const shown = window;
      if (shown.isMinimized()) shown.restore();
      const sameOrigin = origin !== null && shown.webContents.getURL().startsWith(`${origin}/`);
      if (place !== wanted || !sameOrigin) {
        place = wanted;
        await shown.loadURL(await url());
      }
      shown.show();
      shown.focus();
    },
    setOrigin(next) {
      origin = next;
    },
    onClosed: (listener) => void closedListeners.push(listener),
    destroy() {
      window?.destroy();
    },
  };
}

/** Pages reach this machine's API and nothing else, and get no device, no location, no notification. */
function lockSession(origin: () => string | null): Session {
  const own = session.fromPartition('persist:covey');
  const allowed = (url: string): boolean => {
    const base = origin();
    return (
      (base !== null && url.startsWith(`${base}/`)) || url.startsWith('devtools:') || url.startsWith('data:')
    );
  };
  own.webRequest.onBeforeRequest(({ url }, answer) => answer({ cancel: !allowed(url) }));
  const copying = 'clipboard-sanitized-write';
  own.setPermissionRequestHandler((_contents, permission, answer, { requestingUrl }) =>
    answer(permission === copying && allowed(requestingUrl)),
  );
  own.setPermissionCheckHandler(
    (_contents, permission, requestingOrigin) =>
      permission === copying && allowed(`${requestingOrigin.replace(/\/$/, '')}/`),
  );
  own.on('will-download', (event, item) => {
    // Event lists and logs are made in the page itself; anything else is not ours.
    if (!item.getURL().startsWith('blob:') && !allowed(item.getURL())) event.preventDefault();
  });
  return own;
}

/** The window stays where it is: links elsewhere open in the person's browser, if they lead to a web page. */
function lockNavigation(window: BrowserWindow, origin: () => string | null, logger: Logger): void {
  const { webContents } = window;
  const inside = (url: string): boolean => {
    const base = origin();
    return base !== null && url.startsWith(`${base}/`);
  };
  const elsewhere = (url: string): void => {
    if (/^https:\/\//i.test(url)) {
      void shell.openExternal(url);
    } else {
      logger.warn('a page wanted to leave', { to: url.slice(0, 200) });
    }
  };
  const guard = (event: { preventDefault: () => void; readonly url: string }): void => {
    if (inside(event.url)) return;
    event.preventDefault();
    elsewhere(event.url);
  };
  webContents.on('will-navigate', guard);
  webContents.on('will-redirect', guard);
  webContents.on('will-frame-navigate', guard);
  webContents.setWindowOpenHandler(({ url }) => {
    elsewhere(url);
    return { action: 'deny' };
  });
  webContents.on('will-attach-webview', (event) => event.preventDefault());
}

/** A screen may have been taken away since. */
function isOnScreen({ x, y, width, height }: Rectangle): boolean {
  return screen.getAllDisplays().some(({ workArea }) => {
    const overlapX = Math.min(x + width, workArea.x + workArea.width) - Math.max(x, workArea.x);
    const overlapY = Math.min(y + height, workArea.y + workArea.height) - Math.max(y, workArea.y);
    return overlapX > 100 && overlapY > 100;
  });
}

/** The preload script lies beside the bundles. */
export const preloadPath = join(import.meta.dirname, 'preload.cjs');
