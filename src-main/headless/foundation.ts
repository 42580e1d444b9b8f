import { entries } from '../nodejs/entries.ts';
import { createLogger } from '../nodejs/logging.ts';
import { createChildProcessHost } from '../nodejs/process-host/child-process-host.ts';
import { layFoundation, type Foundation } from '../roles/foundation.ts';

/** The foundation of a role without a window: logs to standard error, children of Node.js. */
export function layHeadlessFoundation(options: {
  readonly data: string | undefined;
  readonly engine: string | undefined;
}): Promise<Foundation> {
  const level = process.env['COVEY_LOG_LEVEL'];
  const logger = createLogger({
    level: level === 'debug' || level === 'warn' || level === 'error' ? level : 'info',
    format: process.stderr.isTTY ? 'text' : 'json',
  });
  return layFoundation({
    data: options.data,
    engine: options.engine,
    processHost: createChildProcessHost(entries),
    logger,
  });
}
