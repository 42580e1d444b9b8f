import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { Agent, get } from 'node:http';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { apply } from '../../src-main/controller/state/apply.ts';
import { openDatabase } from '../../src-main/controller/state/sqlite/database.ts';
import { createStore } from '../../src-main/controller/state/sqlite/store.ts';
import { emptyState } from '../../src-main/controller/state/state.ts';
import { ensureIdentity } from '../../src-main/nodejs/identity/identity.ts';
import { nodeIdOfCertificate } from '../../src-main/nodejs/identity/node-id.ts';
import { createSelfSigned } from '../../src-main/nodejs/identity/self-signed.ts';
import { silentLogger } from '../../src-main/nodejs/transport/fixtures.ts';
import type { NodeId } from '../../src-main/shared/lib/ids.ts';
import { createCluster, type RunningController } from '../support/cluster.ts';
import { waitFor, withDeadline } from '../support/wait.ts';
import {
  epochMs,
  startSimulatedWorker,
  type Ack,
  type FleetOrder,
  type FleetReport,
  type SimulatedIdentity,
  type SimulatedWorker,
} from './control-plane-fleet.ts';
import { describeMachine, median, type BenchOptions, type BenchResult, type BenchRun } from './result.ts';

const workerCount = 1_000;
const fleets = 2;
const heartbeatMs = 5_000;
const runMs = 60_000;
const stallAtMs = 25_000;
const stallMs = 3_000;
/** What the stall held up is through by then; before and after it the figures are those of every day. */
const recoveryMs = 5_000;
/** A question that was asked this shortly before it may have been under way when it began. */
const inFlightMs = 100;
const probeEveryMs = 50;
const stateProbeEveryMs = 500;
const connectMs = 120_000;
const reportMs = 30_000;

interface Sample {
  readonly at: number;
  readonly ms: number;
}

/**
 * A controller with 1,000 workers for a minute, in which its main process is stopped once for 3 s. All of them are
 * real TLS sessions with keys of their own (see control-plane-fleet.ts); their memberships are put into the
 * controller's database before it starts.
 *
 * - `ack…Ms`: a heartbeat's way there and its ack's way back. The ack is sent in the same turn of the loop in which
 *   the heartbeat changes the state, so this is an upper bound of the time until the state has it.
 * - `state…Ms`: one more worker's heartbeats, each with a figure of its own, until `/api` shows that figure.
 * - `loop…Ms`: `/healthz`, asked every 50 ms: how long the main process's loop lets something wait.
 *
 * What was sent from the stall's beginning to 5 s after its end is in the figures with `Stall` only. The bench fails
 * (exit code 1) when any node was lost.
 */
export async function run({ log }: BenchOptions): Promise<BenchResult> {
  const cluster = createCluster();
  const children: ChildProcess[] = [];
  let marker: SimulatedWorker | null = null;
  try {
    log(`${workerCount} keys ...`);
    const identities: SimulatedIdentity[] = [];
    for (let number = 0; number <= workerCount; number += 1) {
      identities.push({ name: `node-${number}`, ...(await createSelfSigned(Date.now())) });
    }
    const dataDirectory = path.join(cluster.directory, 'controller');
    const controllerId = await prepareMembers(dataDirectory, identities);
    const controller = await cluster.startController({ dataDirectory });
    const port = Number(controller.report.clusterAddress?.split(':').at(-1));
    const order = { port, controllerId, heartbeatMs };

    log(`${workerCount} workers connect ...`);
    const startedAt = performance.now();
    const [own, ...others] = identities;
    if (!own) throw new Error('there is no identity');
    for (let index = 0; index < fleets; index += 1) {
      const share = others.filter((_, number) => number % fleets === index);
      children.push(startFleet({ ...order, identities: share }));
    }
    const ignore = () => undefined;
    marker = startSimulatedWorker(own, order, {
      ack: ignore,
      welcome: ignore,
      ended: ignore,
      trouble: ignore,
    });
    await waitFor(
      'all workers to be connected',
      async () => {
        const reports = await Promise.all(children.map(reportOf));
        const count = reports.reduce((sum, one) => sum + one.welcomed, 0);
        if (count === workerCount && marker?.welcomed) return true;
        throw new Error(
          `${count} of ${workerCount}; ${reports.map((one) => one.trouble ?? 'no trouble').join('; ')}`,
        );
      },
      connectMs,
      250,
    );
    const connectedS = (performance.now() - startedAt) / 1_000;
    log(`connected within ${connectedS.toFixed(1)} s; now ${runMs / 1_000} s ...`);
    await delay(heartbeatMs);
    await Promise.all(children.map(reportOf));
    return result(await measure(controller, marker, children, log), connectedS);
  } finally {
    marker?.close();
    for (const child of children) child.kill('SIGKILL');
    await cluster.close();
  }
}

