import { mkdir, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { app } from 'electron';

/**
 * Starts the app, without a window, with the session of this person, or no longer. Electron does it on Windows and
 * macOS; on Linux it is an entry of the desktop's autostart (the XDG autostart specification).
 */
export async function setLoginItem(open: boolean): Promise<void> {
  if (process.platform !== 'linux') {
    app.setLoginItemSettings({ openAtLogin: open, args: ['--hidden'] });
    return;
  }
  const path = autostartPath(process.env, homedir());
  if (!open) {
    await rm(path, { force: true });
    return;
  }
  await mkdir(dirname(path), { recursive: true });
  // An AppImage is mounted elsewhere at every start; the file itself stays.
  await writeFile(path, autostartEntry(process.env['APPIMAGE'] ?? process.execPath));
}

/** @param environment for `XDG_CONFIG_HOME`; a relative value is invalid and ignored */
function autostartPath(environment: NodeJS.ProcessEnv, home: string): string {
  const base = environment['XDG_CONFIG_HOME'];
  return join(base?.startsWith('/') ? base : join(home, '.config'), 'autostart', 'covey.desktop');
}

function autostartEntry(program: string): string {
  // Quoting of the desktop entry specification: in double quotes, these four get a backslash.
  const quoted = `"${program.replace(/["`$\\]/g, '\\$&').replaceAll('%', '%%')}"`;
  return [
    '[Desktop Entry]',
    'Type=Application',
    'Name=Covey',
    'Comment=Lends this computer to your covey',
    `Exec=${quoted} --hidden`,
    'Icon=covey',
    'X-GNOME-Autostart-enabled=true',
    '',
  ].join('\n');
}
