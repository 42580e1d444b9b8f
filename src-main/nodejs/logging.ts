import type { LogFields, Logger, LogLevel } from '#shared/lib/logger.ts';

const ranks: Readonly<Record<LogLevel, number>> = { debug: 10, info: 20, warn: 30, error: 40 };

export interface LoggingOptions {
  /** Lowest level that is written. Default `info`. */
  readonly level?: LogLevel;
  /** `json`: one object per line (`at`, `level`, `message`, fields). `text`: for a terminal. Default `text`. */
  readonly format?: 'json' | 'text';
  /** Takes one whole line with its newline. Default: standard error. */
  readonly write?: (line: string) => void;
  /** Epoch ms. Default: the wall clock. */
  readonly now?: () => number;
  /** Also hears every written line, e.g. to send it to the controller; secrets are already out of it. */
  readonly tap?: (line: LogLine) => void;
  readonly fields?: LogFields;
}

export interface LogLine {
  readonly at: number;
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: LogFields;
}

/**
 * Structured logger to standard error. Rights and keys of ours are 64 hex digits and so are the names of
 * machines; a run of that length is cut to its first 8 digits, enough to tell machines apart.
 */
export function createLogger(options: LoggingOptions = {}): Logger {
  const lowest = ranks[options.level ?? 'info'];
  const now = options.now ?? Date.now;
  const write = options.write ?? ((line: string) => void process.stderr.write(line));
  const render = options.format === 'json' ? renderJson : renderText;

  const create = (bound: LogFields): Logger => {
    const log = (level: LogLevel, message: string, fields?: LogFields): void => {
      if (ranks[level] < lowest) return;
      const line: LogLine = { at: now(), level, message: redact(message), fields: clean(bound, fields) };
      write(render(line));
      options.tap?.(line);
    };
    return {
      log,
      debug: (message, fields) => log('debug', message, fields),
      info: (message, fields) => log('info', message, fields),
      warn: (message, fields) => log('warn', message, fields),
      error: (message, fields) => log('error', message, fields),
      child: (fields) => create({ ...bound, ...fields }),
    };
  };
  return create(options.fields ?? {});
}

const secretRun = /[0-9a-fA-F]{64,}/g;
const joinString = /covey1\.[\w-]{16,}/g;
/** Tokens and keys of the API, and the cluster secret. */
const ownSecret = /(covey_(?:local|session|key)_|covey-secret\.)[\w-]{16,}/g;

function redact(text: string): string {
  return text
    .replace(secretRun, (run) => `${run.slice(0, 8)}…`)
    .replace(joinString, 'covey1.…')
    .replace(ownSecret, '$1…')
    .replace(
      /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g,
      '[private key]',
    );
}

function clean(bound: LogFields, fields: LogFields | undefined): LogFields {
  const result: Record<string, string | number | boolean | null> = {};
  for (const [name, value] of Object.entries({ ...bound, ...fields })) {
    if (value !== undefined) result[name] = typeof value === 'string' ? redact(value) : value;
  }
  return result;
}

function renderJson({ at, level, message, fields }: LogLine): string {
  return `${JSON.stringify({ ...fields, at: new Date(at).toISOString(), level, message })}\n`;
}

/** `2026-11-30T12:00:00.000Z warn  message  name=value other="two words"`; never more than one line. */
function renderText({ at, level, message, fields }: LogLine): string {
  let line = `${new Date(at).toISOString()} ${level.padEnd(5)} ${oneLine(message)}`;
  for (const [name, value] of Object.entries(fields)) {
    const text = String(value);
    line += ` ${name}=${/^[\w.:/@+-]+$/.test(text) ? text : JSON.stringify(text)}`;
  }
  return `${line}\n`;
}

function oneLine(text: string): string {
  // A message may quote foreign text: control characters must not reach the terminal.
  return text.replace(/\p{Cc}+/gu, ' ');
}
