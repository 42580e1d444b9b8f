import type { LendState } from '#shared/domain/lend.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { SettingsStore } from '../nodejs/settings/settings-store.ts';
import type { Transport } from '../nodejs/transport/transport.ts';
import { createLendMonitor, type LendMonitor } from '../../src-worker/lend/lend-monitor.ts';
import { unavailableRules } from '../../src-worker/lend/abilities.ts';
import { createSensors } from '../../src-worker/lend/sense.ts';
import { realSystem } from '../../src-worker/lend/sensors/system.ts';

export interface Lending extends LendMonitor {
  /** Rules that this system cannot sense, whether they are set or not. */
  unavailableRules(): Promise<LendState['unavailable']>;
}

/** This machine's lend rules as its settings have them, judged all the time, and its upload kept within them. */
export async function openLending(options: {
  readonly settings: SettingsStore;
  readonly transport: Pick<Transport, 'setUploadLimit'>;
  readonly logger: Logger;
  readonly clock: Clock;
}): Promise<Lending> {
  const { settings, transport } = options;
  const limitUpload = (): void => transport.setUploadLimit(settings.current.lend.limits.uploadBytesPerS);
  limitUpload();
  const stopListening = settings.onChange(limitUpload);
  const sensors = createSensors(realSystem);
  const monitor = await createLendMonitor({
    rules: { current: () => settings.current.lend, onChange: (listener) => settings.onChange(listener) },
    sensors,
    clock: options.clock,
    logger: options.logger.child({ part: 'lend' }),
  });
  return {
    ...monitor,
    unavailableRules: () => unavailableRules(sensors),
    close() {
      stopListening();
      monitor.close();
    },
  };
}
