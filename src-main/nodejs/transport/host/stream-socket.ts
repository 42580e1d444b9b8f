import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CoveyError } from '#shared/errors.ts';
import { splice } from '../splice.ts';

/** How long whoever asked for a stream has to connect to its socket. */
const pickUpMs = 5_000;

/**
 * Hands a stream to another process of this user: a unix socket in a directory of its own (mode 0700), or a named
 * pipe with a name that cannot be guessed, which takes one connection. What is not picked up in time is ended.
 * @returns where to connect
 */
export async function offerStream(stream: Socket): Promise<string> {
  const windows = process.platform === 'win32';
  const directory = windows ? null : await mkdtemp(join(tmpdir(), 'covey-stream-'));
  const path = directory
    ? join(directory, 's')
    : `\\\\.\\pipe\\covey-stream-${randomBytes(16).toString('hex')}`;
  const server = createServer({ allowHalfOpen: true });

  const closed = (): void => {
    clearTimeout(timer);
    server.close();
    // The name has served: the connection lives without it.
    if (directory) void rm(directory, { recursive: true, force: true }).catch(() => undefined);
  };
  const abandon = (): void => {
    closed();
    stream.destroy();
  };
  const timer = setTimeout(abandon, pickUpMs);
  server.once('connection', (local) => {
    stream.off('close', abandon);
    closed();
    local.on('error', () => undefined);
    splice(local, stream);
  });
  stream.once('close', abandon);
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(path, resolve);
    });
  } catch (error) {
    abandon();
    throw new CoveyError('internal_error', 'No local socket for a stream could be opened.', {}, error);
  }
  return path;
}
