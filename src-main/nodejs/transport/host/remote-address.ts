import type { Socket } from 'node:net';

/** Where a connection comes from, IPv4 as people write it also where it arrives at an IPv6 socket. */
export function remoteAddressOf(socket: Socket): string {
  const address = socket.remoteAddress ?? '';
  return address.startsWith('::ffff:') ? address.slice(7) : address;
}
