import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { engineId, type DeploymentId, type NodeId } from '#shared/lib/ids.ts';
import type {
  EngineAssignment,
  EngineObservation,
  LlamaAssignment,
  RpcAssignment,
} from '#shared/domain/engine.ts';
import { workerFrame, type HelloFrame } from '#shared/protocol/session.ts';
import { entries } from '../src-main/nodejs/entries.ts';
import { ensureIdentity, type Identity } from '../src-main/nodejs/identity/identity.ts';
import { createChildProcessHost } from '../src-main/nodejs/process-host/child-process-host.ts';
import { createTransport } from '../src-main/nodejs/transport/transport-client.ts';
import type { PeerSession, Transport } from '../src-main/nodejs/transport/transport.ts';
import { testEngine } from './engines/test-engine.ts';
import { loopbackRequest } from './engines/llama/loopback-http.ts';
import { identifyProcess } from './journal/process-identity.ts';
import { generatePredictableModel, predictText } from './models/predictable.ts';
import { collectingLogger, fixedWays, handlers, unconcerned } from './runtime/fixtures.ts';
import { testArtifacts } from './artifacts/fixtures.ts';
import { createWorker, type Worker } from './worker.ts';
import type { WorkerEngine } from './worker-engine.ts';

/**
 * Two workers with real transports and a real engine under a scripted controller: what a controller sees of a
 * split model from its first stage to its loss.
 */
const deploymentId = 'd-00000001' as DeploymentId;
const processHost = createChildProcessHost(entries);
const loopback = { host: '127.0.0.1', port: 0 };