/** As if they had all been paired. Returns the controller's node id. */
async function prepareMembers(
  dataDirectory: string,
  identities: readonly SimulatedIdentity[],
): Promise<NodeId> {
  const options = { logger: silentLogger, now: Date.now };
  const { nodeId } = await ensureIdentity(path.join(dataDirectory, 'identity'), options);
  const store = createStore(openDatabase(path.join(dataDirectory, 'covey.db')));
  const at = Date.now();
  let state = emptyState(at);
  for (const { name, certPem } of identities) {
    state = apply(state, { type: 'node-joined', at, nodeId: nodeIdOfCertificate(certPem), name });
  }
  store.save(emptyState(at), state, []);
  store.close();
  return nodeId;
}

interface Measured {
  readonly acks: readonly Ack[];
  readonly loop: readonly Sample[];
  readonly state: readonly Sample[];
  readonly stall: { readonly from: number; readonly to: number };
  readonly mainCpu: number;
  readonly transportCpu: number;
  readonly mainRssMb: number;
  readonly transportRssMb: number;
  readonly fleetDelayMs: number;
  readonly sessionsEnded: number;
  readonly nodesLost: number;
  readonly notReady: number;
}

async function measure(
  controller: RunningController,
  marker: SimulatedWorker,
  children: readonly ChildProcess[],
  log: (text: string) => void,
): Promise<Measured> {
  const stop = new AbortController();
  const loop: Sample[] = [];
  const state: Sample[] = [];
  const probes = [
    probeLoop(controller, loop, stop.signal),
    probeState(controller, marker, state, stop.signal),
  ];
  const before = cpuMsOf(controller);
  const startedAt = epochMs();
  await delay(stallAtMs);
  log(`stopping the controller's main process for ${stallMs / 1_000} s ...`);
  const from = epochMs();
  process.kill(controller.report.pid, 'SIGSTOP');
  await delay(stallMs);
  process.kill(controller.report.pid, 'SIGCONT');
  const to = epochMs();
  await delay(Math.max(0, runMs - (epochMs() - startedAt)));
  const spentMs = epochMs() - startedAt;
  const after = cpuMsOf(controller);
  const processes = controller.processes();
  const rssMb = (main: boolean): number =>
    processes
      .filter((one) => (one.pid === controller.report.pid) === main)
      .reduce((sum, one) => sum + one.rssBytes, 0) / 1e6;
  stop.abort();
  await Promise.all(probes);
  const reports = await Promise.all(children.map(reportOf));
  const { nodes } = await controller.client.call('nodes');
  return {
    acks: reports.flatMap((report) => report.acks),
    loop,
    state,
    stall: { from, to },
    mainCpu: (after.main - before.main) / spentMs,
    transportCpu: (after.transport - before.transport) / spentMs,
    mainRssMb: rssMb(true),
    transportRssMb: rssMb(false),
    fleetDelayMs: Math.max(...reports.map((report) => report.ownDelayMs)),
    sessionsEnded: reports.reduce((sum, report) => sum + report.ended, 0),
    nodesLost: await countEvents(controller, 'node-lost'),
    notReady: nodes.filter((node) => node.status !== 'ready').length,
  };
}

