import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { JoinView } from '#shared/api/joining.ts';
import { CoveyError } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import { joinWorkerFrame, type JoinControllerFrame, type JoinWorkerFrame } from '#shared/protocol/join.ts';
import { encodeJoinString } from '../../src-main/nodejs/join-string.ts';
import { readMembership, type Membership } from '../../src-main/nodejs/membership.ts';
import { announcementMark, proofMac } from '../../src-main/nodejs/pairing/cluster-secret.ts';
import { commitmentOf } from '../../src-main/nodejs/pairing/commitment.ts';
import { pairingDigits } from '../../src-main/nodejs/pairing/digits.ts';
import { createJoinPair, testKey, type ConversationEnd } from '../../src-main/nodejs/pairing/fixtures.ts';
import type { JoinTarget } from '../../src-main/nodejs/transport/transport.ts';
import type { Announced } from './controllers.ts';
import { createJoiner, type Joiner } from './joiner.ts';

const quiet: Logger = {
  log: () => undefined,
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => quiet,
};
const anna = testKey('anna');
const home = testKey('home');
const secret = `covey-secret.${'ab'.repeat(16)}`;
const hex = (digit: string): string => digit.repeat(64);

let directory: string;
let joiner: Joiner;
let bench: Bench;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-joiner-'));
  bench = createBench();
  joiner = bench.joiner;
});
afterEach(async () => {
  joiner.close();
  await rm(directory, { recursive: true, force: true });
});

interface Bench {
  readonly joiner: Joiner;
  readonly joined: Membership[];
  readonly kept: string[];
  readonly dialled: JoinTarget[];
  /** What is found, and that it has changed. */
  find(...peers: Announced[]): void;
  /** The key at the other end of the next dial; an error: nothing answers. */
  answersWith: NodeId | CoveyError;
  /** The controller's end of the newest conversation. */
  controller(): Promise<ScriptedController>;
}

interface ScriptedController {
  readonly end: ConversationEnd;
  say(frame: JoinControllerFrame | string): void;
  /** The next frame of the worker, which must be of that type. */
  hear<T extends JoinWorkerFrame['type']>(type: T): Promise<Extract<JoinWorkerFrame, { type: T }>>;
}

