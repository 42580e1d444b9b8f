import type { LogFields, Logger, LogLevel } from '#shared/lib/logger.ts';
import type { WorkerFrame } from '#shared/protocol/session.ts';

type LogFrame = Extract<WorkerFrame, { type: 'log' }>;
type LogLine = LogFrame['lines'][number];

const linesPerSecond = 50;
const linesPerFrame = 200;
const maxMessageLength = 2_048;
const order: readonly LogLevel[] = ['debug', 'info', 'warn', 'error'];

export interface LogForwarder {
  /** Writes to the given logger and keeps a copy for the controller. */
  readonly logger: Logger;
  /** What waits, at most one frame's worth; null when nothing does. What it returns is no longer kept. */
  take(): LogFrame | null;
}

/**
 * Copies this worker's log lines for the controller, from `info` up, at most 50 a second in the long run and 200
 * at once; the rest is counted as dropped. Lines wait while there is no session, the oldest giving way.
 * @param now epoch ms
 */
export function createLogForwarder(base: Logger, now: () => number): LogForwarder {
  let waiting: LogLine[] = [];
  let dropped = 0;
  let allowance: number = linesPerFrame;
  let refilledAt = now();

  const keep = (level: LogLevel, message: string, fields: LogFields): void => {
    const at = now();
    allowance = Math.min(linesPerFrame, allowance + (Math.max(0, at - refilledAt) / 1000) * linesPerSecond);
    refilledAt = at;
    if (allowance < 1) {
      dropped += 1;
      return;
    }
    allowance -= 1;
    const { engine, ...rest } = fields;
    waiting.push({
      at,
      level,
      source: engine === undefined || engine === null ? 'worker' : `engine ${engine}`.slice(0, 128),
      message: withFields(message, rest).slice(0, maxMessageLength),
    });
    if (waiting.length > linesPerFrame) {
      waiting.shift();
      dropped += 1;
    }
  };

  const wrap = (inner: Logger, context: LogFields): Logger => {
    const log = (level: LogLevel, message: string, fields?: LogFields): void => {
      inner.log(level, message, fields);
      if (order.indexOf(level) >= order.indexOf('info')) keep(level, message, { ...context, ...fields });
    };
    return {
      log,
      debug: (message, fields) => log('debug', message, fields),
      info: (message, fields) => log('info', message, fields),
      warn: (message, fields) => log('warn', message, fields),
      error: (message, fields) => log('error', message, fields),
      child: (fields) => wrap(inner.child(fields), { ...context, ...fields }),
    };
  };

  return {
    logger: wrap(base, {}),
    take() {
      if (waiting.length === 0 && dropped === 0) return null;
      const frame: LogFrame = { type: 'log', dropped, lines: waiting };
      waiting = [];
      dropped = 0;
      return frame;
    },
  };
}

function withFields(message: string, fields: LogFields): string {
  const parts = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${String(value)}`);
  return parts.length === 0 ? message : `${message} (${parts.join(', ')})`;
}
