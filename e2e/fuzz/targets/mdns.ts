import { createRequire } from 'node:module';
import {
  announcementLimits,
  ownRecords,
  parseAnnouncement,
  type OwnAnnouncement,
} from '../../../src-main/nodejs/discovery/announcement.ts';
import { readHeader, readRecords } from '../../../src-main/nodejs/discovery/dns-message.ts';
import { createPeerTable, peerLimits } from '../../../src-main/nodejs/discovery/peer-table.ts';
import { bootIdSchema, nodeIdSchema } from '../../../src-main/shared/lib/ids.ts';
import { readHexCorpus } from '../corpus.ts';
import { mutateBytes } from '../mutate.ts';
import type { Random } from '../random.ts';
import type { FuzzTarget } from '../target.ts';
import { encodePacket } from './mdns-packet.ts';

/** The codec of the responder library, which reads the questions that are let through to it. */
const require = createRequire(import.meta.url);
const libraries = createRequire(require.resolve('bonjour-service'));
const codec = createRequire(libraries.resolve('multicast-dns'))('dns-packet') as {
  decode(packet: Buffer): unknown;
};

/** Packets from anybody on the network, and what they leave in the table of machines that were heard. */
export function createTarget(): FuzzTarget {
  const corpus = readHexCorpus('mdns.hex');
  const table = createPeerTable();
  let now = 0;
  return {
    run(random: Random) {
      const packet = makePacket(random, corpus);
      const header = readHeader(packet);
      if (header && !header.isResponse) {
        // The library catches what its codec throws; it must come to an end.
        try {
          codec.decode(packet);
        } catch {
          return;
        }
      }
      const records = readRecords(packet);
      const found = parseAnnouncement(packet);
      if (found.length > 0 && !records) throw new Error('an announcement without records');
      if (found.length > announcementLimits.perPacket) throw new Error('too many in one packet');
      now += random.int(2_000);
      const source = {
        address: `192.0.2.${random.int(256)}`,
        interfaces: [`eth${random.int(3)}`],
      };
      for (const one of found) {
        nodeIdSchema.parse(one.nodeId);
        bootIdSchema.parse(one.bootId);
        if (Buffer.byteLength(one.name) > announcementLimits.nameBytes || /\p{C}/u.test(one.name)) {
          throw new Error(`a name that cannot be shown: ${JSON.stringify(one.name)}`);
        }
        if (one.port < 1 || one.port > 65_535) throw new Error(`port ${one.port}`);
        table.hear(one, source, now, () => !random.oneIn(4));
      }
      if (random.oneIn(32)) {
        table.expire(now);
        const peers = table.list();
        if (peers.length > peerLimits.peers) throw new Error(`${peers.length} machines are remembered`);
        for (const peer of peers) {
          if (peer.addresses.length > announcementLimits.addresses) throw new Error('too many addresses');
        }
      }
    },
  };
}

/** The header of a question, and the name that we answer to. */
const query = Buffer.from('000000000001000000000000065f636f766579045f746370056c6f63616c00', 'hex');

function makePacket(random: Random, corpus: readonly Buffer[]): Buffer {
  switch (random.int(8)) {
    case 0:
      return random.oneIn(2)
        ? random.bytes(random.int(600))
        : Buffer.concat([query, random.bytes(random.int(300))]);
    case 1:
      return encodePacket(ownRecords(announcement(random), addresses(random)).announced);
    case 2:
    case 3:
    case 4:
      return mutateBytes(
        random,
        encodePacket(ownRecords(announcement(random), addresses(random)).announced),
        corpus,
      );
    default:
      return mutateBytes(random, random.pick(corpus), corpus);
  }
}

function announcement(random: Random): OwnAnnouncement {
  return {
    role: random.pick(['controller', 'worker']),
    nodeId: nodeIdSchema.parse(random.bytes(32).toString('hex')),
    bootId: bootIdSchema.parse(random.bytes(16).toString('hex')),
    name: random.pick(['desk', 'é'.repeat(150), '\u202edesk', ' ', random.bytes(12).toString('latin1')]),
    version: random.pick(['0.1.0', '1.2.3-beta+4', 'x'.repeat(80)]),
    port: random.pick([7879, 0, 1, 65_535]),
    nonce: random.bytes(16).toString('hex'),
    mark: random.oneIn(2) ? null : random.bytes(16).toString('hex'),
  };
}

function addresses(random: Random): string[] {
  return Array.from({ length: random.int(20) }, (_, index) =>
    random.oneIn(3) ? `2001:db8::${index}` : `10.0.${random.int(256)}.${index}`,
  );
}
