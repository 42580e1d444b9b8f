import { join } from 'node:path';
import {
  Menu,
  nativeImage,
  nativeTheme,
  Tray,
  type MenuItemConstructorOptions,
  type NativeImage,
} from 'electron';
import type { ShellPlace } from '#shared/api/shell.ts';
import type { TrayState } from './tray-state.ts';

export interface AppTray {
  update(state: TrayState): void;
  close(): void;
}

/**
 * The picture in the tray or menu bar, with the lend switch. macOS colours its own (template images); elsewhere
 * there is one for light and one for dark bars.
 * @param images directory of the pictures
 */
export function createTray(options: {
  readonly images: string;
  readonly open: (place: ShellPlace) => void;
  readonly setLend: (enabled: boolean) => void;
  readonly quit: () => void;
}): AppTray {
  const picture = (name: TrayState['picture']): NativeImage => {
    const mac = process.platform === 'darwin';
    const variant = mac ? 'Template' : nativeTheme.shouldUseDarkColors ? '-dark' : '-light';
    const image = nativeImage.createFromPath(join(options.images, `${name}${variant}.png`));
    if (mac) image.setTemplateImage(true);
    return image;
  };
  let state: TrayState = { picture: 'idle', line: 'Starting', lend: null };
  const tray = new Tray(picture(state.picture));
  const show = (): void => {
    tray.setImage(picture(state.picture));
    tray.setToolTip(`Covey: ${state.line}`);
    tray.setContextMenu(Menu.buildFromTemplate(menu(state, options)));
  };
  nativeTheme.on('updated', show);
  // On macOS, and where the bar shows menus only, a click opens the menu.
  if (process.platform !== 'darwin') tray.on('click', () => options.open('dashboard'));
  show();
  return {
    update(next) {
      if (JSON.stringify(next) === JSON.stringify(state)) return;
      state = next;
      show();
    },
    close() {
      nativeTheme.off('updated', show);
      tray.destroy();
    },
  };
}

function menu(
  { line, lend }: TrayState,
  { open, setLend, quit }: Parameters<typeof createTray>[0],
): MenuItemConstructorOptions[] {
  return [
    { label: line, enabled: false },
    { type: 'separator' },
    ...(lend
      ? [
          {
            label: lend.line,
            type: 'checkbox' as const,
            checked: lend.enabled,
            click: () => setLend(!lend.enabled),
          },
        ]
      : []),
    { label: 'Open Covey', click: () => open('dashboard') },
    { label: 'This computer', click: () => open('machine') },
    { type: 'separator' },
    { label: 'Quit Covey', click: quit },
  ];
}
