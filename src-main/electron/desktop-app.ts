import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { app, dialog, Notification, type MessageBoxOptions } from 'electron';
import type { DesktopRole, ShellPlace } from '#shared/api/shell.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { createApiClient } from '../cli/api-client.ts';
import { entries } from '../nodejs/entries.ts';
import type { RoleNode } from '../roles/role-node.ts';
import type { DesktopArguments } from './arguments.ts';
import { watchController, type ControllerWatch } from './controller-watch.ts';
import { joinQuestion, readLink } from './deep-link.ts';
import { openDesktopFile } from './desktop-file.ts';
import { answerPages } from './ipc.ts';
import { setLoginItem } from './login-item.ts';
import { setApplicationMenu } from './menu.ts';
import { notable, type Notice } from './notable.ts';
import { createWakefulness } from './power.ts';
import { quitQuestion } from './quit-question.ts';
import { createRoleHost } from './role-host.ts';
import { createTray } from './tray.ts';
import { trayState } from './tray-state.ts';
import { createUpdates } from './updates.ts';
import { createUtilityProcessHost } from './utility-process-host.ts';
import { createMainWindow, preloadPath } from './window.ts';

export interface DesktopApp {
  /** Shows the window, and asks about the link when there is one. Never rejects. */
  wake(link: string | null): Promise<void>;
}

const lookEveryMs = 1_000;
const closeMs = 12_000;

