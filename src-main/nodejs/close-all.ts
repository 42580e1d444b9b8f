import type { Logger } from '#shared/lib/logger.ts';

/** Closes what was opened, last first; one that fails does not keep the others open. */
export async function closeAll(closers: readonly (() => Promise<void>)[], logger: Logger): Promise<void> {
  for (const closer of closers.toReversed()) {
    await closer().catch((error: unknown) => logger.error('closing failed', { reason: String(error) }));
  }
}
