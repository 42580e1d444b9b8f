import { randomBytes } from 'node:crypto';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { SecureContext } from 'node:tls';
import { WebSocket } from 'ws';
import { dialTls } from '../../src-main/nodejs/transport/dial-tls.ts';
import { sessionPath } from '../../src-main/nodejs/transport/host/session-socket.ts';
import { clientContext } from '../../src-main/nodejs/transport/tls-settings.ts';
import type { Hardware, Telemetry } from '../../src-main/shared/domain/node.ts';
import type { BootId, NodeId } from '../../src-main/shared/lib/ids.ts';
import type { ControllerFrame, HelloFrame, WorkerFrame } from '../../src-main/shared/protocol/session.ts';
import { ALPN, PROTOCOL_VERSION } from '../../src-main/shared/protocol/version.ts';
import { createSimulatedTasks, simulatedCompute } from './simulated-tasks.ts';

/**
 * Workers that do nothing but live: each has its own key, its own TLS 1.3 session, says a full hello, sends
 * heartbeats and dials again when its session ends or is silent. What a real worker is to its controller, without
 * the machine behind it, so that one process can be hundreds of them.
 */
export interface SimulatedIdentity {
  readonly name: string;
  readonly keyPem: string;
  readonly certPem: string;
  /** It takes tasks of jobs. */
  readonly computes?: boolean;
}

export interface FleetOrder {
  readonly port: number;
  readonly controllerId: NodeId;
  readonly heartbeatMs: number;
  readonly identities: readonly SimulatedIdentity[];
}

/** Times are epoch ms with fractions, so that processes of one machine can compare them. */
export interface Ack {
  readonly sentAt: number;
  readonly latencyMs: number;
}

export interface FleetReport {
  readonly welcomed: number;
  readonly acks: readonly Ack[];
  /** Sessions that ended after they were welcomed, for any reason. */
  readonly ended: number;
  /** How late this process itself was at worst: it adds to what it measures. */
  readonly ownDelayMs: number;
  readonly trouble: string | null;
}

export interface SimulatedWorker {
  readonly welcomed: boolean;
  /** Sends a heartbeat now; null when there is no session. Resolves with its time of sending at once. */
  beat(telemetry?: Partial<Telemetry>): number | null;
  /** Any other frame; lost when there is no session. */
  send(frame: WorkerFrame): void;
  close(): void;
}

/** The product's own limit for a session without an ack. */
const silenceMs = 10_000;
const redialMs = 1_000;
const dialMs = 15_000;
/** How the controller's frames of tasks begin. */
const tasksHead = Buffer.from('{"type":"tasks"');
const gib = 2 ** 30;

export function epochMs(): number {
  return performance.timeOrigin + performance.now();
}

export function startSimulatedWorker(
  identity: SimulatedIdentity,
  order: Omit<FleetOrder, 'identities'>,
  on: { ack(ack: Ack): void; welcome(): void; ended(reason: string): void; trouble(reason: string): void },
): SimulatedWorker {
  const context: SecureContext = clientContext(identity);
  const bootId = randomBytes(16).toString('hex') as BootId;
  const machine = randomBytes(32).toString('hex');
  let socket: WebSocket | null = null;
  let welcomed = false;
  let closed = false;
  let timer: NodeJS.Timeout | null = null;
  let redial: NodeJS.Timeout | null = null;
  let seq = 0;
  let ackedAt = 0;
  const waiting = new Map<number, number>();

  const send = (frame: WorkerFrame): void => socket?.send(JSON.stringify(frame));
  const tasks = identity.computes === true ? createSimulatedTasks(send) : null;

  const beat = (changes: Partial<Telemetry> = {}): number | null => {
    if (!welcomed || !socket) return null;
    if (performance.now() - ackedAt > silenceMs) {
      socket.terminate();
      return null;
    }
    seq += 1;
    const sentAt = epochMs();
    waiting.set(seq, sentAt);
    send({ type: 'heartbeat', seq, telemetry: { ...telemetry(), ...changes }, problems: [] });
    return sentAt;
  };

  const receive = (data: Buffer): void => {
    if (tasks !== null && data.subarray(0, tasksHead.length).equals(tasksHead)) {
      return tasks.receive(JSON.parse(data.toString('utf8')) as Extract<ControllerFrame, { type: 'tasks' }>);
    }
    // Lists of a thousand members are looked at by nobody here.
    if (data.length > 512) return;
    const frame = JSON.parse(data.toString('utf8')) as { type: string; seq?: number; error?: unknown };
    if (frame.type === 'ack' && frame.seq !== undefined) {
      const sentAt = waiting.get(frame.seq);
      waiting.delete(frame.seq);
      ackedAt = performance.now();
      if (sentAt !== undefined) on.ack({ sentAt, latencyMs: epochMs() - sentAt });
    } else if (frame.type === 'welcome') {
      welcomed = true;
      ackedAt = performance.now();
      on.welcome();
      // Spread over the period, as machines that were not started together are.
      timer = setTimeout(() => {
        beat();
        timer = setInterval(beat, order.heartbeatMs);
      }, Math.random() * order.heartbeatMs);
    } else if (frame.type === 'refused') {
      on.trouble(`refused: ${JSON.stringify(frame.error)}`);
    }
  };

  const over = (reason: string): void => {
    if (timer) clearTimeout(timer);
    timer = null;
    waiting.clear();
    tasks?.forget();
    socket = null;
    if (welcomed) on.ended(reason);
    welcomed = false;
    if (!closed) redial = setTimeout(dial, redialMs);
  };

  const dial = (): void => {
    dialTls(
      context,
      {
        addresses: [{ host: '127.0.0.1', port: order.port }],
        nodeId: order.controllerId,
        name: 'the controller',
        alpn: ALPN.session,
        unreachable: 'controller_unreachable',
      },
      { timeoutMs: dialMs },
    ).then(
      (tls) => {
        const webSocket = new WebSocket(`ws://covey${sessionPath}`, {
          perMessageDeflate: false,
          createConnection: () => tls,
        });
        socket = webSocket;
        webSocket.on('open', () =>
          send({
            ...hello(identity.name, bootId, machine),
            ...(tasks === null ? {} : { tasks: [], compute: simulatedCompute }),
          }),
        );
        webSocket.on('message', (data: Buffer) => receive(data));
        webSocket.on('error', (error: Error) => on.trouble(error.message));
        webSocket.on('close', (code) => over(`closed with ${code}`));
        if (closed) webSocket.terminate();
      },
      (error: unknown) => {
        on.trouble(error instanceof Error ? error.message : String(error));
        over('');
      },
    );
  };
  dial();

  return {
    get welcomed() {
      return welcomed;
    },
    beat,
    send,
    close() {
      closed = true;
      if (redial) clearTimeout(redial);
      socket?.terminate();
    },
  };
}

