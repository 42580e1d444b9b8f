/**
 * Runs `action` at most once per `everyMs`: at once when it has been quiet, otherwise at the end of the span, so
 * that the last call is never lost.
 */
export function throttled(action: () => void, everyMs: number): { call(): void; cancel(): void } {
  let timer: NodeJS.Timeout | null = null;
  let ranAt = -Infinity;
  const run = (): void => {
    timer = null;
    ranAt = performance.now();
    action();
  };
  return {
    call() {
      if (timer) return;
      const waitMs = ranAt + everyMs - performance.now();
      if (waitMs <= 0) run();
      else timer = setTimeout(run, waitMs);
    },
    cancel() {
      if (timer) clearTimeout(timer);
      timer = null;
    },
  };
}
