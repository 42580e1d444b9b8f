import { createSocket, type RemoteInfo } from 'node:dgram';
import { EventEmitter } from 'node:events';

/**
 * A UDP socket as the responder library uses one, which hands on only the packets that `accepts` lets through,
 * so that the library decodes nothing that was not looked at before. A handler that throws costs its packet.
 */
export class FilteredSocket extends EventEmitter {
  readonly #socket = createSocket({ type: 'udp4', reuseAddr: true });

  constructor(accepts: (packet: Buffer, from: RemoteInfo) => boolean) {
    super();
    this.#socket.on('listening', () => this.emit('listening'));
    this.#socket.on('error', (error) => this.emit('error', error));
    this.#socket.on('message', (packet, from) => {
      try {
        if (accepts(packet, from)) this.emit('message', packet, from);
      } catch (error) {
        this.emit('error', error);
      }
    });
  }

  /** A packet that came before, as if it came now. */
  replay(packet: Buffer, from: RemoteInfo): void {
    this.emit('message', packet, from);
  }

  address(): unknown {
    return this.#socket.address();
  }

  bind(port: number, address: string, done: () => void): void {
    this.#socket.bind(port, address, done);
  }

  send(
    packet: Buffer,
    offset: number,
    length: number,
    port: number,
    address: string,
    done: (error: Error | null) => void,
  ): void {
    this.#socket.send(packet, offset, length, port, address, done);
  }

  addMembership(group: string, address: string): void {
    this.#socket.addMembership(group, address);
  }

  dropMembership(group: string, address: string): void {
    this.#socket.dropMembership(group, address);
  }

  setMulticastInterface(address: string): void {
    this.#socket.setMulticastInterface(address);
  }

  setMulticastTTL(ttl: number): void {
    this.#socket.setMulticastTTL(ttl);
  }

  setMulticastLoopback(on: boolean): void {
    this.#socket.setMulticastLoopback(on);
  }

  close(done: () => void): void {
    this.#socket.close(done);
  }
}
