import { resolve } from 'node:path';
import { defaults } from '#shared/config.ts';
import type { Access } from '#shared/api/access.ts';
import type { ApiAccess } from '../nodejs/access/local-access.ts';
import { defaultDataDirectory } from '../nodejs/data-directory.ts';
import type { ApiClient } from './api-client.ts';
import { UsageError } from './failure.ts';
import { wrapLines } from './help-text.ts';
import type { CliIo } from './io.ts';
import type { SavedSession } from './saved-session.ts';

/** What every command gets. */
export interface CommandContext {
  readonly io: CliIo;
  readonly api: ApiClient;
  /** This machine's: `--data`, COVEY_DATA or the system's place for it. It need not exist. */
  readonly dataDirectory: string;
  /** stdout carries one JSON value and nothing else. */
  readonly json: boolean;
  readonly width: number;
  readonly style: Style;
}

type Paint = (text: string) => string;

export interface Style {
  readonly good: Paint;
  readonly warn: Paint;
  readonly bad: Paint;
  readonly dim: Paint;
}

/** Colour only for people on a terminal who have not said no to it (no-color.org). */
export function createStyle(io: CliIo): Style {
  const on = io.outIsTty && !io.env['NO_COLOR'] && io.env['TERM'] !== 'dumb';
  const paint =
    (code: number): Paint =>
    (text) =>
      on ? `\u001b[${code}m${text}\u001b[0m` : text;
  return { good: paint(32), warn: paint(33), bad: paint(31), dim: paint(2) };
}

/** Tables fit 80 columns, and use more where the terminal has more. */
export function outputWidth(io: CliIo): number {
  return io.outIsTty ? Math.max(40, io.columns) : 80;
}

/**
 * Sentences as a result: broken between words for people on a terminal, and one line each for programs. Not for tables,
 * documents and what somebody else has written, which are as they are.
 */
export function tell(io: CliIo, text: string): void {
  io.out(io.outIsTty ? wrapLines(text, outputWidth(io)) : text);
}

/** Absolute. */
export function dataDirectoryOf(flag: string | undefined, io: CliIo): string {
  const named = flag ?? (io.env['COVEY_DATA'] || undefined);
  return named === undefined
    ? defaultDataDirectory(process.platform, io.env)
    : resolve(io.workingDirectory, named);
}

/**
 * The token for a call that needs `access`: a controller's own token is good for all, a worker's for that machine
 * alone, and what is the controller's goes with the login that `covey login` got. None leaves this machine: to an
 * address that is not loopback, no token is sent.
 */
export function tokenFor(
  baseUrl: string,
  local: ApiAccess | null,
  session: SavedSession | null,
): (access: Access) => string | null {
  const { hostname } = new URL(baseUrl);
  if (!/^(127\.\d+\.\d+\.\d+|localhost|\[::1\])$/.test(hostname)) return () => null;
  const own = local?.token ?? null;
  const login = session?.token ?? null;
  if (local?.role === 'worker') return (access) => (access === 'local' ? own : (login ?? own));
  return () => own ?? login;
}

/**
 * `HOST:PORT`, `HOST`, `PORT` or `http://HOST:PORT` as the base URL of an API.
 * @throws UsageError naming where the text came from
 */
export function apiBaseUrl(flag: string | undefined, env: CliIo['env']): string {
  const [text, origin] = flag !== undefined ? [flag, '--api'] : [env['COVEY_API'] ?? '', 'COVEY_API'];
  const refuse = (): UsageError =>
    new UsageError(
      `${origin} must be HOST:PORT or http://HOST:PORT, got "${text}".`,
      `Example: ${origin}${origin === '--api' ? ' ' : '='}127.0.0.1:${defaults.apiPort}`,
    );
  const address = /^\d{1,5}$/.test(text) ? `${defaults.apiHost}:${text}` : text;
  if (/^[a-z]+:\/\//i.test(address) && !/^http:\/\//i.test(address)) throw refuse();
  let url: URL;
  try {
    url = new URL(/^http:\/\//i.test(address) ? address : `http://${address}`);
  } catch {
    throw refuse();
  }
  if (
    url.hostname === '' ||
    url.username !== '' ||
    url.pathname !== '/' ||
    url.search !== '' ||
    url.hash !== ''
  ) {
    throw refuse();
  }
  const hasPort = /:\d+\/?$/.test(address);
  return `http://${url.hostname}:${hasPort ? url.port || '80' : defaults.apiPort}`;
}
