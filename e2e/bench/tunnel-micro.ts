import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { describeMachine, median, type BenchOptions, type BenchResult, type BenchRun } from './result.ts';
import { openCoveyPath, openStunnelPath, stunnelProgram, type TunnelPath } from './tunnel-paths.ts';

/**
 * What the tunnel itself costs, without an engine: the round trip of one byte and the rate of a bulk transfer
 * from the leader to the stage, over bare loopback, two transport processes and two stunnel processes in turn.
 */
const rounds = 7;
const pings = 4_000;
const bulkBytes = 256 * 1024 * 1024;
const block = Buffer.alloc(1024 * 1024, 7);

export async function run({ log }: BenchOptions): Promise<BenchResult> {
  const peer = fork(join(import.meta.dirname, 'tunnel-peer.ts'), {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const closers: Array<() => unknown> = [() => peer.kill()];
  try {
    const [target] = (await once(peer, 'message')) as [number];
    const paths: TunnelPath[] = [{ name: 'raw', port: target, close: () => Promise.resolve() }];
    paths.push(await openCoveyPath(target));
    const stunnel = stunnelProgram();
    if (stunnel) paths.push(await openStunnelPath(stunnel, target));
    else log('stunnel is not installed (Debian package stunnel4): there is nothing to compare with');
    closers.push(...paths.map((path) => () => path.close()));

    const runs: BenchRun[] = [];
    for (let round = 0; round <= rounds; round += 1) {
      log(round === 0 ? 'warm-up ...' : `round ${round} of ${rounds} ...`);
      for (const path of round % 2 === 0 ? paths : paths.toReversed()) {
        const figures = { rttUs: await roundTripUs(path.port), bulkMbPerS: await bulkMbPerS(path.port) };
        if (round > 0) runs.push({ side: path.name, figures });
      }
    }
    return summarise(runs);
  } finally {
    for (const close of closers.reverse()) await close();
  }
}

function summarise(runs: readonly BenchRun[]): BenchResult {
  const of = (side: string, figure: string): number =>
    median(runs.flatMap((run) => (run.side === side ? [run.figures[figure] ?? NaN] : [])));
  const compared = runs.some(({ side }) => side === 'stunnel');
  return {
    name: 'tunnel-micro',
    ratio: compared ? of('covey', 'bulkMbPerS') / of('stunnel', 'bulkMbPerS') : null,
    ratioOf: 'bulk rate, ours / a stunnel pair; higher is better',
    ours: of('covey', 'bulkMbPerS'),
    theirs: compared ? of('stunnel', 'bulkMbPerS') : null,
    unit: 'MB/s',
    more: {
      rttUs: of('covey', 'rttUs'),
      rawRttUs: of('raw', 'rttUs'),
      ...(compared ? { rttRatio: of('covey', 'rttUs') / of('stunnel', 'rttUs') } : {}),
    },
    runs,
    machine: describeMachine(),
  };
}

function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true }, () => resolve(socket));
    socket.once('error', reject);
  });
}

/** Median round trip of one byte, after the connection was set up. */
async function roundTripUs(port: number): Promise<number> {
  const socket = await open(port);
  socket.write('E');
  const byte = Buffer.from('x');
  const samples: number[] = [];
  await new Promise<void>((resolve, reject) => {
    let sentAt = 0;
    const ping = (): void => {
      sentAt = performance.now();
      socket.write(byte);
    };
    socket.once('error', reject);
    socket.on('data', () => {
      samples.push((performance.now() - sentAt) * 1_000);
      if (samples.length < pings) ping();
      else resolve();
    });
    ping();
  });
  socket.destroy();
  return median(samples);
}

/** Until the peer has taken everything and said so. */
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
  const seconds = (performance.now() - startedAt) / 1_000;
  socket.destroy();
  return bulkBytes / 1e6 / seconds;
}
