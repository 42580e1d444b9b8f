import { describe, expect, it } from 'vitest';
import type { AddressAttempt, InterfaceView } from '#shared/domain/network.ts';
import type { Address } from '#shared/domain/node.ts';
import { discoveryViewSchema } from '#shared/api/self.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { announcementMark } from '../pairing/cluster-secret.ts';
import type { Discovery } from './discovery.ts';
import { bootIdOf, examplePeer, nodeIdOf } from './fixtures.ts';
import type { FoundPeer } from './peer-table.ts';
import { createDiscoveryView, discoveryOff } from './view.ts';

const self = nodeIdOf('5');
const controller = nodeIdOf('c');
const member = nodeIdOf('e');
const secret = `covey-secret.${'7'.repeat(32)}`;
const works: InterfaceView = {
  name: 'eth0',
  address: '10.0.0.9',
  virtual: false,
  working: true,
  problem: null,
};

const peer = (nodeId: NodeId, host: string, changes: Partial<FoundPeer> = {}): FoundPeer =>
  examplePeer({ nodeId, addresses: [{ host, port: 7879 }], seenAt: Date.now() + 60_000, ...changes });
/** Heard before the question, silent since. */
const silent = { seenAt: 1 };

interface Scene {
  readonly peers?: readonly FoundPeer[];
  /** Which key answers at which host (port 7879). */
  readonly answers?: Readonly<Record<string, NodeId>>;
  readonly interfaces?: readonly InterfaceView[];
  readonly enabled?: boolean;
  /** Waits as long as it is allowed to. */
  readonly slow?: boolean;
  readonly tried?: Address[][];
}

function look(scene: Scene, signal = new AbortController().signal) {
  const discovery: Discovery = {
    announce: () => undefined,
    announced: () => ({
      role: 'worker',
      nodeId: self,
      bootId: bootIdOf('5'),
      name: 'here',
      version: '0.1.0',
      port: 7879,
      mark: null,
    }),
    peers: () => [...(scene.peers ?? [])],
    onChange: () => () => undefined,
    interfaces: () => [...(scene.interfaces ?? [works])],
    enabled: scene.enabled ?? true,
    setEnabled: () => undefined,
    refresh: () => undefined,
    close: async () => undefined,
  };
  const identify = async (addresses: readonly Address[], timeoutMs: number): Promise<AddressAttempt[]> => {
    scene.tried?.push([...addresses]);
    if (scene.slow) await new Promise((resolve) => setTimeout(resolve, timeoutMs));
    return addresses.map((address) => {
      const nodeId = scene.answers?.[address.host] ?? null;
      const answered = nodeId !== null;
      return {
        address,
        nodeId,
        connectMs: answered ? 3 : null,
        problem: answered ? null : 'does not answer',
      };
    });
  };
  const view = createDiscoveryView({
    discovery,
    transport: { identify },
    selfId: self,
    clock: { now: () => Date.now() },
    membership: () => ({ controllerId: controller, memberIds: [member, self] }),
    clusterSecret: () => secret,
  });
  return view(signal);
}

async function relations(scene: Scene): Promise<string[]> {
  const view = await look(scene);
  expect(discoveryViewSchema.parse(view)).toEqual(view);
  return view.machines
    .filter((one) => one.relation !== 'self')
    .map((one) => `${one.nodeId[0]} ${one.relation} ${one.verified ? 'verified' : 'unverified'}`);
}

