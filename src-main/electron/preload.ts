import { contextBridge, ipcRenderer } from 'electron';
import type { ShellBridge } from '#shared/api/shell.ts';
import { channels } from './channels.ts';

/** Runs in the sandbox before every page of the window. Passes on five calls; the main process checks each. */
const versionArgument = '--covey-version=';
const version = process.argv.find((argument) => argument.startsWith(versionArgument)) ?? '';

const bridge: ShellBridge = {
  version: version.slice(versionArgument.length),
  localToken: () => ipcRenderer.invoke(channels.localToken) as Promise<string>,
  role: () => ipcRenderer.invoke(channels.role) as ReturnType<ShellBridge['role']>,
  chooseRole: (role) => ipcRenderer.invoke(channels.chooseRole, role) as Promise<void>,
  open: (place) => ipcRenderer.invoke(channels.open, place) as Promise<void>,
};
contextBridge.exposeInMainWorld('coveyShell', bridge);
