import { app } from 'electron';
import type { Settings } from '#shared/settings.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { mayInstall, type UpdateSituation } from './update-policy.ts';

export interface Updates {
  follow(settings: Settings['app']['updates']): void;
  /** Once nothing runs any more: installs what lies ready and ends the app. False: there is nothing to install. */
  installNow(): boolean;
  close(): void;
}

const lookEveryMs = 6 * 60 * 60_000;
const tryInstallEveryMs = 10_000;

/**
 * Fetches new versions at once and installs them when `mayInstall` says so. Only an installed app has updates. What
 * is fetched is checked by the updater: its hash, and the signature where the system has one.
 * @param quit ends the app in order; `installNow` follows
 */
export async function createUpdates(options: {
  readonly situation: () => Omit<UpdateSituation, 'version'>;
  readonly quit: () => void;
  readonly logger: Logger;
}): Promise<Updates | null> {
  if (!app.isPackaged) return null;
  const { logger } = options;
  const { default: electronUpdater } = await import('electron-updater');
  const { autoUpdater } = electronUpdater;
  autoUpdater.logger = {
    info: (message: unknown) => logger.info(String(message)),
    warn: (message: unknown) => logger.warn(String(message)),
    error: (message: unknown) => logger.error(String(message)),
  };
  autoUpdater.autoDownload = true;
  autoUpdater.autoInstallOnAppQuit = false;
  autoUpdater.allowDowngrade = false;
  let ready: string | null = null;
  let told = '';
  let installing = false;
  let wanted: Settings['app']['updates'] | null = null;

  const look = (): void => {
    if (!wanted?.automatic || ready !== null) return;
    autoUpdater.checkForUpdates().catch((error: unknown) => {
      logger.warn('no look for updates', { reason: error instanceof Error ? error.message : String(error) });
    });
  };
  const tryInstall = (): void => {
    if (ready === null || installing) return;
    const answer = mayInstall({ ...options.situation(), version: ready });
    if (answer === true) {
      installing = true;
      options.quit();
    } else if (answer !== told) {
      told = answer;
      logger.info('an update lies ready', { version: ready, why: answer });
    }
  };
  autoUpdater.on('update-downloaded', ({ version }) => {
    ready = version;
    tryInstall();
  });
  autoUpdater.on('error', (error) => logger.warn('the updater failed', { reason: error.message }));
  const timers = [setInterval(look, lookEveryMs), setInterval(tryInstall, tryInstallEveryMs)];
  return {
    follow(settings) {
      const before = wanted;
      wanted = settings;
      autoUpdater.channel = settings.channel === 'beta' ? 'beta' : 'latest';
      autoUpdater.allowPrerelease = settings.channel === 'beta';
      if (before?.channel !== settings.channel || before.automatic !== settings.automatic) look();
    },
    installNow() {
      if (ready === null) return false;
      autoUpdater.quitAndInstall(true, installing);
      return true;
    },
    close() {
      for (const timer of timers) clearInterval(timer);
    },
  };
}
