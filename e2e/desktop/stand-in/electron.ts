import { app } from './app.ts';
import { nativeTheme, seen, type MenuItem } from './parts.ts';
import { autoUpdater } from './updater.ts';
import { closeBrowser, debuggingPort, windows } from './window.ts';

/**
 * Stands in for the module `electron`: main process and preload script run for real on Node.js, windows are pages
 * of Chromium, utility processes are children with `process.parentPort`. The test looks and acts over the channel of
 * `child_process`. What only Electron itself can show (sandbox, fuses, real trays) it cannot.
 */
export * from './parts.ts';
export { app } from './app.ts';
export { BrowserWindow, ipcMain, session } from './window.ts';

const labels = (menu: readonly MenuItem[]): string[] => menu.map(({ label, type }) => label ?? type ?? '');

const operations: Record<string, (argument: string) => unknown> = {
  look: () => ({
    debuggingPort: windows.size > 0 ? debuggingPort() : null,
    windows: [...windows].map(({ visible, focused, webContents, options }) => ({
      visible,
      focused,
      url: webContents.getURL(),
      preferences: Object.fromEntries(
        Object.entries(options.webPreferences).filter(([, value]) => typeof value === 'boolean'),
      ),
    })),
    tray: seen.tray && {
      image: seen.tray.image.path.split('/').at(-1),
      toolTip: seen.tray.toolTip,
      menu: labels(seen.tray.menu),
      checked: seen.tray.menu.filter(({ checked }) => checked === true).map(({ label }) => label ?? ''),
    },
    dialogs: seen.dialogs.map(({ message, detail, buttons }) => ({ message, detail, buttons })),
    notifications: seen.notifications.map(({ title, body }) => ({ title, body })),
    openedExternal: seen.openedExternal,
    awake: seen.awake.size > 0,
    sandboxed: app.sandboxed,
    utilities: seen.utilities,
    updater: {
      looked: autoUpdater.looked,
      channel: autoUpdater.channel,
      installed: autoUpdater.installed,
    },
  }),
  tray: (label) => seen.tray?.menu.find((item) => item.label === label)?.click?.(),
  answer: (index) => seen.dialogs[0]?.answer(Number(index)),
  notification: (title) => seen.notifications.find((one) => one.title === title)?.click(),
  theme: (name) => {
    nativeTheme.shouldUseDarkColors = name === 'dark';
    nativeTheme.emit('updated');
  },
  close: () => [...windows].forEach((window) => window.close()),
  link: (url) => void app.emit('open-url', { preventDefault: () => undefined }, url),
  quit: () => app.quit(),
  /** An update lies ready. */
  update: (version) => void autoUpdater.emit('update-downloaded', { version }),
};

interface Request {
  readonly id: number;
  readonly operation: string;
  readonly argument: string;
}
process.on('message', ({ id, operation, argument }: Request) => {
  process.send?.({ id, answer: operations[operation]?.(argument) ?? null });
});
process.channel?.unref();
process.on('disconnect', () => process.exit(1));

autoUpdater.onInstall = () => app.exit(0);
const exit = app.exit.bind(app);
app.exit = (code) => void closeBrowser().finally(() => exit(code));
