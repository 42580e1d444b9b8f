import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { encodeAnnouncement, exampleAnnouncement } from '../../src-main/nodejs/discovery/fixtures.ts';

/**
 * An attacker on the network: `mdns-flood.ts ADDRESS COUNT KIND [PER_SECOND]` sends that many multicast DNS
 * packets from ADDRESS, without a rate as fast as it can. `garbage`: random bytes, some behind a valid header; `machines`: announcements, each
 * of a machine that does not exist; `questions`: queries for our service with everything a query may hold.
 */
const [address = '', count = '0', kind = 'garbage', perS] = process.argv.slice(2);
const mdns = { host: '224.0.0.251', port: 5353 };

let seed = 1;
/** Numbers that look random and are the same in every run (xorshift32). */
function random(below: number): number {
  seed ^= seed << 13;
  seed ^= seed >>> 17;
  seed ^= seed << 5;
  return (seed >>> 0) % below;
}

function garbage(): Buffer {
  const packet = Buffer.from(Array.from({ length: random(800) }, () => random(256)));
  if (random(2) === 0 && packet.length > 12)
    Buffer.from([0, 0, 0x84, 0, 0, 0, 0, random(70), 0, 0, 0, 0]).copy(packet);
  return packet;
}

function machine(number: number): Buffer {
  const nodeId = number.toString(16).padStart(64, '0') as never;
  const addresses = Array.from({ length: 16 }, (_none, index) => `10.${random(256)}.${random(256)}.${index}`);
  return encodeAnnouncement(exampleAnnouncement({ nodeId, name: 'x'.repeat(150) }), addresses);
}

function question(): Buffer {
  const name = Buffer.from('\u0006_covey\u0004_tcp\u0005local\u0000\u0000\u000c\u0000\u0001', 'latin1');
  const many = 1 + random(8);
  const header = Buffer.from([0, 0, 0, 0, 0, many, 0, 0, 0, 0, 0, 0]);
  return Buffer.concat([header, ...Array.from({ length: many }, () => name)]);
}

const socket = createSocket({ type: 'udp4', reuseAddr: true });
socket.bind(mdns.port, '0.0.0.0');
await once(socket, 'listening');
socket.setMulticastInterface(address);
const startedAt = performance.now();
for (let number = 0; number < Number(count); number++) {
  const packet = kind === 'machines' ? machine(number) : kind === 'questions' ? question() : garbage();
  await new Promise((resolve) => socket.send(packet, mdns.port, mdns.host, resolve));
  const aheadMs = perS === undefined ? 0 : (number * 1_000) / Number(perS) - (performance.now() - startedAt);
  if (aheadMs > 0) await delay(aheadMs);
}
socket.close();
