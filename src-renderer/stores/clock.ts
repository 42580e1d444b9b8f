import { useSyncExternalStore } from 'react';

/** One timer for all that shows how long ago something was; it stands while nobody looks. */
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let second = currentSecond();

function currentSecond(): number {
  return Math.floor(Date.now() / 1_000) * 1_000;
}

function tick(): void {
  if (document.visibilityState === 'hidden') return;
  second = currentSecond();
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  second = currentSecond();
  timer ??= setInterval(tick, 1_000);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** The time now, epoch ms, as coarse as asked; renders again when it changes. */
export function useNow(everyMs = 1_000): number {
  return useSyncExternalStore(subscribe, () => Math.floor(second / everyMs) * everyMs);
}