async function until<T>(what: string, value: () => T | null | undefined | false): Promise<T> {
  for (let turn = 0; turn < 500; turn += 1) {
    const found = value();
    if (found !== null && found !== undefined && found !== false) return found;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  throw new Error(`waited in vain for ${what}; the view is ${JSON.stringify(joiner.view())}`);
}
const untilPhase = (phase: JoinView['phase']): Promise<JoinView> =>
  until(`phase ${phase}`, () => joiner.view().phase === phase && joiner.view());

function announced(name: string, changes: Partial<Announced> = {}): Announced {
  const nodeId = testKey(name);
  return {
    nodeId,
    name,
    role: 'controller',
    addresses: [{ host: '192.0.2.1', port: 7879 }],
    nonce: 'n',
    mark: null,
    ...changes,
  };
}
const kin = (name: string): Announced =>
  announced(name, { mark: announcementMark(secret, 'n', testKey(name)) });

function createBench(): Bench {
  const ends: ScriptedController[] = [];
  let taken = 0;
  let peers: readonly Announced[] = [];
  const listeners = new Set<() => void>();
  const joined: Membership[] = [];
  const kept: string[] = [];
  const dialled: JoinTarget[] = [];
  const made: Bench = {
    joined,
    kept,
    dialled,
    answersWith: home,
    joiner: createJoiner({
      transport: {
        async dialJoin(target) {
          dialled.push(target);
          if (made.answersWith instanceof CoveyError) throw made.answersWith;
          const [dialledAddress] = target.addresses;
          const pair = createJoinPair({
            workerId: anna,
            controllerId: made.answersWith,
            ...(dialledAddress ? { dialledAddress } : {}),
          });
          ends.push(scripted(pair.atController));
          return pair.atWorker;
        },
      },
      nodeId: anna,
      name: 'anna',
      discovery: {
        peers: () => peers,
        onChange(listener) {
          listeners.add(listener);
          return () => void listeners.delete(listener);
        },
        refresh: () => undefined,
      },
      dataDirectory: directory,
      keepClusterSecret: async (held) => void kept.push(held),
      logger: quiet,
      clock: { now: () => 1_000 },
      random: () => 0,
    }),
    find(...found) {
      peers = found;
      for (const listener of listeners) listener();
    },
    async controller() {
      const end = await until('a dial', () => ends[taken]);
      taken += 1;
      return end;
    },
  };
  made.joiner.onJoined((membership) => joined.push(membership));
  return made;
}

function scripted(end: ConversationEnd): ScriptedController {
  const frames: JoinWorkerFrame[] = [];
  end.onMessage((text) => frames.push(joinWorkerFrame.parse(JSON.parse(text))));
  return {
    end,
    say: (frame) => end.send(typeof frame === 'string' ? frame : JSON.stringify(frame)),
    async hear(type) {
      const frame = await until(`a frame "${type}"`, () => frames.shift());
      expect(frame.type).toBe(type);
      return frame as never;
    },
  };
}

const admitted: JoinControllerFrame = {
  type: 'admitted',
  controllerId: home,
  controllerName: 'home',
  addresses: [
    { host: '192.0.2.1', port: 7879 },
    { host: '198.51.100.1', port: 7879 },
  ],
};

/** As an honest controller until the request waits. */
async function listAt(controller: ScriptedController): Promise<{ digits: string }> {
  const ask = await controller.hear('ask');
  controller.say({ type: 'challenge', controllerName: 'home', nonce: hex('c') });
  const { nonce } = await controller.hear('reveal');
  expect(commitmentOf(nonce, anna)).toBe(ask.commitment);
  controller.say({ type: 'waiting', expiresInMs: 300_000 });
  const digits = pairingDigits({
    binding: controller.end.binding,
    workerId: anna,
    controllerId: home,
    workerNonce: nonce,
    controllerNonce: hex('c'),
  });
  return { digits };
}

describe('by approval', () => {
  test('shows the digits, waits for both people, and is on disk before anybody hears of it', async () => {
    const onDisk: Array<Promise<Membership | null>> = [];
    joiner.onJoined(() => onDisk.push(readMembership(directory)));
    expect(await joiner.start({ controller: '192.0.2.9:1234' })).toMatchObject({
      phase: 'connecting',
      by: 'approval',
      controller: { nodeId: null, address: { host: '192.0.2.9', port: 1234 } },
    });
    const controller = await bench.controller();
    expect(bench.dialled[0]).toMatchObject({ expectedNodeId: null });
    const { digits } = await listAt(controller);
    expect(await untilPhase('comparing')).toMatchObject({
      code: digits,
      confirmed: false,
      expiresAt: 301_000,
      controller: { nodeId: home, name: 'home', address: { host: '192.0.2.9', port: 1234 } },
    });
    controller.say({ type: 'approved' });
    expect(await untilPhase('approved')).toMatchObject({ code: digits });
    expect(joiner.confirm()).toMatchObject({ confirmed: true });
    await controller.hear('confirm');
    controller.say(admitted);
    expect(await untilPhase('joined')).toMatchObject({ code: null, by: 'approval' });
    expect(bench.joined).toEqual([
      {
        controllerId: home,
        controllerName: 'home',
        addresses: [{ host: '192.0.2.9', port: 1234 }, ...admitted.addresses],
      },
    ]);
    expect(await onDisk[0]).toEqual(bench.joined[0]);
  });

  test('confirmed before it was typed', async () => {
    await joiner.start({ controller: '192.0.2.9' });
    const controller = await bench.controller();
    await listAt(controller);
    await untilPhase('comparing');
    joiner.confirm();
    joiner.confirm();
    await controller.hear('confirm');
    expect(joiner.view()).toMatchObject({ phase: 'comparing', confirmed: true });
    controller.say({ type: 'approved' });
    controller.say(admitted);
    await untilPhase('joined');
    expect(controller.end.isOpen).toBe(false);
  });

  test('a controller that does not wait for the person here gets no member', async () => {
    await joiner.start({ controller: '192.0.2.9' });
    const controller = await bench.controller();
    await listAt(controller);
    await untilPhase('comparing');
    controller.say({ type: 'approved' });
    controller.say(admitted);
    expect((await untilPhase('failed')).error).toMatchObject({ code: 'invalid_request' });
    expect(await readMembership(directory)).toBeNull();
    expect(bench.joined).toEqual([]);
  });

  test.each<[string, Array<JoinControllerFrame | string>]>([
    ['admits at once', [admitted]],
    ['sends no JSON', ['{']],
    ['sends too much', ['x'.repeat(9_000)]],
    ['says "approved" first', [{ type: 'approved' }]],
    [
      'says "waiting" twice',
      [
        { type: 'challenge', controllerName: 'home', nonce: hex('c') },
        { type: 'waiting', expiresInMs: 1_000 },
        { type: 'waiting', expiresInMs: 1_000 },
      ],
    ],
  ])('a controller that %s is left', async (_what, frames) => {
    await joiner.start({ controller: '192.0.2.9' });
    const controller = await bench.controller();
    for (const frame of frames) controller.say(frame);
    expect((await untilPhase('failed')).error).toMatchObject({ code: 'invalid_request' });
    await until('the end', () => !controller.end.isOpen);
  });

  test('an admission under another key than the one shown does not count', async () => {
    await joiner.start({ controller: '192.0.2.9' });
    const controller = await bench.controller();
    await listAt(controller);
    await untilPhase('comparing');
    joiner.confirm();
    controller.say({ type: 'approved' });
    controller.say({ ...admitted, controllerId: testKey('other') });
    expect((await untilPhase('failed')).error).toMatchObject({ code: 'controller_key_mismatch' });
  });

  test('a refusal and a broken connection show as they are', async () => {
    await joiner.start({ controller: '192.0.2.9' });
    const first = await bench.controller();
    first.say({
      type: 'refused',
      error: { code: 'join_blocked', message: 'The controller has blocked it.' },
    });
    expect((await untilPhase('failed')).error).toMatchObject({ code: 'join_blocked' });
    await joiner.start({ controller: '192.0.2.9' });
    const second = await bench.controller();
    await listAt(second);
    await untilPhase('comparing');
    second.end.cut();
    expect((await untilPhase('failed')).error).toMatchObject({ code: 'controller_unreachable' });
    expect(() => joiner.confirm()).toThrow(expect.objectContaining({ code: 'join_not_running' }));
  });

  test('cancel takes the request back; another start replaces the one that runs', async () => {
    await joiner.start({ controller: '192.0.2.9' });
    const first = await bench.controller();
    await listAt(first);
    await untilPhase('comparing');
    await joiner.start({ controller: '192.0.2.10' });
    await until('the end of the first', () => !first.end.isOpen);
    const second = await bench.controller();
    await listAt(second);
    await untilPhase('comparing');
    expect(joiner.cancel()).toMatchObject({ phase: 'idle', code: null });
    await until('the end of the second', () => !second.end.isOpen);
    expect(joiner.view().phase).toBe('idle');
  });
});

describe('which controller', () => {
  test('the only one in sight, under the key that it announces', async () => {
    bench.find(announced('home'), announced('ben', { role: 'worker' }));
    await joiner.start({});
    await bench.controller();
    expect(bench.dialled[0]).toMatchObject({ expectedNodeId: home });
  });

  test('two are listed and neither is asked; one of them by name or id', async () => {
    bench.find(
      announced('home'),
      announced('attic'),
      announced('home', { addresses: [{ host: '192.0.2.2', port: 1 }] }),
    );
    await expect(joiner.start({})).rejects.toMatchObject({
      code: 'controllers_ambiguous',
      details: { reasons: [{ nodeId: home }, { nodeId: testKey('attic') }] },
    });
    expect(bench.dialled).toEqual([]);
    await joiner.start({ controller: 'attic' });
    expect(bench.dialled.at(-1)).toMatchObject({ expectedNodeId: testKey('attic') });
    await joiner.start({ controller: home.slice(0, 12) });
    expect(bench.dialled.at(-1)).toMatchObject({
      expectedNodeId: home,
      addresses: [
        { host: '192.0.2.1', port: 7879 },
        { host: '192.0.2.2', port: 1 },
      ],
    });
  });

  test('two of one name must be told apart by id', async () => {
    bench.find(announced('home'), { ...announced('attic'), name: 'home' });
    await expect(joiner.start({ controller: 'home' })).rejects.toMatchObject({
      code: 'controllers_ambiguous',
    });
  });

  test.each([
    ['host', { host: 'host', port: 7879 }],
    ['host.example:12', { host: 'host.example', port: 12 }],
    ['[2001:db8::1]:12', { host: '2001:db8::1', port: 12 }],
    ['[2001:db8::1]', { host: '2001:db8::1', port: 7879 }],
    ['2001:db8::1', { host: '2001:db8::1', port: 7879 }],
  ])('the address %s', async (controller, address) => {
    await joiner.start({ controller });
    expect(bench.dialled[0]?.addresses).toEqual([address]);
  });

  test.each(['a b', 'host:', 'host:0', 'host:99999', ':12', '[::1', 'http://host'])(
    'not %j',
    async (controller) => {
      await expect(joiner.start({ controller })).rejects.toMatchObject({ code: 'controller_not_found' });
    },
  );

  test('nobody answers there', async () => {
    bench.answersWith = new CoveyError('controller_unreachable', 'Nothing answers at 192.0.2.9.');
    await joiner.start({ controller: '192.0.2.9' });
    expect((await untilPhase('failed')).error).toMatchObject({ code: 'controller_unreachable' });
  });
});

describe('by join string', () => {
  const joinString = encodeJoinString({
    controllerId: home,
    addresses: [{ host: '192.0.2.1', port: 7879 }],
    secret: hex('5'),
    expiresAt: 1,
  });

  test('under the key that it names', async () => {
    await joiner.start({ joinString });
    const controller = await bench.controller();
    expect(bench.dialled[0]).toMatchObject({ expectedNodeId: home });
    expect(await controller.hear('join-string')).toMatchObject({ secret: hex('5'), name: 'anna' });
    controller.say(admitted);
    await untilPhase('joined');
    expect((await readMembership(directory))?.controllerId).toBe(home);
  });

  test('at an address that people know is tried first, under the same key', async () => {
    await joiner.start({ joinString, controller: 'office.example' });
    await bench.controller();
    expect(bench.dialled[0]).toMatchObject({
      expectedNodeId: home,
      addresses: [
        { host: 'office.example', port: 7879 },
        { host: '192.0.2.1', port: 7879 },
      ],
    });
    await expect(joiner.start({ joinString, controller: 'http://office' })).rejects.toMatchObject({
      code: 'controller_not_found',
      details: { field: 'controller' },
    });
  });

  test('that is damaged begins nothing', async () => {
    await expect(joiner.start({ joinString: joinString.slice(0, -9) })).rejects.toMatchObject({
      code: 'join_string_invalid',
    });
    expect(joiner.view().phase).toBe('idle');
  });
});

describe('by cluster secret', () => {
  async function proveAt(controller: ScriptedController, held: string): Promise<() => Promise<void>> {
    const { nonce } = await controller.hear('prove');
    const transcript = {
      binding: controller.end.binding,
      workerId: anna,
      controllerId: controller.end.peerId === anna ? home : controller.end.peerId,
      workerNonce: nonce,
      controllerNonce: hex('c'),
    };
    controller.say({
      type: 'proof',
      controllerName: 'home',
      nonce: hex('c'),
      mac: proofMac(held, 'controller', transcript),
    });
    return async () => {
      const { mac } = await controller.hear('proof');
      expect(mac).toBe(proofMac(held, 'worker', transcript));
      controller.say(admitted);
    };
  }

  test('joins by itself the one controller with the mark, when it comes into sight', async () => {
    joiner.setAutomatic(secret);
    expect(joiner.view()).toMatchObject({ phase: 'connecting', by: 'cluster-secret', controller: null });
    bench.find(announced('stranger'), announced('liar', { mark: '0'.repeat(32) }));
    expect(bench.dialled).toEqual([]);
    bench.find(announced('stranger'), kin('home'));
    const controller = await bench.controller();
    expect(bench.dialled[0]).toMatchObject({ expectedNodeId: home });
    await (
      await proveAt(controller, secret)
    )();
    expect(await untilPhase('joined')).toMatchObject({ by: 'cluster-secret' });
    bench.find(kin('home'), kin('attic'));
    expect(joiner.view().phase).toBe('joined');
    expect(bench.dialled).toHaveLength(1);
  });

  test('two controllers with the mark: an error is shown and nothing is done, until one is gone', async () => {
    bench.find(kin('home'), kin('attic'));
    joiner.setAutomatic(secret);
    expect(joiner.view()).toMatchObject({ phase: 'failed', error: { code: 'controllers_ambiguous' } });
    expect(bench.dialled).toEqual([]);
    bench.find(kin('home'));
    await bench.controller();
    expect(joiner.view().phase).toBe('connecting');
  });

  test('a controller that cannot prove it gets no proof of ours', async () => {
    bench.find(kin('home'));
    joiner.setAutomatic(secret);
    const controller = await bench.controller();
    await proveAt(controller, `covey-secret.${'cd'.repeat(16)}`);
    expect((await untilPhase('failed')).error).toMatchObject({ code: 'cluster_secret_wrong' });
    expect(controller.end.isOpen).toBe(false);
    await expect(controller.hear('proof')).rejects.toThrow(/in vain/);
  });

  test('given by a person: kept first, then used; cancelled: not used again', async () => {
    await joiner.start({ clusterSecret: secret });
    expect(bench.kept).toEqual([secret]);
    expect(joiner.view()).toMatchObject({ phase: 'connecting', by: 'cluster-secret' });
    joiner.cancel();
    bench.find(kin('home'));
    expect(joiner.view().phase).toBe('idle');
    expect(bench.dialled).toEqual([]);
  });

  test('a named controller is tried with it, and asked when it has none', async () => {
    joiner.setAutomatic(secret);
    await joiner.start({ controller: '192.0.2.9' });
    const first = await bench.controller();
    await first.hear('prove');
    first.say({ type: 'refused', error: { code: 'cluster_secret_missing', message: 'It has none.' } });
    await listAt(await bench.controller());
    expect(await untilPhase('comparing')).toMatchObject({ by: 'approval' });
    expect(bench.dialled).toHaveLength(2);
  });

  test('gone: what ran by it ends', async () => {
    bench.find(kin('home'));
    joiner.setAutomatic(secret);
    const controller = await bench.controller();
    joiner.setAutomatic(null);
    await until('the end', () => !controller.end.isOpen);
    expect(joiner.view().phase).toBe('idle');
  });
});

const hexes = fc.constantFrom(hex('c'), hex('0'), 'short');
const controllerFrames = fc.oneof(
  fc.record({ type: fc.constant('challenge'), controllerName: fc.string(), nonce: hexes }),
  fc.record({ type: fc.constant('waiting'), expiresInMs: fc.constantFrom(1_000, 1e15, -1, 0.5) }),
  fc.constant({ type: 'approved' }),
  fc.record({ type: fc.constant('proof'), controllerName: fc.string(), nonce: hexes, mac: hexes }),
  fc.constant(admitted),
  fc.constant({ type: 'refused', error: { code: 'no_such_code', message: '' } }),
  fc.object(),
  fc.jsonValue(),
);

test('whatever a controller says, nothing is joined that no person here has confirmed', async () => {
  const starts = [
    () => joiner.start({ controller: '192.0.2.9' }),
    async () => {
      joiner.setAutomatic(null);
      bench.find(kin('home'));
      joiner.setAutomatic(secret);
    },
  ];
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...starts),
      fc.boolean(),
      fc.array(
        fc.oneof(
          controllerFrames.map((frame) => JSON.stringify(frame)),
          fc.string(),
        ),
        { maxLength: 8 },
      ),
      async (start, honestFirst, frames) => {
        joiner.cancel();
        await start();
        const controller = await bench.controller();
        if (honestFirst && joiner.view().by === 'approval') await listAt(controller);
        for (const frame of frames) controller.say(frame);
        await new Promise((resolve) => setTimeout(resolve, 1));
        expect(['connecting', 'comparing', 'approved', 'failed']).toContain(joiner.view().phase);
        if (joiner.view().phase === 'failed') {
          expect(joiner.view()).toMatchObject({ code: null, expiresAt: null });
          expect(joiner.view().error).not.toBeNull();
        }
        controller.end.cut();
        await untilPhase('failed');
      },
    ),
    { numRuns: 150 },
  );
  expect(bench.joined).toEqual([]);
  expect(await readMembership(directory)).toBeNull();
});

test('after close nothing is begun and nothing shown', async () => {
  joiner.setAutomatic(secret);
  joiner.close();
  bench.find(kin('home'));
  expect(bench.dialled).toEqual([]);
});