function telemetry(): Telemetry {
  return {
    cpuLoad: Math.round(Math.random() * 1_000) / 1_000,
    ramTotalBytes: 32 * gib,
    ramAvailableBytes: 20 * gib + Math.floor(Math.random() * gib),
    diskFreeBytes: 400 * gib,
    ownRssBytes: 100_000_000 + Math.floor(Math.random() * 1_000_000),
    deviceFree: [
      { id: 'CPU', freeBytes: 20 * gib, load: null, celsius: null },
      { id: 'CUDA0', freeBytes: 10 * gib, load: Math.random(), celsius: 60 },
    ],
    receiveBytesPerS: Math.floor(Math.random() * 1e6),
    sendBytesPerS: Math.floor(Math.random() * 1e6),
    celsius: 50,
  };
}

function hello(name: string, bootId: BootId, machine: string): HelloFrame {
  const device = { backend: 'CPU', totalBytes: 32 * gib, freeBytes: 20 * gib };
  const hardware: Hardware = {
    os: { platform: 'linux', arch: 'x64', release: '6.1.0', hostname: name },
    cpu: { known: true, value: { model: 'Simulated CPU', physicalCores: 8, logicalCores: 16 } },
    ram: { known: true, value: { totalBytes: 32 * gib } },
    disk: { known: true, value: { path: '/', totalBytes: 900 * gib, freeBytes: 400 * gib } },
    gpus: {
      known: true,
      value: [{ vendor: 'Simulated', model: 'GPU 12', vramBytes: 12 * gib, driver: '555.42' }],
    },
    devices: {
      known: true,
      value: [
        { id: 'CPU', kind: 'cpu', name: 'Simulated CPU', pciId: null, ...device },
        { id: 'CUDA0', kind: 'gpu', name: 'GPU 12', pciId: '0000:01:00.0', ...device, backend: 'CUDA' },
      ],
    },
  };
  return {
    type: 'hello',
    protocol: PROTOCOL_VERSION,
    bootId,
    name,
    version: '0.1.0',
    at: Date.now(),
    machine,
    engine: { buildId: 'simulated', rpcProtocol: '6.0.0' },
    hardware,
    addresses: [{ host: '192.0.2.1', port: 7879 }],
    telemetry: telemetry(),
    engines: [],
  };
}

/** How many of them dial at once: a handshake is work, and strangers are counted until it is done. */
const dialsAtOnce = 12;

function runFleet(order: FleetOrder): () => FleetReport {
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  let acks: Ack[] = [];
  let ended = 0;
  let trouble: string | null = null;
  const workers: SimulatedWorker[] = [];
  const queue = [...order.identities];
  const startNext = (): void => {
    const identity = queue.shift();
    if (!identity) return;
    let first = true;
    workers.push(
      startSimulatedWorker(identity, order, {
        ack: (ack) => void acks.push(ack),
        welcome() {
          if (first) startNext();
          first = false;
        },
        ended(reason) {
          ended += 1;
          trouble = reason;
        },
        trouble: (reason) => void (trouble = reason),
      }),
    );
  };
  for (let index = 0; index < dialsAtOnce; index += 1) startNext();
  return () => {
    const report: FleetReport = {
      welcomed: workers.filter((worker) => worker.welcomed).length,
      acks,
      ended,
      ownDelayMs: delay.max / 1e6,
      trouble,
    };
    acks = [];
    ended = 0;
    trouble = null;
    delay.reset();
    return report;
  };
}

if (process.argv[2] === 'fleet') {
  let report: (() => FleetReport) | null = null;
  process.on('message', (message: FleetOrder | 'report') => {
    if (message === 'report') process.send?.(report?.());
    else report = runFleet(message);
  });
  process.on('disconnect', () => process.exit(0));
}