let directory: string;
let engine: WorkerEngine;
let model: string;
beforeAll(async () => {
  engine = await testEngine();
  directory = mkdtempSync(join(tmpdir(), 'covey-worker-'));
  model = join(directory, 'story.gguf');
  await generatePredictableModel({ path: model });
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

class Node {
  session: PeerSession | null = null;
  hello: HelloFrame | null = null;
  observed: readonly EngineObservation[] = [];
  generation = 0;
  readonly name: string;
  readonly identity: Identity;
  readonly transport: Transport;
  readonly dataDirectory: string;
  worker: Worker | null = null;

  constructor(name: string, identity: Identity, transport: Transport, dataDirectory: string) {
    this.name = name;
    this.identity = identity;
    this.transport = transport;
    this.dataDirectory = dataDirectory;
  }

  assign(engines: readonly EngineAssignment[]): void {
    this.generation += 1;
    this.session?.send(
      JSON.stringify({ type: 'assignments', generation: this.generation, engines, keep: [] }),
    );
  }

  engine(index: number): EngineObservation | undefined {
    return this.observed.find((entry) => entry.engineId === engineId(deploymentId, 1, index));
  }

  until(
    index: number,
    phase: EngineObservation['phase'] | 'gone',
    timeout = 30_000,
  ): Promise<EngineObservation | undefined> {
    return vi.waitFor(
      () => {
        const found = this.engine(index);
        if ((found?.phase ?? 'gone') !== phase) {
          throw new Error(
            `${this.name}: ${found?.phase ?? 'gone'} ${JSON.stringify(found?.error)}, not ${phase}`,
          );
        }
        return found;
      },
      { timeout, interval: 20 },
    );
  }
}

let controller: Transport;
let nodes: Node[];
beforeEach(async () => {
  const { logger } = collectingLogger();
  const base = mkdtempSync(join(directory, 'case-'));
  const identify = (name: string): Promise<Identity> =>
    ensureIdentity(join(base, name, 'identity'), { logger, now: Date.now });
  const transportOf = (identity: Identity, role: 'controller' | 'worker'): Promise<Transport> =>
    createTransport({ processHost, identity, role, listen: loopback, gatewaySocket: null, logger });
  const own = await identify('controller');
  controller = await transportOf(own, 'controller');
  nodes = [];
  controller.onSession((session) => {
    const node = nodes.find((candidate) => candidate.identity.nodeId === session.peerId);
    if (node) serve(node, session);
  });
  for (const name of ['alpha', 'beta']) {
    const identity = await identify(name);
    nodes.push(new Node(name, identity, await transportOf(identity, 'worker'), join(base, name)));
  }
  controller.setMembers(
    nodes.map(({ identity, name }) => ({ nodeId: identity.nodeId, role: 'worker', name })),
  );
  for (const node of nodes) {
    node.worker = await createWorker({
      dataDirectory: node.dataDirectory,
      name: node.name,
      version: '0.1.0',
      engine,
      processHost,
      transport: node.transport,
      controller: {
        kind: 'remote',
        nodeId: own.nodeId,
        ways: fixedWays(controller.clusterAddress ?? { host: '127.0.0.1', port: 1 }),
      },
      artifacts: await testArtifacts(node.dataDirectory),
      handlers: handlers(),
      ...unconcerned,
      logger,
      clock: { now: () => Date.now() },
    });
  }
  await vi.waitFor(() => expect(nodes.every((node) => node.hello !== null)).toBe(true), { timeout: 20_000 });
});
afterEach(async () => {
  await Promise.all(nodes.map(async (node) => node.worker?.close()));
  await Promise.all(
    [controller, ...nodes.map((node) => node.transport)].map((transport) => transport.close()),
  );
});

function serve(node: Node, session: PeerSession): void {
  node.session = session;
  session.onMessage((text) => {
    const frame = workerFrame.parse(JSON.parse(text));
    if (frame.type === 'observed') node.observed = frame.engines;
    if (frame.type === 'heartbeat') session.send(JSON.stringify({ type: 'ack', seq: frame.seq, at: 0 }));
    if (frame.type !== 'hello') return;
    session.send(
      JSON.stringify({
        type: 'welcome',
        protocol: frame.protocol,
        controllerName: 'hub',
        name: node.name,
        heartbeatMs: 500,
        silenceMs: 10_000,
        leaseMs: 900_000,
        at: 0,
      }),
    );
    const members = nodes
      .filter((other) => other !== node)
      .map(({ identity, name }) => ({ nodeId: identity.nodeId, name }));
    session.send(JSON.stringify({ type: 'members', members }));
    node.hello = frame;
  });
}

function pair(): [Node, Node] {
  const [alpha, beta] = nodes;
  if (!alpha || !beta) throw new Error('two nodes are needed');
  return [alpha, beta];
}

const rpcFor = (client: NodeId): RpcAssignment => ({
  kind: 'rpc',
  engineId: engineId(deploymentId, 1, 1),
  deploymentId,
  epoch: 1,
  device: 'CPU',
  weightBytes: 2_000_000,
  threads: null,
  clientNodeId: client,
});

const leaderWith = (stage: Node, grant: string): LlamaAssignment => ({
  kind: 'llama',
  engineId: engineId(deploymentId, 1, 0),
  deploymentId,
  epoch: 1,
  modelPath: model,
  modelName: 'story',
  modelHash: 'story-hash',
  modelBytes: statSync(model).size,
  contextPerRequest: 512,
  parallel: 2,
  gpuLayers: 4,
  cpuLayers: 5,
  localDevices: [],
  tensorSplit: [1],
  stageBytes: [2_000_000],
  stages: [
    {
      engineId: engineId(deploymentId, 1, 1),
      nodeId: stage.identity.nodeId,
      nodeName: stage.name,
      addresses: [stage.transport.clusterAddress ?? { host: '127.0.0.1', port: 1 }],
      grant,
      layers: 4,
    },
  ],
  loadStallMs: 60_000,
});

async function load(
  alpha: Node,
  beta: Node,
): Promise<{ stage: EngineObservation; leader: EngineObservation }> {
  beta.assign([rpcFor(alpha.identity.nodeId)]);
  const stage = await beta.until(1, 'ready');
  alpha.assign([leaderWith(beta, stage?.endpoint?.grant ?? '')]);
  const leader = await alpha.until(0, 'ready');
  if (!stage || !leader) throw new Error('not loaded');
  return { stage, leader };
}

it('a model split over two workers answers, shows its links, and leaves nothing behind when it is unloaded', async () => {
  const [alpha, beta] = pair();
  expect(alpha.hello?.hardware.devices).toMatchObject({ known: true });
  const { stage, leader } = await load(alpha, beta);
  const answer = await loopbackRequest({
    port: leader.endpoint?.port ?? 0,
    path: '/completion',
    apiKey: leader.endpoint?.apiKey ?? '',
    body: { prompt: 'Ben came', n_predict: 40, temperature: 0 },
    timeoutMs: 20_000,
  });
  expect(JSON.parse(answer.text)).toMatchObject({ content: predictText('Ben came', 40) });
  await vi.waitFor(
    () => expect(alpha.engine(0)?.links).toMatchObject([{ stageEngineId: stage.engineId, connected: true }]),
    { timeout: 5_000 },
  );
  await vi.waitFor(() => expect(alpha.engine(0)?.links[0]?.sentBytes).toBeGreaterThan(2_000_000), {
    timeout: 5_000,
  });
  await vi.waitFor(() => expect(beta.engine(1)?.rssBytes).toBeGreaterThan(1_000_000), { timeout: 5_000 });

  alpha.assign([]);
  await alpha.until(0, 'gone', 8_000);
  beta.assign([]);
  await beta.until(1, 'gone', 8_000);
  for (const pid of [leader.pid, stage.pid]) expect(await identifyProcess(pid ?? 0)).toBeNull();
  for (const node of nodes) {
    const journalled = readdirSync(join(node.dataDirectory, 'journal', 'engines'));
    expect(journalled).toEqual([]);
  }
});

it('a stage that is killed is reported by both, and by the leader with its name', async () => {
  const [alpha, beta] = pair();
  const { stage, leader } = await load(alpha, beta);
  process.kill(stage.pid ?? 0, 'SIGKILL');
  expect((await beta.until(1, 'failed', 3_000))?.error).toMatchObject({ code: 'engine_crashed' });
  const failed = await alpha.until(0, 'failed', 5_000);
  expect(failed?.error).toMatchObject({ code: 'stage_lost' });
  expect(failed?.error?.message).toContain('beta');
  await vi.waitFor(async () => expect(await identifyProcess(leader.pid ?? 0)).toBeNull(), { timeout: 2_000 });
});

it("a leader whose stage's machine ends says so, and a closed worker leaves no process", async () => {
  const [alpha, beta] = pair();
  const { stage, leader } = await load(alpha, beta);
  await beta.worker?.close();
  expect(await identifyProcess(stage.pid ?? 0)).toBeNull();
  expect((await alpha.until(0, 'failed', 8_000))?.error).toMatchObject({ code: 'stage_lost' });
  await alpha.worker?.close();
  expect(await identifyProcess(leader.pid ?? 0)).toBeNull();
});

it('a grant of another stage is refused', async () => {
  const [alpha, beta] = pair();
  beta.assign([rpcFor(alpha.identity.nodeId)]);
  await beta.until(1, 'ready');
  alpha.assign([leaderWith(beta, 'd'.repeat(64))]);
  const failed = await alpha.until(0, 'failed', 15_000);
  expect(['grant_invalid', 'stage_unreachable']).toContain(failed?.error?.code);
});
