import type { LendRules } from '#shared/domain/lend.ts';
import type { Reading, Sensed } from './decide.ts';
import { localTime } from './schedule.ts';
import { batterySensor } from './sensors/battery.ts';
import { readSensorsFile, sensorsFileVariable } from './sensors/from-file.ts';
import { fullScreenSensor } from './sensors/full-screen.ts';
import { idleSensor } from './sensors/idle.ts';
import { programsSensor } from './sensors/programs.ts';
import { unknown, type Sensor, type SensorSystem } from './sensors/system.ts';
import { temperatureSensor } from './sensors/temperature.ts';
import { createWindowsWatch } from './sensors/windows-watch.ts';

export interface Sensors {
  /** Reads what these rules ask for, and nothing else. Never rejects. */
  sense(rules: LendRules): Promise<Sensed>;
  close(): void;
}

/** How often each is really read: what costs a process or hundreds of files less often than what costs nothing. */
const everyMs = {
  idleMs: 1_500,
  onBattery: 2_000,
  programs: 2_000,
  fullScreen: 1_500,
  celsius: 3_000,
} as const;
/** A sensor that fails now and then is believed for so long what it told last. */
const believeMs = 15_000;

const unasked = unknown('no rule asks for it');

export function createSensors(system: SensorSystem): Sensors {
  const windows = createWindowsWatch(system);
  const steady = {
    idleMs: steadied(system, everyMs.idleMs, idleSensor(system, windows)),
    onBattery: steadied(system, everyMs.onBattery, batterySensor(system, windows)),
    programs: steadied(system, everyMs.programs, programsSensor(system)),
    fullScreen: steadied(system, everyMs.fullScreen, fullScreenSensor(system, windows)),
    celsius: steadied(system, everyMs.celsius, temperatureSensor(system)),
  };
  const file = system.env[sensorsFileVariable];

  return {
    async sense({ idleMinutes, giveWay }) {
      const written = file ? await readSensorsFile(system, file) : null;
      const read = async <T>(asked: boolean, sensor: Sensor<T>, instead: Reading<T> | undefined) =>
        asked ? (instead ?? (await sensor.read())) : unasked;
      const [idleMs, onBattery, programs, fullScreen, celsius] = await Promise.all([
        read(idleMinutes !== null, steady.idleMs, written?.('idleMs')),
        read(giveWay.onBattery, steady.onBattery, written?.('onBattery')),
        read(giveWay.programs.length > 0, steady.programs, written?.('programs')),
        read(giveWay.fullScreen, steady.fullScreen, written?.('fullScreen')),
        read(giveWay.hotCelsius !== null, steady.celsius, written?.('celsius')),
      ]);
      return { local: localTime(system.now()), idleMs, onBattery, programs, fullScreen, celsius };
    },
    close: () => windows.close(),
  };
}

/** Reads a sensor at most every `ms`, and lets it fail for a moment. */
function steadied<T>(system: Pick<SensorSystem, 'now'>, ms: number, sensor: Sensor<T>): Sensor<T> {
  let last: Reading<T> = unasked;
  let readAt = -Infinity;
  let goodAt = -Infinity;
  return {
    async read() {
      const now = system.now();
      // A clock that was set back counts as time that has passed.
      if (now >= readAt && now - readAt < ms) return last;
      readAt = now;
      let next: Reading<T>;
      try {
        next = await sensor.read();
      } catch (error) {
        next = unknown(error instanceof Error ? error.message : String(error));
      }
      if (next.known) goodAt = now;
      if (next.known || !last.known || Math.abs(now - goodAt) >= believeMs) last = next;
      return last;
    },
  };
}
