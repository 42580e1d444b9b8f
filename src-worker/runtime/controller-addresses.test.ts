import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Address } from '#shared/domain/node.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { FoundPeer } from '../../src-main/nodejs/discovery/peer-table.ts';
import {
  openMembershipFile,
  readMembership,
  type Membership,
  type MembershipFile,
} from '../../src-main/nodejs/membership.ts';
import { createControllerAddresses, type ControllerAddresses } from './controller-addresses.ts';
import { collectingLogger } from './fixtures.ts';

const controllerId = 'c'.repeat(64) as NodeId;
const at = (host: string, port = 7879): Address => ({ host, port });
const membership: Membership = {
  controllerId,
  controllerName: 'hub',
  addresses: [at('192.0.2.1'), at('hub.example')],
};

let directory: string;
let found: FoundPeer[];
let heard: () => void;
let opened: MembershipFile[];
/** What is to be written is. */
const written = async (): Promise<void> => {
  for (const file of opened) await file.close();
};
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-addresses-'));
  found = [];
  heard = () => undefined;
  opened = [];
});
afterEach(async () => {
  await written();
  rmSync(directory, { recursive: true, force: true });
});

function open(
  from: Membership = membership,
  write?: Parameters<typeof openMembershipFile>[3],
): ControllerAddresses {
  const { logger } = collectingLogger();
  const file = openMembershipFile(directory, from, logger, write);
  opened.push(file);
  return createControllerAddresses({
    file,
    discovery: {
      peers: () => found,
      onChange(listener) {
        heard = listener;
        return () => undefined;
      },
    },
    logger,
    clock: { now: () => 5 },
  });
}
const peer = (hosts: string[], changes: Partial<FoundPeer> = {}): FoundPeer => ({
  nodeId: controllerId,
  bootId: 'b'.repeat(32) as FoundPeer['bootId'],
  name: 'hub',
  role: 'controller',
  version: '0',
  addresses: hosts.map((host) => at(host)),
  nonce: '',
  mark: null,
  interfaces: [],
  seenAt: 1,
  ...changes,
});
const hosts = (addresses: ControllerAddresses): string[] => addresses.addresses().map(({ host }) => host);

describe("the controller's addresses", () => {
  test('are tried in the order of what is known of them', () => {
    const addresses = open();
    expect(hosts(addresses)).toEqual(['192.0.2.1', 'hub.example']);
    found = [peer(['192.0.2.30'])];
    heard();
    addresses.announced([at('192.0.2.20'), at('192.0.2.21')]);
    addresses.connected(at('192.0.2.21'));
    expect(hosts(addresses)).toEqual(['192.0.2.21', '192.0.2.20', '192.0.2.30', '192.0.2.1', 'hub.example']);
    expect(addresses.changedAt()).toBe(5);
  });

  test('are kept when they are proven, and are the same after a restart', async () => {
    const first = open();
    found = [peer(['192.0.2.30'])];
    heard();
    first.announced([at('192.0.2.20')]);
    first.connected(at('192.0.2.20'));
    await written();
    const kept = await readMembership(directory);
    expect(kept).toEqual({
      ...membership,
      addresses: [at('192.0.2.20'), at('192.0.2.1'), at('hub.example')],
      joinAddresses: membership.addresses,
    });
    found = [];
    expect(hosts(open(kept ?? membership))).toEqual(['192.0.2.20', '192.0.2.1', 'hub.example']);
  });

  test('do not pile up however often they change', async () => {
    const addresses = open();
    for (let day = 1; day < 100; day += 1) {
      addresses.announced([at(`198.51.100.${day}`)]);
      addresses.connected(at(`198.51.100.${day}`));
    }
    addresses.close();
    await written();
    expect((await readMembership(directory))?.addresses).toEqual([
      at('198.51.100.99'),
      ...membership.addresses,
    ]);
  });

  test('nothing is written while nothing changes, nor after the end', async () => {
    const addresses = open();
    addresses.connected(at('192.0.2.1'));
    addresses.close();
    await written();
    addresses.announced([at('192.0.2.20')]);
    addresses.close();
    await written();
    expect(await readMembership(directory)).toBeNull();
  });

  test('a write that fails is tried again with the next change', async () => {
    const writes: Membership[] = [];
    const addresses = open(membership, async (_directory, value) => {
      writes.push(value);
      if (writes.length === 1) throw new Error('ENOSPC');
    });
    addresses.announced([at('192.0.2.20')]);
    await new Promise((resolve) => setImmediate(resolve));
    addresses.connected(at('192.0.2.1'));
    addresses.close();
    await written();
    expect(writes).toHaveLength(2);
  });

  test('a new one is told as fresh, another order is not', () => {
    const addresses = open();
    const changes: boolean[] = [];
    addresses.onChange(({ fresh }) => changes.push(fresh));
    found = [peer(['192.0.2.30'])];
    heard();
    heard();
    addresses.connected(at('hub.example'));
    found = [];
    heard();
    expect(changes).toEqual([true, false, false]);
  });

  test('of discovery, only controllers that claim the key count, and none crowds out the others', () => {
    const addresses = open();
    found = [
      peer(Array.from({ length: 16 }, (_, index) => `203.0.113.${index}`)),
      peer(['192.0.2.40']),
      peer(['192.0.2.50'], { role: 'worker' }),
      peer(['192.0.2.60'], { nodeId: 'd'.repeat(64) as NodeId }),
    ];
    heard();
    expect(hosts(addresses)).toContain('192.0.2.40');
    expect(hosts(addresses)).not.toContain('192.0.2.50');
    expect(hosts(addresses)).not.toContain('192.0.2.60');
  });

  test('are never none, never more than 16, never twice, and begin with the one that answered last', () => {
    const address = fc.record({ host: fc.ipV4(), port: fc.constantFrom(7879, 7880) });
    fc.assert(
      fc.property(
        fc.array(fc.oneof(address, fc.array(address, { maxLength: 16 }), fc.constant(null)), {
          maxLength: 12,
        }),
        (steps) => {
          const addresses = open(membership, async () => undefined);
          let good = membership.addresses[0];
          for (const step of steps) {
            if (step === null) {
              found = [peer(['192.0.2.30', '192.0.2.31'])];
              heard();
            } else if (Array.isArray(step)) addresses.announced(step);
            else addresses.connected((good = step));
            const list = addresses.addresses();
            expect(list[0]).toEqual(good);
            expect(list.length).toBeLessThanOrEqual(16);
            expect(new Set(list.map(({ host, port }) => `${host} ${port}`)).size).toBe(list.length);
          }
        },
      ),
    );
  });
});
