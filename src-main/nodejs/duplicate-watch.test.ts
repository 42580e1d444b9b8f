import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Address } from '#shared/domain/node.ts';
import type { AddressAttempt } from '#shared/domain/network.ts';
import type { BootId, NodeId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { FoundPeer } from './discovery/peer-table.ts';
import {
  createDuplicateWatch,
  suspicions,
  type DuplicateWatch,
  type Sighting,
  type Surroundings,
} from './duplicate-watch.ts';

const selfId = 'a'.repeat(64) as NodeId;
const controllerId = 'c'.repeat(64) as NodeId;
const boot = (digit: string): BootId => digit.repeat(32) as BootId;
const at = (host: string, port = 7879): Address => ({ host, port });

const sighting = (changes: Partial<Sighting> = {}): Sighting => ({
  nodeId: selfId,
  bootId: boot('2'),
  name: 'copy',
  role: 'worker',
  addresses: [at('192.0.2.2')],
  firstSeenAt: 0,
  seenAt: 100_000,
  ...changes,
});
const around: Surroundings = {
  selfId,
  selfBootId: boot('1'),
  startedAt: 0,
  own: [at('192.0.2.1'), at('127.0.0.1')],
  controllerId,
  now: 110_000,
};
const whose = (sightings: Sighting[], changes: Partial<Surroundings> = {}): string[] =>
  suspicions(sightings, { ...around, ...changes }).map((one) => one.whose);

describe('two runs of one identity', () => {
  test('at other addresses, both heard, are suspected', () => {
    expect(whose([sighting()])).toEqual(['self']);
    const one = sighting({ nodeId: controllerId, role: 'controller', bootId: boot('3') });
    const other = { ...one, bootId: boot('4'), addresses: [at('192.0.2.4')] };
    expect(whose([one, other])).toEqual(['controller']);
  });

  test.each([
    ['our own run', [sighting({ bootId: boot('1') })]],
    ['another node', [sighting({ nodeId: 'b'.repeat(64) as NodeId })]],
    ['a run that is not heard any more', [sighting({ seenAt: -20_000 })]],
    ['a run at our own address: we have just started again', [sighting({ addresses: [at('192.0.2.1')] })]],
    [
      'a controller that was started again at another address',
      [
        sighting({ nodeId: controllerId, role: 'controller', bootId: boot('3'), seenAt: 50_000 }),
        sighting({
          nodeId: controllerId,
          role: 'controller',
          bootId: boot('4'),
          firstSeenAt: 51_000,
          addresses: [at('192.0.2.4')],
        }),
      ],
    ],
    [
      "the controller's key announced by a worker",
      [
        sighting({ nodeId: controllerId, bootId: boot('3') }),
        sighting({ nodeId: controllerId, bootId: boot('4'), addresses: [at('192.0.2.4')] }),
      ],
    ],
  ])('is not %s', (_name, sightings) => {
    expect(whose(sightings)).toEqual([]);
  });

  test('is not a run that ended when this one began', () => {
    expect(whose([sighting({ seenAt: 99_000 })], { startedAt: 98_000 })).toEqual([]);
  });

  test('a copy on the same machine is known by its port', () => {
    expect(whose([sighting({ addresses: [at('127.0.0.1', 7979)] })])).toEqual(['self']);
  });
});

describe('the watch', () => {
  const logger: Logger = {
    log: () => undefined,
    debug: () => undefined,
    info: () => undefined,
    warn: () => undefined,
    error: () => undefined,
    child: () => logger,
  };
  let peers: FoundPeer[];
  let keys: Map<string, NodeId>;
  let asked: number;
  let refreshed: number;
  let duplicates: string[];
  let impostors: string[];
  let watch: DuplicateWatch;
  const peer = (digit: string, host: string, changes: Partial<FoundPeer> = {}): FoundPeer => ({
    nodeId: selfId,
    bootId: boot(digit),
    name: `n${digit}`,
    role: 'worker',
    version: '0',
    addresses: [at(host)],
    nonce: '',
    mark: null,
    interfaces: [],
    seenAt: Date.now(),
    ...changes,
  });
  const hear = (...heard: FoundPeer[]): void => {
    peers = heard.map((one) => ({ ...one, seenAt: Date.now() }));
  };
  beforeEach(() => {
    vi.useFakeTimers();
    peers = [];
    keys = new Map();
    asked = 0;
    refreshed = 0;
    duplicates = [];
    impostors = [];
    watch = createDuplicateWatch({
      discovery: {
        peers: () => peers,
        onChange: () => () => undefined,
        refresh: () => void (refreshed += 1),
      },
      transport: {
        clusterAddress: at('0.0.0.0'),
        identify: async (addresses): Promise<AddressAttempt[]> => {
          asked += 1;
          return addresses.map((address) => ({
            address,
            nodeId: keys.get(address.host) ?? null,
            connectMs: null,
            problem: null,
          }));
        },
      },
      self: { nodeId: selfId, bootId: boot('1') },
      clock: { now: Date.now },
      interfaces: () => ({}),
      controllerId: () => controllerId,
      logger,
      onDuplicate: ({ message }) => duplicates.push(message),
      onImpostor: (sentence) => impostors.push(sentence),
    });
  });
  afterEach(() => {
    watch.close();
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  test('names a copy that shows our key, once, until it is gone', async () => {
    keys.set('192.0.2.2', selfId);
    for (let round = 0; round < 4; round += 1) {
      hear(peer('2', '192.0.2.2'));
      await vi.advanceTimersByTimeAsync(10_000);
    }
    expect(watch.notices()).toEqual([
      {
        code: 'identity_in_use',
        message: expect.stringMatching(/n2 at 192\.0\.2\.2:7879.*identity new/) as string,
      },
    ]);
    expect(duplicates).toHaveLength(1);
    hear();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(watch.notices()).toEqual([]);
  });

  test('calls a run that was heard before it could tell, a few times', async () => {
    hear(peer('2', '192.0.2.2'));
    await vi.advanceTimersByTimeAsync(100_000);
    expect(refreshed).toBe(3);
    expect(watch.notices()).toEqual([]);
  });

  test('does not believe an announcement, and asks seldom', async () => {
    for (let round = 0; round < 12; round += 1) {
      hear(peer('2', '192.0.2.2'));
      await vi.advanceTimersByTimeAsync(10_000);
    }
    expect(watch.notices()).toEqual([]);
    expect(asked).toBeLessThanOrEqual(2);
  });

  test('tells once of what announces itself as this machine and shows another key', async () => {
    keys.set('192.0.2.2', controllerId);
    for (let round = 0; round < 12; round += 1) {
      hear(peer('2', '192.0.2.2'));
      await vi.advanceTimersByTimeAsync(10_000);
    }
    expect(impostors).toEqual([expect.stringMatching(/^What answers at 192\.0\.2\.2:7879 .* another key/)]);
    expect(watch.notices()).toEqual([]);
    expect(duplicates).toEqual([]);
  });

  test('names two controllers of one key when both show it', async () => {
    const both = [
      peer('3', '192.0.2.3', { nodeId: controllerId, role: 'controller' }),
      peer('4', '192.0.2.4', { nodeId: controllerId, role: 'controller' }),
    ];
    keys.set('192.0.2.3', controllerId);
    for (let round = 0; round < 8; round += 1) {
      if (round === 4) expect(watch.notices()).toEqual([]);
      keys.set('192.0.2.4', round < 4 ? selfId : controllerId);
      hear(...both);
      await vi.advanceTimersByTimeAsync(20_000);
    }
    expect(watch.notices()).toEqual([
      {
        code: 'identity_in_use',
        message: expect.stringMatching(/n3 at 192\.0\.2\.3:7879 and n4 at 192\.0\.2\.4:7879/) as string,
      },
    ]);
    expect(duplicates).toEqual([]);
  });
});
