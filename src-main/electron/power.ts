import { powerSaveBlocker } from 'electron';

/** Keeps the computer from sleeping while it serves; its screen may go dark. */
export interface Wakefulness {
  set(awake: boolean): void;
}

export function createWakefulness(): Wakefulness {
  let id: number | null = null;
  return {
    set(awake) {
      if (awake === (id !== null)) return;
      if (id === null) {
        id = powerSaveBlocker.start('prevent-app-suspension');
      } else {
        powerSaveBlocker.stop(id);
        id = null;
      }
    },
  };
}
