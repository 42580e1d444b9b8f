/**
 * What the tunnel itself costs, without an engine: the round trip of one byte and the rate of a bulk transfer
 * through two transport processes, against the bare loopback and against a pair of stunnel processes, all in
 * one run and in turn.
 *
 *     node e2e/bench/tunnel-micro.ts [--rounds N] [--megabytes N] [--json]
 */
import { execFileSync, fork, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { entries } from '../../src-main/nodejs/entries.ts';
import { createChildProcessHost } from '../../src-main/nodejs/process-host/child-process-host.ts';
import { createTransport } from '../../src-main/nodejs/transport/transport-client.ts';
import {
  leaderId,
  makeIdentity,
  makeToken,
  silentLogger,
  stageId,
} from '../../src-main/nodejs/transport/fixtures.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    megabytes: { type: 'string', default: '512' },
    json: { type: 'boolean', default: false },
    host: { type: 'string' },
  },
});
const rounds = Number(values.rounds);
const bulkBytes = Number(values.megabytes) * 1024 * 1024;
const pings = 4000;

interface Path {
  readonly name: string;
  readonly port: number;
  readonly pids: readonly number[];
}

interface Figures {
  rttUs: number[];
  mbPerS: number[];
  /** CPU seconds of the proxies per GB of bulk. */
  cpuPerGb: number[];
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true }, () => resolve(socket));
    socket.once('error', reject);
  });
}

async function roundTripUs(port: number): Promise<number> {
  const socket = await open(port);
  socket.write('E');
  const samples: number[] = [];
  const byte = Buffer.from('x');
  await new Promise<void>((resolve) => {
    let sentAt = 0;
    const ping = (): void => {
      sentAt = performance.now();
      socket.write(byte);
    };
    socket.on('data', () => {
      samples.push((performance.now() - sentAt) * 1000);
      if (samples.length < pings) ping();
      else resolve();
    });
    ping();
  });
  socket.destroy();
  samples.sort((a, b) => a - b);
  return samples[samples.length >> 1] ?? NaN;
}

const block = Buffer.alloc(1024 * 1024, 7);

async function bulkMbPerS(port: number): Promise<number> {
  const socket = await open(port);
  const header = Buffer.alloc(9);
  header.write('S');
  header.writeBigUInt64BE(BigInt(bulkBytes), 1);
  socket.write(header);
  const startedAt = performance.now();
  const answered = once(socket, 'data');
  for (let sent = 0; sent < bulkBytes; sent += block.length) {
    if (!socket.write(block)) await once(socket, 'drain');
  }
  await answered;
  const seconds = (performance.now() - startedAt) / 1000;
  socket.destroy();
  return bulkBytes / 1e6 / seconds;
}

function cpuSeconds(pids: readonly number[]): number {
  if (process.platform !== 'linux') return NaN;
  let ticks = 0;
  for (const pid of pids) {
    const stat = execFileSync('cat', [`/proc/${pid}/stat`], { encoding: 'utf8' });
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    ticks += Number(fields[11]) + Number(fields[12]);
  }
  return ticks / 100;
}

const closers: Array<() => Promise<void> | void> = [];

