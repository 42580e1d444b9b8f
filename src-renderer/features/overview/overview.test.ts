import { expect, it } from 'vitest';
import type { NodeView } from '#shared/api/schema.ts';
import type { DeploymentView } from '#shared/domain/deployment.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { attentionOf, type Situation } from './attention.ts';
import { coveyMemory, ramOf, vramOf } from './memory.ts';

const GiB = 2 ** 30;

function node(name: string, changes: Partial<NodeView> = {}): NodeView {
  return {
    id: name.padEnd(64, '0') as NodeId,
    name,
    status: 'ready',
    eligible: true,
    ineligibleReasons: [],
    connected: true,
    lastSeenAt: 0,
    joinedAt: 0,
    version: '1.0.0',
    engineBuildId: null,
    address: null,
    hardware: null,
    telemetry: null,
    drain: null,
    pausedAt: null,
    lend: null,
    compute: null,
    deployments: [],
    engines: [],
    ...changes,
  };
}

const deployment = (model: string, status: DeploymentView['status']): DeploymentView =>
  ({
    id: 'd-00000000',
    model,
    status,
    reason: { code: 'no_nodes', message: 'why' },
  }) as unknown as DeploymentView;

const calm: Situation = {
  nodes: [],
  deployments: [],
  pending: [],
  settings: null,
  notices: [],
  version: '1.0.0',
};
const found = (changes: Partial<Situation>) =>
  attentionOf({ ...calm, ...changes }).map(({ tone, title, action }) => [tone, title, action?.kind]);

it('says nothing of what is as it should be', () => {
  const nodes = [
    node('a'),
    node('b', { status: 'busy' }),
    node('c', { status: 'offline', connected: false }),
  ];
  const deployments = (['loading', 'ready', 'draining', 'unloading'] as const).map((status) =>
    deployment(status, status),
  );
  expect(found({ nodes, deployments })).toEqual([]);
});

it('has the worst first, and something to do for each', () => {
  const drained = { startedAt: 0, deadlineAt: 1, completedAt: 1 };
  expect(
    found({
      nodes: [
        node('a', { status: 'draining', drain: drained }),
        node('b', { status: 'lost', connected: false, version: '0.9.0' }),
        node('c', { version: '0.9.0' }),
        node('d', { status: 'paused', pausedAt: 5 }),
        node('e', { status: 'paused' }),
      ],
      deployments: [deployment('m', 'failed'), deployment('n', 'waiting')],
      pending: [
        {
          id: 'x',
          nodeId: 'f'.repeat(64) as NodeId,
          name: 'guest',
          remoteAddress: '10.0.0.5',
          askedAt: 0,
          expiresAt: 1,
          approved: false,
          confirmed: false,
        },
      ],
    }),
  ).toEqual([
    ['bad', 'm could not be loaded', 'retry'],
    ['bad', 'b is lost', 'open'],
    ['warn', 'guest asks to join', 'open'],
    ['warn', 'n waits for machines', 'open'],
    ['warn', 'c has another version', 'open'],
    ['quiet', 'a is drained', 'resume'],
    ['quiet', 'd is paused', 'resume'],
  ]);
});

const telemetry = (ramAvailableBytes: number): NodeView['telemetry'] =>
  ({
    cpuLoad: 0,
    ramTotalBytes: 16 * GiB,
    ramAvailableBytes,
    diskFreeBytes: null,
    ownRssBytes: 0,
    deviceFree: [{ id: 'CUDA0', freeBytes: 6 * GiB }],
  }) as NodeView['telemetry'];
const card = (id: string, pciId: string | null) => ({
  id,
  kind: 'gpu' as const,
  backend: 'x',
  name: id,
  totalBytes: 8 * GiB,
  freeBytes: 8 * GiB,
  pciId,
});

it('adds up the memory of the machines that are there, by the newest figure', () => {
  const a = node('a', { telemetry: telemetry(10 * GiB) });
  const b = node('b', { telemetry: telemetry(4 * GiB) });
  const away = node('c', { telemetry: telemetry(4 * GiB), connected: false });
  const live = new Map([
    [
      b.id,
      {
        id: b.id,
        status: 'ready' as const,
        cpuLoad: null,
        ramAvailableBytes: 2 * GiB,
        receiveBytesPerS: null,
        sendBytesPerS: null,
        devices: [],
        celsius: null,
        lend: null,
      },
    ],
  ]);
  expect(coveyMemory([a, b, away], live, ramOf)).toEqual({
    totalBytes: 32 * GiB,
    usedBytes: 20 * GiB,
    oursBytes: 0,
  });
  expect(coveyMemory([away], live, ramOf)).toBeNull();
});

it('counts a card that two backends see once', () => {
  const devices = {
    known: true as const,
    value: [card('CUDA0', '1'), card('Vulkan0', '1'), card('CUDA1', '2')],
  };
  const hardware = { devices } as unknown as NodeView['hardware'];
  const one = node('a', { hardware, telemetry: telemetry(1) });
  expect(vramOf(one, null)).toEqual({ totalBytes: 16 * GiB, usedBytes: 2 * GiB, oursBytes: null });
  expect(vramOf(node('b'), null)).toBeNull();
});
