import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { writePrivateFile } from '../nodejs/private-file.ts';

const coordinate = z.number().int().min(-100_000).max(100_000);
const schema = z.object({
  /** What the person answered at the first start; null: not asked yet. */
  role: z.enum(['controller', 'lend', 'both']).nullable().default(null).catch(null),
  window: z
    .object({
      x: coordinate,
      y: coordinate,
      width: coordinate.min(400),
      height: coordinate.min(300),
      maximized: z.boolean(),
    })
    .nullable()
    .default(null)
    .catch(null),
  /** They have been told once that closing the window leaves the app running. */
  toldAboutTray: z.boolean().default(false).catch(false),
});
export type DesktopState = z.infer<typeof schema>;

export interface DesktopFile {
  readonly current: DesktopState;
  /** Keeps a part; one write after the other. Throws what the system says. */
  keep(part: Partial<DesktopState>): Promise<void>;
}

/** `desktop.json` of the data directory. A damaged file costs what it held: the question is asked again. */
export async function openDesktopFile(dataDirectory: string): Promise<DesktopFile> {
  const path = join(dataDirectory, 'desktop.json');
  let current = await read(path);
  let last: Promise<void> = Promise.resolve();
  return {
    get current() {
      return current;
    },
    keep(part) {
      current = { ...current, ...part };
      const next = last.then(() => writePrivateFile(path, `${JSON.stringify(current, null, 2)}\n`));
      last = next.catch(() => undefined);
      return next;
    },
  };
}

async function read(path: string): Promise<DesktopState> {
  try {
    return schema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch {
    return schema.parse({});
  }
}