/** Composition root of the desktop app: the role, the window and what shows beside it. */
export async function createDesktopApp(
  options: DesktopArguments & {
    readonly data: string;
    readonly logDirectory: string;
    readonly logger: Logger;
  },
): Promise<DesktopApp> {
  const { logger } = options;
  const resources = app.isPackaged ? process.resourcesPath : join(app.getAppPath(), 'resources');
  const packagedEngine = join(resources, 'engine');
  const file = await openDesktopFile(options.data);
  const roles = createRoleHost({
    ...options,
    engine: options.engine ?? (existsSync(packagedEngine) ? packagedEngine : undefined),
    processHost: createUtilityProcessHost(entries, logger),
  });
  const window = createMainWindow({
    file,
    preload: preloadPath,
    icon: join(resources, 'icons', 'icon.png'),
    logger,
  });
  const wakefulness = createWakefulness();
  const shown = new Set<Notification>();
  let watch: ControllerWatch | null = null;

  const notify = ({ title, body }: Notice): void => {
    if (!Notification.isSupported()) return;
    const notification = new Notification({ title, body });
    // Held until it is gone: one that is collected cannot be clicked.
    shown.add(notification);
    notification.on('close', () => shown.delete(notification));
    notification.on('click', () => {
      shown.delete(notification);
      void wake(null);
    });
    notification.show();
  };
  const ask = async (question: MessageBoxOptions): Promise<number> => {
    const { browserWindow } = window;
    const { response } = browserWindow
      ? await dialog.showMessageBox(browserWindow, question)
      : await dialog.showMessageBox(question);
    return response;
  };

  const urlOf = async (place: ShellPlace): Promise<string> => {
    const node = roles.current;
    if (!node || node.apiAddress === null) throw new CoveyError('shutting_down', 'Covey is not running.');
    if (place === 'machine') return `${node.apiAddress}/machine`;
    if (node.role === 'worker') return `${node.apiAddress}/`;
    // A link that works once and for a minute: the long-lived right stays out of the page's address.
    const client = createApiClient(node.apiAddress, { token: node.local.token });
    try {
      return (await client.call('loginCode')).url;
    } finally {
      client.close();
    }
  };
  const open = async (place: ShellPlace): Promise<void> => {
    const belongs = roles.current?.role === 'controller' || roles.current?.self.self().membership != null;
    // Without a covey there is no dashboard to show.
    const there = file.current.role === null || !belongs ? 'machine' : place;
    await window.show(there, () => urlOf(there));
  };
  const tryOpen = (place: ShellPlace): Promise<void> =>
    open(place).catch((error: unknown) => logger.error('the window did not open', { reason: String(error) }));

  const start = async (role: DesktopRole | null): Promise<RoleNode> => {
    watch?.close();
    watch = null;
    const node = await roles.start(role);
    window.setOrigin(node.apiAddress);
    if (node.role === 'controller' && node.apiAddress !== null) {
      watch = watchController({
        apiAddress: node.apiAddress,
        token: node.local.token,
        logger,
        onEvent(event) {
          const notice = notable(event);
          if (notice && !window.browserWindow?.isFocused()) notify(notice);
        },
      });
    }
    const followSettings = (): void => {
      updates?.follow(node.settings.current.app.updates);
      setLoginItem(node.settings.current.app.openAtLogin).catch((error: unknown) =>
        logger.warn('the login item could not be set', { reason: String(error) }),
      );
    };
    node.settings.onChange(followSettings);
    followSettings();
    return node;
  };
  const chooseRole = async (role: DesktopRole): Promise<void> => {
    const before = file.current.role;
    try {
      await start(role);
    } catch (error) {
      await start(before);
      throw new Error(CoveyError.from(error).message, { cause: error });
    }
    await file.keep({ role });
    look();
    // The page that asked is answered before it goes.
    setTimeout(() => void tryOpen(role === 'lend' ? 'machine' : 'dashboard'), 50);
  };

  const askToJoin = async (link: string): Promise<void> => {
    const read = readLink(link);
    if (!read.ok) {
      await ask({ type: 'warning', message: 'This link does not work', detail: read.error.message });
      return;
    }
    const node = roles.current;
    if (node?.role === 'controller') {
      const detail = 'It is the controller of a covey. Choose "Lend only" under "This computer" first.';
      await ask({ type: 'info', message: 'This computer cannot join another covey', detail });
      return;
    }
    const heard = await node?.self.discovery(AbortSignal.timeout(5_000)).catch(() => null);
    const { controllerId } = read.value.content;
    const name =
      heard?.machines.find(({ nodeId, verified }) => verified && nodeId === controllerId)?.name ?? null;
    const agreed = await ask({
      ...{ type: 'question', ...joinQuestion(read.value.content, name, Date.now()) },
      ...{ buttons: ['Cancel', 'Lend this computer'], defaultId: 0, cancelId: 0 },
    });
    if (agreed !== 1) return;
    if (file.current.role === null) await file.keep({ role: 'lend' });
    try {
      await node?.self.startJoin({ joinString: read.value.joinString });
      await tryOpen('machine');
    } catch (error) {
      await ask({ type: 'warning', message: 'Not joined', detail: CoveyError.from(error).message });
    }
  };
  const wake = async (link: string | null): Promise<void> => {
    await tryOpen('dashboard');
    if (link !== null) {
      await askToJoin(link).catch((error: unknown) =>
        logger.error('a link failed', { reason: String(error) }),
      );
    }
  };

  let quitting = false;
  const quit = async (): Promise<void> => {
    const question = quitting || !roles.current ? null : quitQuestion(roles.current.serving());
    if (question) {
      const answer = await ask({
        ...{ type: 'question', ...question },
        ...{ buttons: ['Keep running', 'Quit'], defaultId: 0, cancelId: 0 },
      });
      if (answer !== 1) return;
    }
    if (quitting) return;
    quitting = true;
    clearInterval(timer);
    watch?.close();
    window.destroy();
    const deadline = new Promise<void>((resolve) => setTimeout(resolve, closeMs));
    await Promise.race([
      roles.close().catch((error: unknown) => logger.error('closing failed', { reason: String(error) })),
      deadline,
    ]);
    tray.close();
    updates?.close();
    if (updates?.installNow() !== true) app.exit(0);
  };
  const updates = await createUpdates({
    situation: () => {
      const serving = roles.current?.serving();
      return {
        role: roles.current?.role ?? 'worker',
        busy: serving !== undefined && (serving.engines > 0 || serving.models.length > 0),
        controllerVersion: roles.current?.controllerVersion() ?? null,
      };
    },
    quit: () => void quit(),
    logger,
  });
  app.on('before-quit', (event) => {
    event.preventDefault();
    void quit();
  });

  const tray = createTray({
    images: join(resources, 'tray'),
    open: (place) => void tryOpen(place),
    setLend(enabled) {
      roles.current?.self
        .setSettings({ lend: { enabled } })
        .catch((error: unknown) => logger.error('the lend switch failed', { reason: String(error) }));
    },
    quit: () => void quit(),
  });
  const look = (): void => {
    const node = roles.current;
    if (!node) return;
    const serving = node.serving();
    wakefulness.set(serving.models.length > 0 || serving.engines > 0);
    const lends = file.current.role === 'lend' || file.current.role === 'both';
    tray.update(
      trayState({
        self: node.self.self(),
        serving,
        asking: watch?.asking ?? 0,
        lendEnabled: lends ? node.settings.current.lend.enabled : null,
      }),
    );
  };
  const timer = setInterval(look, lookEveryMs);

  window.onClosed(() => {
    if (quitting || file.current.toldAboutTray) return;
    notify({
      title: 'Covey keeps running',
      body: 'Open it again, or quit it, from its picture in the tray.',
    });
    void file.keep({ toldAboutTray: true }).catch(() => undefined);
  });
  setApplicationMenu({ open: (place) => void tryOpen(place), logDirectory: options.logDirectory });
  answerPages({
    window,
    node: () => roles.current,
    role: () => file.current.role,
    chooseRole,
    open,
    logger,
  });
  await start(file.current.role);
  look();
  return { wake };
}
