import { readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { writePrivateFile } from '../nodejs/private-file.ts';

/** A login that the controller issued, kept for the next commands in this machine's data directory. */
const schema = z.object({ token: z.string().max(512), expiresAt: z.number() });
export type SavedSession = z.infer<typeof schema>;

const fileOf = (dataDirectory: string): string => join(dataDirectory, 'api-session.json');

/** null: not logged in, or not any more. */
export function readSession(dataDirectory: string, now: number): SavedSession | null {
  try {
    const session = schema.parse(JSON.parse(readFileSync(fileOf(dataDirectory), 'utf8')));
    return session.expiresAt > now ? session : null;
  } catch {
    return null;
  }
}

export async function saveSession(dataDirectory: string, { token, expiresAt }: SavedSession): Promise<void> {
  await writePrivateFile(fileOf(dataDirectory), `${JSON.stringify({ token, expiresAt })}\n`);
}

export async function forgetSession(dataDirectory: string): Promise<void> {
  await rm(fileOf(dataDirectory), { force: true });
}