async function rawPath(): Promise<Path> {
  const peer = fork(join(import.meta.dirname, 'tunnel-peer.ts'), {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  closers.push(() => void peer.kill());
  const [port] = (await once(peer, 'message')) as [number];
  return { name: 'raw', port, pids: [] };
}

async function ourPath(engine: number): Promise<Path> {
  const host = values.host;
  const processHost = createChildProcessHost(host ? { ...entries, 'transport-host': host } : entries);
  const [leader, stage] = [await makeIdentity(), await makeIdentity()];
  const shared = { processHost, gatewaySocket: null, logger: silentLogger, role: 'worker' } as const;
  const atLeader = await createTransport({ ...shared, identity: leader, listen: null });
  const atStage = await createTransport({
    ...shared,
    identity: stage,
    listen: { host: '127.0.0.1', port: 0 },
  });
  closers.push(async () => void (await Promise.all([atLeader.close(), atStage.close()])));
  const token = makeToken();
  atStage.setMembers([{ nodeId: leader.nodeId, role: 'worker', name: 'leader' }]);
  atStage.addGrant({
    token,
    engineId: stageId,
    port: engine,
    peers: [leader.nodeId],
    maxStreams: 1,
    alpn: 'tunnel',
  });
  if (!atStage.clusterAddress) throw new Error('the stage does not listen');
  const link = await atLeader.openLink({
    engineId: leaderId,
    stageEngineId: stageId,
    peer: stage.nodeId,
    peerName: 'stage',
    addresses: [atStage.clusterAddress],
    grant: token,
    connectTimeoutMs: 5_000,
  });
  return { name: 'covey', port: link.port, pids: childrenOf(process.pid) };
}

/** The transport processes: our children that are named so. */
function childrenOf(parent: number): number[] {
  if (process.platform !== 'linux') return [];
  const out = execFileSync('ps', ['-o', 'pid=,args=', '--ppid', String(parent)], { encoding: 'utf8' });
  return out
    .split('\n')
    .filter((line) => line.includes('transport-host'))
    .map((line) => Number.parseInt(line, 10));
}

async function stunnelPath(engine: number, suite: string | null): Promise<Path> {
  const directory = await mkdtemp(join(tmpdir(), 'covey-stunnel-'));
  const { keyPem, certPem } = await makeIdentity();
  await writeFile(join(directory, 'both.pem'), keyPem + certPem, { mode: 0o600 });
  const [near, far] = [await freePort(), await freePort()];
  const common = [
    'foreground = yes',
    'debug = 3',
    'pid =',
    'socket = l:TCP_NODELAY=1',
    'socket = r:TCP_NODELAY=1',
    ...(suite ? [`ciphersuites = ${suite}`] : []),
    'sslVersionMin = TLSv1.3',
    `cert = ${join(directory, 'both.pem')}`,
    '[tunnel]',
  ];
  const start = async (name: string, lines: string[]): Promise<ChildProcess> => {
    const file = join(directory, `${name}.conf`);
    await writeFile(file, [...common, ...lines].join('\n') + '\n');
    return spawn('stunnel', [file], { stdio: ['ignore', 'ignore', 'inherit'] });
  };
  const server = await start('server', [`accept = 127.0.0.1:${far}`, `connect = 127.0.0.1:${engine}`]);
  const client = await start('client', [
    'client = yes',
    `accept = 127.0.0.1:${near}`,
    `connect = 127.0.0.1:${far}`,
  ]);
  closers.push(async () => {
    client.kill();
    server.kill();
    await rm(directory, { recursive: true, force: true });
  });
  for (let attempt = 0; attempt < 50; attempt += 1) {
    try {
      (await open(near)).destroy();
      (await open(far)).destroy();
      break;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  return {
    name: suite ? `stunnel ${suite.includes('128') ? 'aes-128' : suite}` : 'stunnel',
    port: near,
    pids: [client.pid ?? 0, server.pid ?? 0],
  };
}

function median(list: readonly number[]): number {
  const sorted = [...list].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? NaN;
}

try {
  const raw = await rawPath();
  const paths = [raw, await ourPath(raw.port)];
  if (existsSync('/usr/bin/stunnel')) {
    paths.push(await stunnelPath(raw.port, null), await stunnelPath(raw.port, 'TLS_AES_128_GCM_SHA256'));
  }
  const figures = new Map<string, Figures>(
    paths.map(({ name }) => [name, { rttUs: [], mbPerS: [], cpuPerGb: [] }]),
  );
  for (let round = -1; round < rounds; round += 1) {
    for (const path of paths) {
      const rtt = await roundTripUs(path.port);
      const cpu = cpuSeconds(path.pids);
      const rate = await bulkMbPerS(path.port);
      const cpuPerGb = (cpuSeconds(path.pids) - cpu) / (bulkBytes / 1e9);
      // The first round warms up.
      if (round < 0) continue;
      const entry = figures.get(path.name);
      entry?.rttUs.push(rtt);
      entry?.mbPerS.push(rate);
      entry?.cpuPerGb.push(cpuPerGb);
    }
  }
  const theirs = figures.get('stunnel');
  const ours = figures.get('covey');
  if (values.json) {
    const machine = { cpu: cpus()[0]?.model ?? 'unknown', cores: cpus().length };
    const ratio = theirs && ours ? median(ours.mbPerS) / median(theirs.mbPerS) : null;
    console.log(
      JSON.stringify({
        name: 'tunnel-micro',
        ratio,
        ratioOf: 'bulk rate, ours / stunnel (higher is better)',
        ours: ours ? median(ours.mbPerS) : null,
        theirs: theirs ? median(theirs.mbPerS) : null,
        unit: 'MB/s',
        rttRatio: theirs && ours ? median(ours.rttUs) / median(theirs.rttUs) : null,
        runs: Object.fromEntries(figures),
        machine,
      }),
    );
  } else {
    console.log("path              1-byte RTT us   bulk MB/s   proxies' CPU s/GB   (medians; bulk runs)");
    for (const [name, { rttUs, mbPerS, cpuPerGb }] of figures) {
      console.log(
        `${name.padEnd(18)}${median(rttUs).toFixed(0).padStart(12)}${median(mbPerS).toFixed(0).padStart(12)}` +
          `${median(cpuPerGb).toFixed(2).padStart(20)}   ${mbPerS.map((rate) => rate.toFixed(0)).join(' ')} | ${rttUs.map((rtt) => rtt.toFixed(0)).join(' ')}`,
      );
    }
  }
} finally {
  for (const close of closers.reverse()) await close();
}
