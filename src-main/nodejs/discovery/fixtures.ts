import { createRequire } from 'node:module';
import type { BootId, NodeId } from '#shared/lib/ids.ts';
import { ownRecords, type OwnAnnouncement, type OwnRecord } from './announcement.ts';
import type { FoundPeer } from './peer-table.ts';

/** The codec of the responder library: what really goes out, for tests of what reads it. */
interface DnsPacket {
  encode(message: object): Buffer;
}
const require = createRequire(import.meta.url);
const libraries = createRequire(require.resolve('bonjour-service'));
const dnsPacket = createRequire(libraries.resolve('multicast-dns'))('dns-packet') as DnsPacket;

export const nodeIdOf = (digit: string): NodeId => digit.repeat(64) as NodeId;
export const bootIdOf = (digit: string): BootId => digit.repeat(32) as BootId;

export function exampleAnnouncement(changes: Partial<OwnAnnouncement> = {}): OwnAnnouncement {
  return {
    role: 'worker',
    nodeId: nodeIdOf('a'),
    bootId: bootIdOf('b'),
    name: 'attic',
    version: '0.1.0',
    port: 7879,
    nonce: '0'.repeat(32),
    mark: null,
    ...changes,
  };
}

export function examplePeer(changes: Partial<FoundPeer> = {}): FoundPeer {
  const { nonce, mark, role, nodeId, bootId, name, version, port } = exampleAnnouncement();
  const addresses = [{ host: '10.0.0.1', port }];
  return {
    nodeId,
    bootId,
    name,
    role,
    version,
    addresses,
    nonce,
    mark,
    interfaces: ['eth0'],
    seenAt: 0,
    ...changes,
  };
}

/** A response as it goes out. */
export function encodeResponse(records: readonly OwnRecord[]): Buffer {
  return dnsPacket.encode({ type: 'response', flags: 0x0400, answers: records });
}

export function encodeAnnouncement(
  own: OwnAnnouncement,
  addresses: readonly string[] = ['10.0.0.1'],
): Buffer {
  return encodeResponse(ownRecords(own, addresses).announced);
}

export function encodeQuery(name: string): Buffer {
  return dnsPacket.encode({ type: 'query', questions: [{ name, type: 'PTR' }] });
}
