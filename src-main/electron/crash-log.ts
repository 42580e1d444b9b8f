import { app, crashReporter } from 'electron';
import type { Logger } from '#shared/lib/logger.ts';
import { productVersion } from '../nodejs/version.ts';
import type { LogFiles } from './log-file.ts';

/**
 * Keeps on this computer what is known about a crash: of this process as text, of native code as a dump in the
 * profile. Nothing is sent anywhere. An error that nothing caught leaves unknown state behind, so the app ends.
 */
export function keepCrashes(files: LogFiles, logger: Logger): void {
  crashReporter.start({ uploadToServer: false, compress: true });
  const die = (thrown: unknown): void => {
    const text = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
    logger.error('unexpected error, ending', { reason: text });
    files.crash(
      `Covey ${productVersion}, ${process.platform}-${process.arch}, Electron ${process.versions['electron'] ?? '-'}\n${text}\n`,
    );
    app.exit(1);
  };
  process.on('uncaughtException', die);
  process.on('unhandledRejection', die);
  app.on('render-process-gone', (_event, _contents, { reason, exitCode }) => {
    if (reason !== 'clean-exit') logger.error('a page ended', { reason, exitCode });
  });
  app.on('child-process-gone', (_event, { type, name, reason, exitCode }) => {
    if (reason !== 'clean-exit') logger.error('a child ended', { type, name: name ?? '', reason, exitCode });
  });
}
