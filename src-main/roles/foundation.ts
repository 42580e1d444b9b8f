import { createHash } from 'node:crypto';
import { chmod, mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CoveyError } from '#shared/errors.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { defaultDataDirectory, openDataDirectory, type DataDirectory } from '../nodejs/data-directory.ts';
import { namingFullDisk } from '../nodejs/disk-full.ts';
import { ensureIdentity, type Identity } from '../nodejs/identity/identity.ts';
import { findOwnEngine } from '../nodejs/own-engine.ts';
import type { ProcessHost } from '../nodejs/process-host/process-host.ts';
import { journalledHosts } from '../../src-worker/journal/journalled-hosts.ts';
import { sweepEngines } from '../../src-worker/journal/sweep.ts';
import type { WorkerEngine } from '../../src-worker/worker-engine.ts';

/**
 * What both roles stand on: the locked data directory, the key, the engine, and a way to fork children that the next start
 * knows of.
 */
export interface Foundation {
  readonly data: DataDirectory;
  readonly identity: Identity;
  readonly engine: WorkerEngine;
  readonly processHost: ProcessHost;
  readonly logger: Logger;
}

/**
 * Ends what an earlier run in this directory left behind: it may hold our port.
 * @param options.engine overrides where the engine is looked for
 */
export async function layFoundation(options: {
  readonly data: string | undefined;
  readonly engine: string | undefined;
  readonly processHost: ProcessHost;
  readonly logger: Logger;
}): Promise<Foundation> {
  const { logger } = options;
  const data = await openDataDirectory(options.data ?? defaultDataDirectory(), { logger });
  try {
    const journalDirectory = join(data.path, 'journal');
    await sweepEngines(journalDirectory, logger);
    const processHost = journalledHosts(options.processHost, journalDirectory);
    const identity = await ensureIdentity(join(data.path, 'identity'), { logger, now: Date.now });
    const engine = await findOwnEngine(options.engine);
    return { data, identity, engine, processHost, logger };
  } catch (error) {
    await data.close();
    throw namingFullDisk(error, data.path);
  }
}

/**
 * Where the gateway listens for members' requests that the transport process hands in. A socket in the data
 * directory, or, since those have a length limit of about 100 bytes, in a private directory of the system's
 * temporary one; on Windows a named pipe.
 */
export async function gatewaySocketPath(dataDirectory: string): Promise<string> {
  const key = createHash('sha256').update(dataDirectory).digest('hex').slice(0, 16);
  if (process.platform === 'win32') return `\\\\.\\pipe\\covey-gateway-${key}`;
  const path = join(dataDirectory, 'gateway.sock');
  if (Buffer.byteLength(path) < 100) return path;
  const uid = process.getuid?.() ?? 0;
  const directory = join(tmpdir(), `covey-${uid}-${key}`);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await chmod(directory, 0o700).catch((error: unknown) => {
    throw new CoveyError('data_directory_unusable', `${directory} belongs to someone else.`, {}, error);
  });
  return join(directory, 'gateway.sock');
}
