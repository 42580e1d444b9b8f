import { EventEmitter } from 'node:events';

/** Stands for electron-updater's: it notes what it is asked for, and an installation ends the app. */
class Updater extends EventEmitter {
  logger: object | null = null;
  autoDownload = false;
  autoInstallOnAppQuit = true;
  allowDowngrade = true;
  allowPrerelease = false;
  channel = '';
  looked = 0;
  installed: boolean | null = null;
  onInstall: () => void = () => undefined;

  async checkForUpdates(): Promise<null> {
    this.looked += 1;
    return null;
  }
  quitAndInstall(isSilent: boolean, startAgain: boolean): void {
    this.installed = startAgain;
    process.stderr.write(`installs the update${isSilent ? ' in silence' : ''}, start again: ${startAgain}\n`);
    this.onInstall();
  }
}

export const autoUpdater = new Updater();
/** What there is of a CommonJS package for those who import it whole. */
const whole = { autoUpdater };
export { whole as default };
