import type { LogFields, Logger, LogLevel } from '#shared/lib/logger.ts';

/** For tests: a logger that keeps what it is given, one string per line. */
export function collectingLogger(): { readonly logger: Logger; readonly lines: string[] } {
  const lines: string[] = [];
  const make = (context: LogFields): Logger => {
    const log = (level: LogLevel, message: string, fields?: LogFields): void => {
      lines.push(`${level} ${message} ${JSON.stringify({ ...context, ...fields })}`);
    };
    return {
      log,
      debug: (message, fields) => log('debug', message, fields),
      info: (message, fields) => log('info', message, fields),
      warn: (message, fields) => log('warn', message, fields),
      error: (message, fields) => log('error', message, fields),
      child: (fields) => make({ ...context, ...fields }),
    };
  };
  return { logger: make({}), lines };
}
