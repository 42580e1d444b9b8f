import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { LIMITS, PROTOCOL_VERSION } from '#shared/protocol/version.ts';
import { decodeJoinString } from '../../nodejs/join-string.ts';
import { testKey } from '../../nodejs/pairing/fixtures.ts';
import { attemptLimits } from './attempt-limits.ts';
import { createBench, settle, type Bench } from './fixtures.ts';
import { pendingLimits } from './pending.ts';

const codeOf = (action: () => unknown): string => {
  try {
    action();
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
  return 'nothing thrown';
};
const other = (code: string): string => String((Number(code) + 1) % 1_000_000).padStart(6, '0');
const hex = (digit: string): string => digit.repeat(64);

let bench: Bench;
beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  bench = await createBench();
});
afterEach(() => {
  bench.close();
  vi.useRealTimers();
});

function secretOf(joinString: string): string {
  const content = decodeJoinString(joinString);
  if (!content.ok) throw content.error;
  return content.value.secret;
}

describe('approval', () => {
  test('lets a machine in after the digits were typed and confirmed, not before', async () => {
    const anna = bench.dial('anna');
    const digits = await anna.ask();
    expect(anna.last()).toEqual({ type: 'waiting', expiresInMs: pendingLimits.waitMs });
    expect(anna.atController.held[0]).toBeGreaterThanOrEqual(pendingLimits.waitMs);
    expect(bench.joining.pending().pending).toMatchObject([
      { id: anna.nodeId.slice(0, 12), name: 'anna', approved: false, confirmed: false },
    ]);
    expect(JSON.stringify(bench.joining.pending())).not.toContain(digits);
    expect(bench.joining.approve(digits)).toMatchObject({ name: 'anna', approved: true, confirmed: false });
    await settle();
    expect(anna.last()).toEqual({ type: 'approved' });
    expect(bench.members()).toEqual([]);
    // Typed twice is typed once.
    expect(bench.joining.approve(digits)).toMatchObject({ approved: true });
    await anna.say({ type: 'confirm' });
    expect(anna.last()).toEqual({
      type: 'admitted',
      controllerId: bench.controllerId,
      controllerName: 'home',
      addresses: [{ host: '198.51.100.1', port: 7879 }],
    });
    expect(bench.members()).toEqual(['anna']);
    expect(bench.joining.pending().pending).toEqual([]);
    expect(anna.end.isOpen).toBe(false);
    expect(bench.notes('audit-join-requested')[0]).toMatch(/^anna \(/);
    expect(bench.notes('audit-join-approved').join()).toMatch(/was let in by its number/);
    expect(JSON.stringify(bench.events)).not.toContain(digits);
  });

  test('confirmed first, then typed', async () => {
    const anna = bench.dial('anna');
    const digits = await anna.ask();
    await anna.say({ type: 'confirm' });
    expect(bench.members()).toEqual([]);
    expect(bench.joining.pending().pending).toMatchObject([{ approved: false, confirmed: true }]);
    bench.joining.approve(digits);
    await settle();
    expect(anna.heard.map((frame) => frame.type)).toEqual(['challenge', 'waiting', 'approved', 'admitted']);
    expect(bench.members()).toEqual(['anna']);
  });

  test('a wrong number lets nobody in and says what it may mean; the fifth within a minute ends all requests', async () => {
    const anna = bench.dial('anna');
    const digits = await anna.ask();
    for (let wrong = 1; wrong < pendingLimits.wrongCodes; wrong += 1) {
      expect(() => bench.joining.approve(other(digits))).toThrow(/No waiting machine shows that number/);
    }
    expect(bench.joining.pending().pending).toHaveLength(1);
    expect(() => bench.joining.approve(other(digits))).toThrow(/all requests to join were ended/);
    await settle();
    expect(anna.refusal()).toBe('join_code_mismatch');
    expect(codeOf(() => bench.joining.approve(digits))).toBe('join_code_wrong');
    expect(bench.notes('security-join-refused').join()).toMatch(/5 wrong numbers within a minute/);
    expect(bench.members()).toEqual([]);
  });

  test('wrong numbers that lie a minute apart do not add up', async () => {
    const anna = bench.dial('anna');
    const digits = await anna.ask();
    for (let wrong = 0; wrong < 8; wrong += 1) {
      expect(codeOf(() => bench.joining.approve(other(digits)))).toBe('join_code_wrong');
      bench.now += pendingLimits.wrongCodesMs / (pendingLimits.wrongCodes - 1);
    }
    bench.joining.approve(digits);
    await anna.say({ type: 'confirm' });
    expect(bench.members()).toEqual(['anna']);
  });

  test('a request expires by its timer, and by the clock where the timer is late', async () => {
    const anna = bench.dial('anna');
    await anna.ask();
    vi.advanceTimersByTime(pendingLimits.waitMs);
    await settle();
    expect(anna.refusal()).toBe('join_expired');
    expect(bench.notes('audit-join-denied').join()).toMatch(/expired/);

    const ben = bench.dial('ben');
    const digits = await ben.ask();
    bench.now += pendingLimits.waitMs;
    expect(codeOf(() => bench.joining.approve(digits))).toBe('join_code_wrong');
    await settle();
    expect(ben.refusal()).toBe('join_expired');
    expect(bench.joining.pending().pending).toEqual([]);
  });

  test('approved but never confirmed expires too', async () => {
    const anna = bench.dial('anna');
    bench.joining.approve(await anna.ask());
    vi.advanceTimersByTime(pendingLimits.waitMs);
    await settle();
    expect(anna.refusal()).toBe('join_expired');
    await anna.say({ type: 'confirm' });
    expect(bench.members()).toEqual([]);
  });

  test('a machine that asks again replaces its own request and must be approved anew', async () => {
    const first = bench.dial('anna');
    const digits = await first.ask();
    bench.joining.approve(digits);
    const second = bench.dial('anna');
    const again = await second.ask();
    expect(first.refusal()).toBe('join_expired');
    expect(bench.joining.pending().pending).toMatchObject([{ approved: false }]);
    expect(codeOf(() => bench.joining.approve(digits))).toBe('join_code_wrong');
    bench.joining.approve(again);
    await second.say({ type: 'confirm' });
    expect(bench.members()).toEqual(['anna']);
  });

  test('three wait from one address, sixteen in all', async () => {
    for (let index = 0; index < LIMITS.joinWaitingPerAddress; index += 1) await bench.dial(`a${index}`).ask();
    const fourth = bench.dial('a-fourth');
    await fourth.ask();
    expect(fourth.refusal()).toBe('join_busy');
    for (let index = LIMITS.joinWaitingPerAddress; index < LIMITS.joinWaiting; index += 1) {
      await bench.dial(`b${index}`, { remoteAddress: `198.51.100.${index}` }).ask();
    }
    expect(bench.joining.pending().pending).toHaveLength(LIMITS.joinWaiting);
    const last = bench.dial('last', { remoteAddress: '203.0.113.9' });
    await last.ask();
    expect(last.refusal()).toBe('join_busy');
    expect(bench.joining.pending().pending).toHaveLength(LIMITS.joinWaiting);
  });

  test('one IPv6 network is one address', async () => {
    for (let index = 0; index < LIMITS.joinWaitingPerAddress; index += 1) {
      await bench.dial(`a${index}`, { remoteAddress: `2001:db8:1:2::${index + 1}` }).ask();
    }
    const near = bench.dial('near', { remoteAddress: '2001:db8:1:2:ffff::1' });
    await near.ask();
    expect(near.refusal()).toBe('join_busy');
    const far = bench.dial('far', { remoteAddress: '2001:db8:1:3::1' });
    await far.ask();
    expect(far.refusal()).toBeNull();
  });

  test('a transport that cannot hold it is full, and nothing stays listed', async () => {
    const anna = bench.dial('anna', { holds: false });
    await anna.ask();
    expect(anna.refusal()).toBe('join_busy');
    expect(bench.joining.pending().pending).toEqual([]);
  });

  test.each(['challenged', 'waiting', 'approved'] as const)(
    'a machine that vanishes when %s leaves nothing behind',
    async (when) => {
      const anna = bench.dial('anna');
      if (when === 'challenged') {
        await anna.say({ type: 'ask', protocol: PROTOCOL_VERSION, name: 'anna', commitment: hex('a') });
      } else {
        const digits = await anna.ask();
        if (when === 'approved') bench.joining.approve(digits);
      }
      anna.end.cut();
      expect(bench.joining.pending().pending).toEqual([]);
      expect(vi.getTimerCount()).toBe(0);
      expect(bench.members()).toEqual([]);
    },
  );

  test('a commitment that is not kept is refused', async () => {
    const anna = bench.dial('anna');
    await anna.say({ type: 'ask', protocol: PROTOCOL_VERSION, name: 'anna', commitment: hex('a') });
    await anna.say({ type: 'reveal', nonce: hex('b') });
    expect(anna.refusal()).toBe('join_code_mismatch');
    expect(bench.joining.pending().pending).toEqual([]);
  });

  test('deny tells the machine; block refuses its key from then on, until it is unblocked', async () => {
    const anna = bench.dial('anna');
    const digits = await anna.ask();
    expect(codeOf(() => bench.joining.deny('ffffff', false))).toBe('join_request_not_found');
    expect(bench.joining.deny(anna.nodeId.slice(0, 12), true)).toMatchObject({ name: 'anna' });
    await settle();
    expect(anna.refusal()).toBe('join_denied');
    expect(codeOf(() => bench.joining.approve(digits))).toBe('join_code_wrong');
    expect(bench.joining.pending().blocked).toEqual([
      { nodeId: anna.nodeId, name: 'anna', blockedAt: bench.now },
    ]);
    const asks = bench.dial('anna');
    await asks.ask();
    expect(asks.refusal()).toBe('join_blocked');
    const invited = bench.dial('anna');
    await invited.useJoinString(secretOf(bench.joining.invite().joinString));
    expect(invited.refusal()).toBe('join_blocked');
    expect(bench.notes('security-join-refused').filter((note) => /blocked/.test(note))).toHaveLength(2);
    expect(codeOf(() => bench.joining.unblock('nobody'))).toBe('join_request_not_found');
    bench.joining.unblock('anna');
    expect(bench.joining.pending().blocked).toEqual([]);
    await bench.dial('anna').ask();
    expect(bench.joining.pending().pending).toHaveLength(1);
    bench.joining.deny('anna', false);
  });

  test('what cannot be recorded is refused at both ends, and may be tried again', async () => {
    bench.failCommits = true;
    const anna = bench.dial('anna');
    const digits = await anna.ask();
    await anna.say({ type: 'confirm' });
    expect(() => bench.joining.approve(digits)).toThrow(/disk is full/);
    await settle();
    expect(anna.refusal()).toBe('internal_error');
    expect(bench.joining.pending().pending).toEqual([]);
    bench.failCommits = false;
    const again = bench.dial('anna');
    bench.joining.approve(await again.ask());
    await again.say({ type: 'confirm' });
    expect(bench.members()).toEqual(['anna']);
  });

  test('a member that did not hear that it was admitted is admitted again', async () => {
    for (let round = 0; round < 2; round += 1) {
      const anna = bench.dial('anna');
      bench.joining.approve(await anna.ask());
      await anna.say({ type: 'confirm' });
      expect(anna.last()).toMatchObject({ type: 'admitted' });
    }
    expect(bench.members()).toEqual(['anna']);
  });

  test('machines of one name become two names, and a name cannot deceive', async () => {
    for (const key of ['one', 'two']) {
      const worker = bench.dial('debian', { workerId: testKey(key) });
      bench.joining.approve(await worker.ask());
      await worker.say({ type: 'confirm' });
    }
    expect(bench.members()).toEqual(['debian', 'debian-2']);
    await bench.dial('  evil\u001b[2J\u202ename ').ask();
    expect(bench.joining.pending().pending).toMatchObject([{ name: 'evil-[2J-name' }]);
  });

  test('at the end all who wait are told, and nobody is served any more', async () => {
    const anna = bench.dial('anna');
    await anna.ask();
    bench.joining.close();
    await settle();
    expect(anna.refusal()).toBe('shutting_down');
    const late = bench.dial('late');
    await late.ask();
    expect(late.refusal()).toBe('shutting_down');
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('join string', () => {
  test('works once, for one machine, and no plain secret is kept', async () => {
    const { joinString, expiresAt } = bench.joining.invite();
    expect(expiresAt - bench.now).toBe(3_600_000);
    const secret = secretOf(joinString);
    const anna = bench.dial('anna');
    await anna.useJoinString(secret);
    expect(anna.last()).toMatchObject({ type: 'admitted' });
    const ben = bench.dial('ben');
    await ben.useJoinString(secret);
    expect(ben.refusal()).toBe('join_secret_used');
    expect(bench.members()).toEqual(['anna']);
    expect((await readFile(join(bench.dataDirectory, 'covey.db'))).includes(secret)).toBe(false);
    expect(JSON.stringify(bench.events)).not.toContain(secret);
  });

  test('whose answer was lost works again for the same member, not after its removal', async () => {
    const secret = secretOf(bench.joining.invite().joinString);
    await bench.dial('anna').useJoinString(secret);
    const again = bench.dial('anna');
    await again.useJoinString(secret);
    expect(again.last()).toMatchObject({ type: 'admitted' });
    bench.record({ type: 'node-removed', at: bench.now, nodeId: testKey('anna') });
    const removed = bench.dial('anna');
    await removed.useJoinString(secret);
    expect(removed.refusal()).toBe('join_secret_used');
  });

  test('that expired, or is of another controller, is refused', async () => {
    const secret = secretOf(bench.joining.invite().joinString);
    bench.now += 3_600_000;
    const late = bench.dial('late');
    await late.useJoinString(secret);
    expect(late.refusal()).toBe('join_secret_expired');
    const wrong = bench.dial('wrong');
    await wrong.useJoinString(hex('0'));
    expect(wrong.refusal()).toBe('join_secret_invalid');
  });

  test('is unspent again when the member could not be recorded', async () => {
    const secret = secretOf(bench.joining.invite().joinString);
    bench.failCommits = true;
    const first = bench.dial('anna');
    await first.useJoinString(secret);
    expect(first.refusal()).toBe('internal_error');
    bench.failCommits = false;
    const second = bench.dial('anna');
    await second.useJoinString(secret);
    expect(second.last()).toMatchObject({ type: 'admitted' });
  });
});

describe('cluster secret', () => {
  test('lets its holders in by themselves, and nobody else', async () => {
    const none = bench.dial('none');
    await none.prove(`covey-secret.${'0'.repeat(32)}`);
    expect(none.refusal()).toBe('cluster_secret_missing');
    const secret = await bench.joining.newClusterSecret();
    const anna = bench.dial('anna');
    await anna.prove(secret);
    expect(anna.last()).toMatchObject({ type: 'admitted' });
    const ben = bench.dial('ben');
    await ben.prove(`covey-secret.${'0'.repeat(32)}`);
    expect(ben.refusal()).toBe('cluster_secret_wrong');
    expect(bench.members()).toEqual(['anna']);
    expect(JSON.stringify(bench.events)).not.toContain(secret.slice(-32));
  });

  test('a machine that goes away after our proof is noted', async () => {
    await bench.joining.newClusterSecret();
    const anna = bench.dial('anna');
    await anna.say({ type: 'prove', protocol: PROTOCOL_VERSION, name: 'anna', nonce: hex('1') });
    anna.end.cut();
    expect(bench.notes('security-join-refused').join()).toMatch(/it holds another one/);
  });

  test('is on disk, is another one after a removal at once, and can be dropped', async () => {
    const told: Array<string | null> = [];
    bench.joining.onClusterSecret((secret) => told.push(secret));
    await bench.joining.onNodeRemoved();
    expect(told).toEqual([]);
    const first = await bench.joining.newClusterSecret();
    const file = join(bench.dataDirectory, 'cluster-secret');
    expect((await readFile(file, 'utf8')).trim()).toBe(first);
    const rotated = bench.joining.onNodeRemoved();
    const second = bench.joining.clusterSecret();
    expect(second).not.toBe(first);
    const removed = bench.dial('removed');
    await removed.prove(first);
    expect(removed.refusal()).toBe('cluster_secret_wrong');
    await rotated;
    expect((await readFile(file, 'utf8')).trim()).toBe(second);
    await bench.joining.dropClusterSecret();
    expect(bench.joining.clusterSecret()).toBeNull();
    await expect(readFile(file)).rejects.toThrow(/ENOENT/);
    expect(told).toEqual([first, second, null]);
  });

  test('changes at the same time end with one secret, in memory and on disk', async () => {
    await bench.joining.newClusterSecret();
    await Promise.all([
      bench.joining.newClusterSecret(),
      bench.joining.onNodeRemoved(),
      bench.joining.newClusterSecret(),
      bench.joining.onNodeRemoved(),
    ]);
    const onDisk = await readFile(join(bench.dataDirectory, 'cluster-secret'), 'utf8');
    expect(onDisk.trim()).toBe(bench.joining.clusterSecret());
  });
});

describe('what is refused', () => {
  test.each([
    ['no JSON', 'hello'],
    ['null', 'null'],
    ['an array', '[]'],
    ['a wrong type', '{"type":"admitted"}'],
    ['a short commitment', `{"type":"ask","protocol":${PROTOCOL_VERSION},"name":"a","commitment":"ab"}`],
    ['too much', `{"type":"ask","protocol":${PROTOCOL_VERSION},"name":"${'x'.repeat(LIMITS.joinBytes)}"}`],
    ['an end before its beginning', '{"type":"confirm"}'],
  ])('%s', async (_what, text) => {
    const anna = bench.dial('anna');
    await anna.say(text);
    expect(anna.refusal()).toBe('invalid_request');
    expect(anna.end.isOpen).toBe(false);
    expect(bench.notes('security-join-refused')).toHaveLength(1);
  });

  test.each(['reveal', 'proof', 'ask', 'prove', 'join-string'] as const)(
    '"%s" once the request is listed: it is over',
    async (type) => {
      const anna = bench.dial('anna');
      await anna.ask();
      await anna.say(
        JSON.stringify({
          type,
          protocol: PROTOCOL_VERSION,
          name: 'anna',
          nonce: hex('1'),
          mac: hex('1'),
          commitment: hex('1'),
          secret: hex('1'),
        }),
      );
      expect(anna.refusal()).toBe('invalid_request');
      expect(bench.joining.pending().pending).toEqual([]);
    },
  );

  test('another version, also one whose frames we do not know', async () => {
    for (const frame of [
      { type: 'ask', protocol: PROTOCOL_VERSION + 1, name: 'a', commitment: hex('a') },
      { type: 'of-the-future', protocol: PROTOCOL_VERSION + 1 },
      { protocol: 1, secret: hex('a'), name: 'a' },
    ]) {
      const anna = bench.dial('anna');
      await anna.say(JSON.stringify(frame));
      expect(anna.refusal()).toBe('protocol_version_mismatch');
    }
  });

  test('the controller itself', async () => {
    const self = bench.dial('self', { workerId: bench.controllerId });
    await self.ask();
    expect(self.refusal()).toBe('invalid_request');
  });

  test('an address after ten failures, for a minute; another address and success are free', async () => {
    for (let failure = 0; failure < attemptLimits.failuresPerAddress; failure += 1) {
      await bench.dial('mallory').useJoinString(hex('0'));
    }
    const eleventh = bench.dial('mallory');
    const secret = secretOf(bench.joining.invite().joinString);
    await eleventh.useJoinString(secret);
    expect(eleventh.last()).toMatchObject({
      type: 'refused',
      error: { code: 'join_busy', retryAfterS: attemptLimits.windowMs / 1_000 },
    });
    const anna = bench.dial('anna', { remoteAddress: '198.51.100.77' });
    await anna.useJoinString(secret);
    expect(anna.last()).toMatchObject({ type: 'admitted' });
    bench.now += attemptLimits.windowMs;
    const later = bench.dial('ben');
    await later.useJoinString(secretOf(bench.joining.invite().joinString));
    expect(later.last()).toMatchObject({ type: 'admitted' });
  });
});
