import type { Socket } from 'node:net';

const remembered = new WeakMap<Socket, string>();

/**
 * Where a connection comes from, IPv4 as people write it also where it arrives at an IPv6 socket. Empty when the
 * connection is gone and was not remembered.
 */
export function remoteAddressOf(socket: Socket): string {
  return remembered.get(tcpOf(socket)) ?? unmapped(socket.remoteAddress ?? '');
}

/**
 * For the life of an accepted connection: the system tells the address no more once the peer has reset it, also
 * while bytes are still to be read. null: it is gone already.
 */
export function rememberRemoteAddress(tcp: Socket): string | null {
  const { remoteAddress } = tcp;
  if (!remoteAddress) return null;
  const address = unmapped(remoteAddress);
  remembered.set(tcp, address);
  return address;
}

/** The accepted TCP socket under any layers of TLS. Node has it in a field that its types do not tell of. */
export function tcpOf(socket: Socket): Socket {
  let lowest = socket;
  for (let under: Socket | undefined = socket; under; under = (under as { _parent?: Socket })._parent) {
    lowest = under;
  }
  return lowest;
}

/** Our own end of a connection, in the same form. */
export function localAddressOf(socket: Socket): string {
  return unmapped(socket.localAddress ?? '');
}

function unmapped(address: string): string {
  return address.startsWith('::ffff:') ? address.slice(7) : address;
}