describe('what a machine that was found is to us', () => {
  it('controller, member, kin and stranger, in this order, each verified by its key', async () => {
    const kin = nodeIdOf('d');
    const nonce = '1'.repeat(32);
    const stranger = nodeIdOf('a');
    const peers = [
      peer(stranger, '10.0.0.4', { nonce, mark: announcementMark(secret, nonce, kin) }),
      peer(kin, '10.0.0.3', { nonce, mark: announcementMark(secret, nonce, kin) }),
      peer(member, '10.0.0.2'),
      peer(controller, '10.0.0.1', { role: 'controller' }),
    ];
    const answers = { '10.0.0.1': controller, '10.0.0.2': member, '10.0.0.3': kin, '10.0.0.4': stranger };
    expect(await relations({ peers, answers })).toEqual([
      'c controller verified',
      'e member verified',
      'd kin verified',
      'a stranger verified',
    ]);
  });

  it('one that claims a key and shows another is a stranger', async () => {
    const peers = [peer(controller, '10.0.0.66')];
    expect(await relations({ peers, answers: { '10.0.0.66': nodeIdOf('6') } })).toEqual([
      'c stranger unverified',
    ]);
  });

  it('is verified by any of its addresses', async () => {
    const addresses = ['10.0.0.66', '10.0.0.2'].map((host) => ({ host, port: 7879 }));
    const peers = [peer(member, '', { addresses })];
    const answers = { '10.0.0.66': nodeIdOf('6'), '10.0.0.2': member };
    expect(await relations({ peers, answers })).toEqual(['e member verified']);
  });

  it('one that answers nowhere is what it claims, unverified', async () => {
    expect(await relations({ peers: [peer(member, '10.0.0.2')] })).toEqual(['e member unverified']);
  });

  it('an earlier run is left out: at the same place, or silent', async () => {
    const now = peer(member, '10.0.0.2');
    const answers = { '10.0.0.2': member };
    const samePlace = peer(member, '10.0.0.2', { bootId: bootIdOf('1'), ...silent });
    const elsewhere = peer(member, '10.0.0.3', { bootId: bootIdOf('2'), ...silent });
    expect(await relations({ peers: [now, samePlace, elsewhere], answers })).toEqual(['e member verified']);
  });

  it('a copied identity: both are duplicates when both show the key', async () => {
    const peers = [peer(member, '10.0.0.2'), peer(member, '10.0.0.3', { bootId: bootIdOf('1') })];
    expect(await relations({ peers, answers: { '10.0.0.2': member, '10.0.0.3': member } })).toEqual([
      'e duplicate verified',
      'e duplicate verified',
    ]);
    expect(await relations({ peers, answers: { '10.0.0.2': member } })).toEqual([
      'e member verified',
      'e duplicate unverified',
    ]);
  });

  it('a copy of this machine is one, an earlier run of it is not', async () => {
    const copy = peer(self, '10.0.0.3', { bootId: bootIdOf('1') });
    expect(await relations({ peers: [copy], answers: { '10.0.0.3': self } })).toEqual([
      '5 duplicate verified',
    ]);
    expect(await relations({ peers: [copy] })).toEqual(['5 duplicate unverified']);
    const earlier = peer(self, works.address, { bootId: bootIdOf('1'), ...silent });
    expect(await relations({ peers: [earlier], answers: { [works.address]: self } })).toEqual([]);
    expect(await relations({ peers: [{ ...copy, ...silent }] })).toEqual([]);
  });
});

describe('the view', () => {
  it('has this machine first', async () => {
    const { machines, enabled, problem } = await look({ peers: [peer(member, '10.0.0.2')] });
    expect(machines[0]).toMatchObject({ relation: 'self', name: 'here', interfaces: ['eth0'] });
    expect({ enabled, problem }).toEqual({ enabled: true, problem: null });
  });

  it('says why nothing may be found', async () => {
    expect((await look({})).problem).toMatch(/No other machine was heard.*multicast/);
    expect((await look({ interfaces: [] })).problem).toMatch(/no network interface/);
    const blocked = { ...works, working: false, problem: 'may not' };
    expect((await look({ interfaces: [blocked] })).problem).toMatch(/eth0 may not\.$/);
    expect((await look({ enabled: false })).problem).toMatch(/switched off/);
    expect(discoveryOff()).toMatchObject({ enabled: false, problem: expect.stringMatching(/switched off/) });
  });

  it('takes 3 s at most, members first, and says what was not tried', async () => {
    const crowd = Array.from({ length: 100 }, (_none, index) =>
      peer(index.toString(16).padStart(64, '0') as NodeId, `10.0.1.${index}`),
    );
    const tried: Address[][] = [];
    const startedAt = Date.now();
    const { machines } = await look({ peers: [...crowd, peer(member, '10.0.0.2')], slow: true, tried });
    expect(Date.now() - startedAt).toBeLessThan(3_500);
    expect(machines).toHaveLength(102);
    expect(tried[0]).toEqual([{ host: '10.0.0.2', port: 7879 }]);
    expect(tried.length).toBeLessThan(40);
    const problems = new Set(machines.flatMap((one) => one.attempts.map((attempt) => attempt.problem)));
    expect([...problems].sort()).toEqual([
      'does not answer',
      'was not tried: too many machines were found to try them all in time',
    ]);
  });

  it('ends when it is cancelled', async () => {
    const abort = new AbortController();
    const view = look({ peers: [peer(member, '10.0.0.2')], slow: true }, abort.signal);
    abort.abort();
    await expect(view).rejects.toMatchObject({ code: 'cancelled' });
    await expect(look({}, abort.signal)).rejects.toMatchObject({ code: 'cancelled' });
  });
});
