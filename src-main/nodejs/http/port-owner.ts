import { readFile, readdir, readlink } from 'node:fs/promises';
import { CoveyError } from '#shared/errors.ts';

/**
 * Who listens on a local TCP port, as far as Linux tells us: `"name" (pid 123)`, null when it cannot be known.
 */
export async function portOwner(port: number): Promise<string | null> {
  if (process.platform !== 'linux') return null;
  try {
    const inode =
      (await listeningInode('/proc/net/tcp', port)) ?? (await listeningInode('/proc/net/tcp6', port));
    if (inode === null) return null;
    for (const pid of await readdir('/proc')) {
      if (/^\d+$/.test(pid) && (await holdsSocket(pid, inode))) {
        const name = (await readFile(`/proc/${pid}/comm`, 'utf8')).trim();
        return `"${name}" (pid ${pid})`;
      }
    }
  } catch {
    // /proc may be hidden; the name is a courtesy.
  }
  return null;
}

/** The error for a port that cannot be had; names its owner where that is known. */
export async function portInUse(host: string, port: number, advice: string): Promise<CoveyError> {
  const owner = await portOwner(port);
  const by = owner === null ? 'by another program' : `by ${owner}`;
  return new CoveyError('port_in_use', `Port ${port} on ${host} is in use ${by}. ${advice}`, {
    field: 'port',
  });
}

/** The socket's inode in the kernel's table: state 0A is LISTEN. */
async function listeningInode(table: string, port: number): Promise<string | null> {
  const wanted = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  for (const line of (await readFile(table, 'utf8')).split('\n').slice(1)) {
    const fields = line.trim().split(/\s+/);
    if (fields[3] === '0A' && fields[1]?.endsWith(wanted)) return fields[9] ?? null;
  }
  return null;
}

async function holdsSocket(pid: string, inode: string): Promise<boolean> {
  const directory = `/proc/${pid}/fd`;
  const descriptors = await readdir(directory).catch(() => []);
  for (const descriptor of descriptors) {
    const target = await readlink(`${directory}/${descriptor}`).catch(() => '');
    if (target === `socket:[${inode}]`) return true;
  }
  return false;
}
