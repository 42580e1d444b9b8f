import { accessSync, constants, existsSync } from 'node:fs';
import { join } from 'node:path';
import { CoveyError } from '#shared/errors.ts';
import { readApiAccess } from '../nodejs/access/local-access.ts';
import { dataDirectoryHolder } from '../nodejs/data-directory.ts';
import { absentApi, createApiClient, type ApiClient } from './api-client.ts';
import { apiBaseUrl, tokenFor } from './context.ts';
import type { CliIo } from './io.ts';
import { readSession } from './saved-session.ts';

/**
 * The API that a command talks to:
 *
 * 1. an address that was named (`--api`, `COVEY_API`); the tokens of the data directory go along only where the
 *    node that runs there says that this is its address;
 * 2. the address of the node that runs with this data directory;
 * 3. none: nothing is dialled, since anybody may listen where a node was, or usually is.
 *
 * @param named the data directory was named, by flag or environment
 * @throws UsageError for an address that is none
 */
export async function openApi(
  dataDirectory: string,
  named: boolean,
  apiFlag: string | undefined,
  io: CliIo,
): Promise<ApiClient> {
  const asked = apiFlag !== undefined || io.env['COVEY_API'] ? apiBaseUrl(apiFlag, io.env) : null;
  const unreadable = named ? whyUnreadable(dataDirectory) : null;
  if (unreadable !== null) return absentApi(new CoveyError('data_directory_unusable', unreadable));
  const runs = (await dataDirectoryHolder(dataDirectory)) !== null;
  const local = runs ? readApiAccess(dataDirectory) : null;
  const own = local?.apiAddress ?? null;
  const baseUrl = asked ?? own;
  if (baseUrl === null) return absentApi(absence(dataDirectory, runs));
  const isOwn = own !== null && samePlace(baseUrl, own);
  const token = isOwn ? tokenFor(baseUrl, local, readSession(dataDirectory, io.now())) : () => null;
  return createApiClient(baseUrl, { token });
}

function absence(dataDirectory: string, runs: boolean): CoveyError {
  return new CoveyError(
    'controller_unreachable',
    runs
      ? `The node that runs on ${dataDirectory} serves no API ("--api none"), so it cannot be asked.`
      : `No covey runs on ${dataDirectory}.`,
  );
}

/** Loopback has several names. */
function samePlace(one: string, other: string): boolean {
  const [a, b] = [new URL(one), new URL(other)];
  const loopback = /^(127\.\d+\.\d+\.\d+|localhost|\[::1\])$/;
  return a.port === b.port && loopback.test(a.hostname) && loopback.test(b.hostname);
}

function whyUnreadable(dataDirectory: string): string | null {
  if (!existsSync(dataDirectory)) {
    return `There is no directory ${dataDirectory}: check --data or COVEY_DATA.`;
  }
  for (const path of [dataDirectory, join(dataDirectory, 'api-access.json')]) {
    try {
      if (existsSync(path)) accessSync(path, constants.R_OK);
    } catch {
      return `${path} cannot be read: run covey as the user whose node it is.`;
    }
  }
  return null;
}
