import { fork } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { fileURLToPath } from 'node:url';

/** The small parts of the stand-in: they note what was asked of them, for the test to look at. */
export const seen = {
  notifications: [] as { title: string; body: string; click: () => void }[],
  dialogs: [] as { message: string; detail: string; buttons: string[]; answer: (index: number) => void }[],
  errors: [] as string[],
  openedExternal: [] as string[],
  awake: new Set<number>(),
  tray: null as Tray | null,
  applicationMenu: null as MenuItem[] | null,
  utilities: [] as string[],
};

export interface MenuItem {
  readonly label?: string;
  readonly type?: string;
  readonly checked?: boolean;
  readonly enabled?: boolean;
  readonly click?: () => void;
  readonly submenu?: readonly MenuItem[];
}

export const Menu = {
  buildFromTemplate: (template: MenuItem[]) => template,
  setApplicationMenu: (menu: MenuItem[]) => void (seen.applicationMenu = menu),
};

export class Tray extends EventEmitter {
  image: Image;
  toolTip = '';
  menu: readonly MenuItem[] = [];

  constructor(image: Image) {
    super();
    this.image = image;
    seen.tray = this;
  }
  setImage(image: Image): void {
    this.image = image;
  }
  setToolTip(text: string): void {
    this.toolTip = text;
  }
  setContextMenu(menu: readonly MenuItem[]): void {
    this.menu = menu;
  }
  destroy(): void {
    seen.tray = null;
  }
}

class Image {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }
  setTemplateImage(): void {}
}
export const nativeImage = { createFromPath: (path: string) => new Image(path) };

export const nativeTheme = Object.assign(new EventEmitter(), { shouldUseDarkColors: false });

export class Notification extends EventEmitter {
  readonly options: { title: string; body: string };

  static isSupported(): boolean {
    return true;
  }
  constructor(options: { title: string; body: string }) {
    super();
    this.options = options;
  }
  show(): void {
    seen.notifications.push({ ...this.options, click: () => void this.emit('click') });
  }
}

interface Question {
  readonly message: string;
  readonly detail?: string;
  readonly buttons?: string[];
}
export const dialog = {
  showMessageBox: (...args: [Question] | [object, Question]): Promise<{ response: number }> => {
    const question = args.at(-1) as Question;
    return new Promise((resolve) => {
      const entry = {
        message: question.message,
        detail: question.detail ?? '',
        buttons: question.buttons ?? ['OK'],
        answer: (response: number) => {
          seen.dialogs.splice(seen.dialogs.indexOf(entry), 1);
          resolve({ response });
        },
      };
      seen.dialogs.push(entry);
    });
  },
  showErrorBox: (title: string, text: string): void => {
    seen.errors.push(`${title}: ${text}`);
    process.stderr.write(`${title}: ${text}\n`);
  },
};

let blockers = 0;
export const powerSaveBlocker = {
  start: (): number => {
    blockers += 1;
    seen.awake.add(blockers);
    return blockers;
  },
  stop: (id: number) => void seen.awake.delete(id),
};

export const shell = {
  openExternal: async (url: string): Promise<void> => void seen.openedExternal.push(url),
  openPath: async (): Promise<string> => '',
};
export const screen = {
  getAllDisplays: () => [{ workArea: { x: 0, y: 0, width: 1920, height: 1080 } }],
};
export const crashReporter = { start: (): void => undefined };

const bootstrap = fileURLToPath(new URL('./utility-bootstrap.mjs', import.meta.url));

interface UtilityOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly serviceName: string;
}

/** A child of Node.js that has `process.parentPort`, as a utility process has. */
export const utilityProcess = {
  fork(module: string, args: string[], { env, serviceName }: UtilityOptions) {
    const child = fork(module, args, {
      env,
      execArgv: ['--import', bootstrap],
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    seen.utilities.push(serviceName);
    const port = new EventEmitter();
    child.on('message', (message) => port.emit('message', message));
    child.on('exit', (code) => port.emit('exit', code ?? 1));
    return Object.assign(port, {
      get pid() {
        return child.pid;
      },
      stderr: child.stderr,
      postMessage: (message: object) => void (child.connected && child.send(message, () => undefined)),
      kill: () => child.kill('SIGTERM'),
    });
  },
};