function result(measured: Measured, connectedS: number): BenchResult {
  const { stall } = measured;
  const disturbed = (at: number): boolean => at >= stall.from - inFlightMs && at <= stall.to + recoveryMs;
  const acks = measured.acks.map(({ sentAt, latencyMs }) => ({ at: sentAt, ms: latencyMs }));
  const calm = (samples: readonly Sample[]): number[] =>
    samples.filter(({ at }) => !disturbed(at)).map(({ ms }) => ms);
  const all = (samples: readonly Sample[]): number[] => samples.map(({ ms }) => ms);
  const figures = {
    cpuCores: measured.mainCpu + measured.transportCpu,
    mainCpuCores: measured.mainCpu,
    transportCpuCores: measured.transportCpu,
    rssMb: measured.mainRssMb + measured.transportRssMb,
    mainRssMb: measured.mainRssMb,
    transportRssMb: measured.transportRssMb,
    heartbeats: acks.length,
    ackP50Ms: median(calm(acks)),
    ackP99Ms: quantile(calm(acks), 0.99),
    ackMaxStallMs: Math.max(...all(acks)),
    stateP50Ms: median(calm(measured.state)),
    stateP99Ms: quantile(calm(measured.state), 0.99),
    loopP50Ms: median(calm(measured.loop)),
    loopP99Ms: quantile(calm(measured.loop), 0.99),
    loopMaxStallMs: Math.max(...all(measured.loop)),
    fleetDelayMs: measured.fleetDelayMs,
    connectS: connectedS,
    sessionsEnded: measured.sessionsEnded,
    notReady: measured.notReady,
    nodesLost: measured.nodesLost,
  };
  const runs: BenchRun[] = [{ side: 'controller', figures }];
  return {
    name: 'control-plane',
    ratio: null,
    ratioOf: `${workerCount} workers with ${heartbeatMs / 1_000} s heartbeats on one controller; lower is better`,
    ours: figures.ackP99Ms,
    theirs: null,
    unit: 'ms from heartbeat to ack, 99th percentile',
    runs,
    more: figures,
    targets: {
      nodesLost: { atMost: 0 },
      notReady: { atMost: 0 },
      sessionsEnded: { atMost: 0 },
      // Shows that the stall was one.
      loopMaxStallMs: { atLeast: stallMs * 0.9 },
    },
    machine: describeMachine(),
    ...(measured.nodesLost > 0 ? { failure: `${measured.nodesLost} nodes were taken for lost.` } : {}),
  };
}

function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? NaN;
}

function cpuMsOf(controller: RunningController): { main: number; transport: number } {
  let main = 0;
  let transport = 0;
  for (const { pid, cpuMs } of controller.processes()) {
    if (pid === controller.report.pid) main += cpuMs;
    else transport += cpuMs;
  }
  return { main, transport };
}

/** One kept connection, one question at a time. */
async function probeLoop(
  controller: RunningController,
  samples: Sample[],
  signal: AbortSignal,
): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  while (!signal.aborted) {
    const at = epochMs();
    await new Promise<void>((resolve, reject) => {
      const request = get(new URL('/healthz', controller.api), { agent, timeout: 30_000 }, (answer) => {
        answer.resume().on('end', resolve).on('error', reject);
      });
      request.on('error', reject).on('timeout', () => request.destroy(new Error('/healthz does not answer')));
    });
    samples.push({ at, ms: epochMs() - at });
    await delay(probeEveryMs);
  }
  agent.destroy();
}

async function probeState(
  controller: RunningController,
  marker: SimulatedWorker,
  samples: Sample[],
  signal: AbortSignal,
): Promise<void> {
  for (let number = 1; !signal.aborted; number += 1) {
    const ownRssBytes = 1_000_000_000 + number;
    const at = marker.beat({ ownRssBytes });
    if (at === null) throw new Error('the worker that marks its heartbeats has no session');
    await waitFor(
      'a heartbeat to be seen',
      async () => {
        const view = await controller.client.call('node', { params: { node: 'node-0' } });
        return view.telemetry?.ownRssBytes === ownRssBytes;
      },
      30_000,
      1,
    );
    samples.push({ at, ms: epochMs() - at });
    await delay(stateProbeEveryMs);
  }
}

async function countEvents(controller: RunningController, kind: string): Promise<number> {
  const end = AbortSignal.timeout(3_000);
  let count = 0;
  for await (const event of controller.client.events({ afterId: 0, signal: end })) {
    if (event.kind === kind) count += 1;
  }
  return count;
}

function startFleet(order: FleetOrder): ChildProcess {
  const child = fork(path.join(import.meta.dirname, 'control-plane-fleet.ts'), ['fleet'], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  child.send(order);
  return child;
}

async function reportOf(child: ChildProcess): Promise<FleetReport> {
  const stop = new AbortController();
  const { signal } = stop;
  child.send('report');
  const told = once(child, 'message', { signal }).then(([message]) => message as FleetReport);
  const gone = once(child, 'exit', { signal }).then(([code]) => {
    throw new Error(`a fleet ended with ${code}`);
  });
  try {
    return await withDeadline('a fleet to report', Promise.race([told, gone]), reportMs);
  } finally {
    told.catch(() => undefined);
    gone.catch(() => undefined);
    stop.abort();
  }
}
