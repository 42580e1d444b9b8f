import { beforeEach, expect, test } from 'vitest';
import type { ArtifactId, NodeId } from '#shared/lib/ids.ts';
import type { ControllerFrame } from '#shared/protocol/session.ts';
import { createOffers, type Offers } from './offers.ts';

const node = (digit: string): NodeId => digit.repeat(64) as NodeId;
const self = node('0');
const artifact = 'e'.repeat(64) as ArtifactId;
let sent: { to: NodeId; frame: ControllerFrame }[];
let away: Set<NodeId>;
let rtts: Readonly<Record<string, number>>;
let offers: Offers;

beforeEach(() => {
  sent = [];
  away = new Set();
  rtts = {};
  offers = createOffers({
    self: { nodeId: self, name: 'controller', addresses: () => [] },
    transport: {
      addArtifactGrant: ({ token, ...grant }) =>
        void sent.push({ to: self, frame: { type: 'artifact-grant', grant: token, ...grant } }),
    },
    send(to, frame) {
      if (away.has(to)) return false;
      sent.push({ to, frame });
      return true;
    },
    member: (nodeId) => (away.has(nodeId) ? null : { name: nodeId.slice(0, 4), addresses: [] }),
    rttMs: (from, to) => rtts[`${from[0]}${to[0]}`] ?? null,
  });
});

const grantsAt = (to: NodeId): string[] =>
  sent.flatMap(({ to: at, frame }) => (at === to && frame.type === 'artifact-grant' ? [frame.grant] : []));

test('the nearest is named first, then whoever is not measured; nobody who is away, and never the one who asks', () => {
  for (const digit of ['1', '2', '3', '4']) offers.told(node(digit), true, [artifact], []);
  rtts = { '10': 9, '13': 2, '41': 5 };
  away.add(node('2'));
  const named = offers.sourcesFor(node('1'), artifact, true).map(({ nodeId }) => nodeId[0]);
  expect(named).toEqual(['3', '4', '0']);
  offers.gone(node('3'));
  expect(offers.holders(artifact)).toEqual([node('1'), node('4')]);
});

test('who asks again and again has one right at each holder, with a new term, and nobody has its twin', () => {
  offers.told(node('1'), true, [artifact], []);
  const first = offers.sourcesFor(node('2'), artifact, true);
  for (let round = 0; round < 100; round += 1) {
    expect(
      offers
        .sourcesFor(node('2'), artifact, true)
        .map(({ grant }) => grant)
        .sort(),
    ).toEqual(first.map(({ grant }) => grant).sort());
  }
  expect(grantsAt(node('1'))).toHaveLength(101);
  expect(new Set(grantsAt(node('1'))).size).toBe(1);
  expect(new Set(sent.map(({ frame }) => (frame.type === 'artifact-grant' ? frame.grant : ''))).size).toBe(2);
  const other = offers.sourcesFor(node('3'), artifact, true).map(({ grant }) => grant);
  expect(first.some(({ grant }) => other.includes(grant))).toBe(false);
});
