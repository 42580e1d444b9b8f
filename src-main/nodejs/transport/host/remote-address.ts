import type { Socket } from 'node:net';

/** Where a connection comes from, IPv4 as people write it also where it arrives at an IPv6 socket. */
export function remoteAddressOf(socket: Socket): string {
  return unmapped(socket.remoteAddress ?? '');
}

/** Our own end of a connection, in the same form. */
export function localAddressOf(socket: Socket): string {
  return unmapped(socket.localAddress ?? '');
}

function unmapped(address: string): string {
  return address.startsWith('::ffff:') ? address.slice(7) : address;
}
