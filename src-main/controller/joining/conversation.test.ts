import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { joinControllerFrame, type JoinWorkerFrame } from '#shared/protocol/join.ts';
import { PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import { commitmentOf } from '../../nodejs/pairing/commitment.ts';
import { pairingDigits } from '../../nodejs/pairing/digits.ts';
import { createJoinPair, testKey } from '../../nodejs/pairing/fixtures.ts';
import { attemptLimits } from './attempt-limits.ts';
import { createBench, settle, type Bench } from './fixtures.ts';

const hex = (digit: string): string => digit.repeat(64);
const anna = testKey('anna');
const mallory = testKey('mallory');
const annaNonce = hex('7');

let bench: Bench;
beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  bench = await createBench();
});
afterEach(() => {
  bench.close();
  vi.useRealTimers();
});

/** Anna, who has dialled Mallory and takes Mallory for the controller. */
function deceivedAnna(): {
  readonly atMallory: ReturnType<typeof createJoinPair>['atController'];
  say(frame: JoinWorkerFrame): Promise<void>;
  ask(): Promise<void>;
  digits(): string;
} {
  const { atWorker, atController } = createJoinPair({ workerId: anna, controllerId: mallory });
  let controllerNonce = '';
  atWorker.onMessage((text) => {
    const frame = joinControllerFrame.parse(JSON.parse(text));
    if (frame.type === 'challenge') controllerNonce = frame.nonce;
  });
  const say = async (frame: JoinWorkerFrame): Promise<void> => {
    atWorker.send(JSON.stringify(frame));
    await settle();
  };
  return {
    atMallory: atController,
    say,
    ask: () =>
      say({
        type: 'ask',
        protocol: PROTOCOL_VERSION,
        name: 'anna',
        commitment: commitmentOf(annaNonce, anna),
      }),
    digits: () =>
      pairingDigits({
        binding: atWorker.binding,
        workerId: anna,
        controllerId: mallory,
        workerNonce: annaNonce,
        controllerNonce,
      }),
  };
}

describe('man in the middle', () => {
  test('who passes everything on: the commitment opens under the key of its maker only', async () => {
    const towardsController = bench.dial('anna', { workerId: mallory });
    const victim = deceivedAnna();
    victim.atMallory.onMessage((text) => towardsController.end.send(text));
    towardsController.end.onMessage((text) => victim.atMallory.send(text));
    await victim.ask();
    await victim.say({ type: 'reveal', nonce: annaNonce });
    expect(towardsController.refusal()).toBe('join_code_mismatch');
    expect(bench.joining.pending().pending).toEqual([]);
  });

  test('who asks for itself and hands the nonce on: the number that Anna shows fits no request', async () => {
    const towardsController = bench.dial('anna', { workerId: mallory });
    const malloryDigits = await towardsController.ask();
    const challenge = towardsController.heard.find((frame) => frame.type === 'challenge');
    const victim = deceivedAnna();
    await victim.ask();
    victim.atMallory.send(JSON.stringify(challenge));
    await settle();
    expect(victim.digits()).not.toBe(malloryDigits);
    expect(bench.joining.pending().pending).toMatchObject([{ name: 'anna' }]);
    expect(() => bench.joining.approve(victim.digits())).toThrow(/somebody between the two machines/);
    await towardsController.say({ type: 'confirm' });
    expect(bench.members()).toEqual([]);
  });

  test('gets few challenges to try its luck with, and floods the event list with none of them', async () => {
    let challenges = 0;
    for (let attempt = 0; attempt < 1_000; attempt += 1) {
      const worker = bench.dial('mallory', { remoteAddress: `198.51.100.${attempt % 250}` });
      await worker.say({ type: 'ask', protocol: PROTOCOL_VERSION, name: 'm', commitment: hex('a') });
      if (worker.last()?.type === 'challenge') challenges += 1;
      else expect(worker.refusal()).toBe('join_busy');
      worker.end.cut();
    }
    expect(challenges).toBe(attemptLimits.challenges);
    expect(bench.notes('security-join-refused').length).toBeLessThan(25);
    vi.advanceTimersByTime(60_000);
    expect(bench.notes('security-join-refused').at(-1)).toMatch(/^\d+ more of the kind/);
    bench.now += attemptLimits.windowMs;
    const later = bench.dial('anna', { remoteAddress: '203.0.113.1' });
    await later.ask();
    expect(later.refusal()).toBeNull();
  });
});

const hexes = fc.constantFrom(hex('0'), hex('7'), commitmentOf(annaNonce, anna), 'short', hex('Z'));
const protocols = fc.constantFrom(PROTOCOL_VERSION, 1, -1, 1.5);
const names = fc.oneof(fc.constantFrom('anna', '', '\u202e\u0000', 'x'.repeat(300)), fc.string());
const frames = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ type: fc.constant('ask'), protocol: protocols, name: names, commitment: hexes }),
  },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('reveal'), nonce: hexes }) },
  { weight: 2, arbitrary: fc.constant({ type: 'confirm' }) },
  fc.record({ type: fc.constant('join-string'), protocol: protocols, name: names, secret: hexes }),
  fc.record({ type: fc.constant('prove'), protocol: protocols, name: names, nonce: hexes }),
  fc.record({ type: fc.constant('proof'), mac: hexes }),
  fc.object(),
  fc.jsonValue(),
);
const steps = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: frames.map((frame) => ({ send: JSON.stringify(frame) })) },
    fc.string({ unit: 'binary' }).map((text) => ({ send: text })),
    { weight: 8, arbitrary: fc.constant({ ask: true }) },
    fc.constant({ cut: true }),
    fc.constant({ expire: true }),
  ),
  { maxLength: 12 },
);

test('whatever comes, in whatever order: no exception, nobody let in, nothing left behind', async () => {
  await bench.joining.newClusterSecret();
  bench.joining.invite();
  let listed = 0;
  await fc.assert(
    fc.asyncProperty(steps, fc.boolean(), async (actions, holds) => {
      const worker = bench.dial('anna', { workerId: anna, holds, remoteAddress: '203.0.113.5' });
      bench.now += attemptLimits.windowMs;
      for (const action of actions) {
        if ('send' in action) await worker.say(action.send);
        else if ('ask' in action) await worker.ask();
        else if ('cut' in action) worker.end.cut();
        else vi.advanceTimersByTime(10 * 60_000);
      }
      await settle();
      for (const frame of worker.heard) expect(joinControllerFrame.safeParse(frame).success).toBe(true);
      expect(worker.heard.filter((frame) => frame.type === 'refused').length).toBeLessThanOrEqual(1);
      if (worker.heard.some((frame) => frame.type === 'waiting')) listed += 1;
      expect(bench.joining.pending().pending.length).toBe(
        worker.end.isOpen && worker.heard.some((frame) => frame.type === 'waiting') ? 1 : 0,
      );
      worker.end.cut();
      expect(bench.joining.pending().pending).toEqual([]);
      expect(bench.members()).toEqual([]);
    }),
    { numRuns: 400 },
  );
  // Otherwise it would not have tried what it is about.
  expect(listed).toBeGreaterThan(40);
  bench.joining.close();
  expect(vi.getTimerCount()).toBe(0);
});
