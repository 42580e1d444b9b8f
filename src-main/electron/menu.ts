import { app, Menu, shell, type MenuItemConstructorOptions } from 'electron';

/** The menu of the app; on Windows and Linux it shows with the Alt key. */
export function setApplicationMenu(options: {
  readonly open: (place: ShellPlace) => void;
  readonly logDirectory: string;
}): void {
  const mac = process.platform === 'darwin';
  const template: MenuItemConstructorOptions[] = [
    ...(mac ? [{ role: 'appMenu' as const }] : []),
    {
      label: 'Covey',
      submenu: [
        { label: 'Dashboard', accelerator: 'CmdOrCtrl+1', click: () => options.open('dashboard') },
        { label: 'This computer', accelerator: 'CmdOrCtrl+2', click: () => options.open('machine') },
        { type: 'separator' },
        { role: 'close' },
        ...(mac ? [] : [{ label: 'Quit Covey', accelerator: 'CmdOrCtrl+Q', click: () => app.quit() }]),
      ],
    },
    { role: 'editMenu' },
    {
      label: 'View',
      submenu: [
        { role: 'reload' },
        { role: 'resetZoom' },
        { role: 'zoomIn' },
        { role: 'zoomOut' },
        { type: 'separator' },
        { role: 'togglefullscreen' },
      ],
    },
    {
      label: 'Help',
      submenu: [{ label: 'Show logs', click: () => void shell.openPath(options.logDirectory) }],
    },
  ];
  Menu.setApplicationMenu(Menu.buildFromTemplate(template));
}
import type { ShellPlace } from '#shared/api/shell.ts';
