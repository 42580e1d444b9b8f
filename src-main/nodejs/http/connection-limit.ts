import type { Server, Socket } from 'node:net';

/**
 * At most this many connections of one address at once (IPv6: of one /64, which is what one home has); those over
 * it are closed before TLS. So one machine cannot keep the others out.
 * @returns closes all that are open, those before the end of their handshake too, which `server` itself forgets
 */
export function limitPerAddress(server: Server, most: number): () => void {
  const open = new Set<Socket>();
  const counts = new Map<string, number>();
  // The server's own listeners come to see only what is let in: one that is closed already is no socket to them.
  const own = server.listeners('connection') as ((socket: Socket) => void)[];
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    const origin = originOf(socket.remoteAddress);
    const count = counts.get(origin) ?? 0;
    if (count >= most) {
      socket.destroy();
      return;
    }
    counts.set(origin, count + 1);
    open.add(socket);
    socket.once('close', () => {
      open.delete(socket);
      const left = (counts.get(origin) ?? 1) - 1;
      if (left === 0) counts.delete(origin);
      else counts.set(origin, left);
    });
    for (const listener of own) listener.call(server, socket);
  });
  return () => open.forEach((socket) => socket.destroy());
}

/** IPv4 addresses as such, also where they come mapped into IPv6. */
export function plainAddress(address: string | undefined): string {
  return (address ?? '').replace(/^::ffff:(?=\d+\.)/i, '');
}

/** What counts as one caller: an IPv4 address, or the /64 of an IPv6 address. */
export function originOf(address: string | undefined): string {
  const plain = plainAddress(address);
  if (!plain.includes(':')) return plain;
  const [head = '', tail] = (plain.split('%')[0] as string).split('::');
  const first = head === '' ? [] : head.split(':');
  const last = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - first.length - last.length);
  const groups = [...first, ...Array<string>(zeros).fill('0'), ...last];
  return `${groups.slice(0, 4).join(':')}::/64`;
}
