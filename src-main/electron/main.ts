import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { app, dialog } from 'electron';
import { CoveyError } from '#shared/errors.ts';
import { defaultDataDirectory } from '../nodejs/data-directory.ts';
import { createLogger } from '../nodejs/logging.ts';
import { linkIn, parseDesktopArguments, type DesktopArguments } from './arguments.ts';
import { keepCrashes } from './crash-log.ts';
import { createDesktopApp, type DesktopApp } from './desktop-app.ts';
import { openLogFiles } from './log-file.ts';

/**
 * Entry of the desktop app. What has to be said before Electron is ready is said here; nothing here waits, since
 * Electron is not ready before this module has run.
 */
const argv = process.argv.slice(app.isPackaged ? 1 : 2);

function start(): void {
  const options = parseDesktopArguments(argv);
  const data = resolve(options.data ?? defaultDataDirectory());
  mkdirSync(data, { recursive: true, mode: 0o700 });
  const profile = join(data, 'desktop');
  mkdirSync(profile, { recursive: true, mode: 0o700 });
  // One app for each data directory: the lock below is kept in the profile.
  app.setPath('userData', profile);
  if (!app.requestSingleInstanceLock()) {
    // The other one has our arguments now, a link among them.
    app.quit();
    return;
  }
  app.enableSandbox();
  app.setAppUserModelId('org.covey.app');
  if (app.isPackaged) app.setAsDefaultProtocolClient('covey');
  const logFiles = openLogFiles(data, Date.now);
  const logger = createLogger({ format: 'json', write: (line) => logFiles.write(line) });
  keepCrashes(logFiles, logger);

  const holder: { app?: DesktopApp } = {};
  let link = options.link;
  const openLink = (next: string | null): void => {
    if (holder.app) void holder.app.wake(next);
    else link = next ?? link;
  };
  app.on('second-instance', (_event, theirs) => openLink(linkIn(theirs)));
  app.on('open-url', (event, url) => {
    event.preventDefault();
    openLink(url);
  });
  app.on('activate', () => openLink(null));
  // The tray keeps the app: it ends when somebody says so.
  app.on('window-all-closed', () => undefined);

  void app.whenReady().then(() => run({ ...options, data }, logFiles, logger, holder, () => link));
}

async function run(
  options: DesktopArguments & { readonly data: string },
  logFiles: ReturnType<typeof openLogFiles>,
  logger: ReturnType<typeof createLogger>,
  holder: { app?: DesktopApp },
  link: () => string | null,
): Promise<void> {
  try {
    const desktop = await createDesktopApp({ ...options, logDirectory: logFiles.directory, logger });
    holder.app = desktop;
    const waiting = link();
    if (waiting !== null || !options.hidden) await desktop.wake(waiting);
  } catch (error) {
    fail(error);
  }
}

/** A refusal to start is one sentence for the person who started it. */
function fail(thrown: unknown): void {
  dialog.showErrorBox('Covey cannot start', CoveyError.from(thrown).message);
  app.exit(1);
}

try {
  start();
} catch (error) {
  fail(error);
}
