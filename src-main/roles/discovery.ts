import type { Logger } from '#shared/lib/logger.ts';
import { createDiscovery, type Discovery } from '../nodejs/discovery/discovery.ts';
import type { SettingsStore } from '../nodejs/settings/settings-store.ts';

/** Discovery as the command line and the settings will have it; null: the command line has switched it off. */
export function openDiscovery(wanted: boolean, settings: SettingsStore, logger: Logger): Discovery | null {
  if (!wanted) return null;
  const discovery = createDiscovery({
    logger: logger.child({ part: 'discovery' }),
    clock: { now: Date.now },
  });
  discovery.setEnabled(settings.current.discovery.enabled);
  settings.onChange((now) => discovery.setEnabled(now.discovery.enabled));
  return discovery;
}
