import { readFileSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { writePrivateFile } from '../private-file.ts';
import { hashToken, newToken, sameHash } from './tokens.ts';

/**
 * The right of the person who owns this machine's data directory: a token in a file that only they can read.
 * Made at the first start, it stays the same from then on. The command line and the app read it there.
 */
export interface LocalAccess {
  readonly token: string;
  verify(candidate: string): boolean;
  /** Tells where the API is; null: nowhere now. */
  publish(apiAddress: string | null): Promise<void>;
}

const accessFile = 'api-access.json';
const schema = z.object({
  token: z.string().regex(/^covey_local_[\w-]{43}$/),
  apiAddress: z
    .string()
    .regex(/^http:\/\/(127\.0\.0\.1|\[::1\]):\d{1,5}$/)
    .nullable(),
  role: z.enum(['controller', 'worker']),
});
export type ApiAccess = z.infer<typeof schema>;

export async function ensureLocalAccess(
  dataDirectory: string,
  role: ApiAccess['role'],
): Promise<LocalAccess> {
  const path = join(dataDirectory, accessFile);
  const token = (await keptToken(path)) ?? newToken('local');
  const hash = hashToken(token);
  const write = (apiAddress: string | null): Promise<void> =>
    writePrivateFile(path, `${JSON.stringify({ token, apiAddress, role } satisfies ApiAccess, null, 2)}\n`);
  await write(null);
  return { token, verify: (candidate) => sameHash(hashToken(candidate), hash), publish: write };
}

/** What the command line needs; null: no role ever ran with this data directory, or it is somebody else's. */
export function readApiAccess(dataDirectory: string): ApiAccess | null {
  try {
    return schema.parse(JSON.parse(readFileSync(join(dataDirectory, accessFile), 'utf8')));
  } catch {
    return null;
  }
}

/** A token that others could read is one no more; a damaged file costs nothing but the token. */
async function keptToken(path: string): Promise<string | null> {
  try {
    if (process.platform !== 'win32' && ((await stat(path)).mode & 0o077) !== 0) return null;
    return schema.parse(JSON.parse(await readFile(path, 'utf8'))).token;
  } catch {
    return null;
  }
}
