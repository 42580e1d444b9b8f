import { notHere, unknown, type Sensor, type SensorSystem } from './system.ts';
import type { WindowsWatch } from './windows-watch.ts';

/** Whether the program in front fills the screen. */
export function fullScreenSensor(system: SensorSystem, windows: WindowsWatch): Sensor<boolean> {
  if (system.platform === 'win32') return { read: () => windows.read((seen) => seen.fullScreen) };
  if (system.platform !== 'linux') return { read: async () => notHere };
  return {
    read() {
      if (!system.env['DISPLAY']) return Promise.resolve(unknown('there is no X11 session to ask here'));
      if (system.env['WAYLAND_DISPLAY']) return Promise.resolve(unknown('Wayland tells it to nobody'));
      return x11FullScreen(system);
    },
  };
}

/** Extended Window Manager Hints: `_NET_ACTIVE_WINDOW` of the root, `_NET_WM_STATE` of that window. */
async function x11FullScreen(system: SensorSystem): ReturnType<Sensor<boolean>['read']> {
  const root = await system.run('xprop', ['-root', '-notype', '_NET_ACTIVE_WINDOW']);
  if (!root.ok) return unknown(root.reason);
  const window = /\b(0x[0-9a-f]+)\b/i.exec(root.stdout)?.[1];
  if (root.code !== 0 || window === undefined)
    return unknown('the window manager does not name its active window');
  if (Number(window) === 0) return { known: true, value: false };
  const state = await system.run('xprop', ['-id', window, '-notype', '_NET_WM_STATE']);
  // The window may have closed in between.
  return { known: true, value: state.ok && /\b_NET_WM_STATE_FULLSCREEN\b/.test(state.stdout) };
}
