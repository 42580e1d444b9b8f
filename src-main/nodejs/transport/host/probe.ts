import type { Duplex } from 'node:stream';
import { CoveyError } from '#shared/errors.ts';
import { probeLimits, probeOps } from './probe-protocol.ts';

export interface ProbeResult {
  /** Median of several one-byte round trips. */
  readonly rttMs: number;
  /** Of the slower direction; null when no volume was asked for, or none came through in time. */
  readonly bytesPerS: number | null;
}

const pings = 7;
const pingMs = 2_000;
/** Each direction is measured for at most this long. */
const volumeMs = 1_500;
const firstBlockBytes = 64 * 1024;
const maxBlockBytes = 2 * 1024 * 1024;

/**
 * Measures over a stream whose other end runs `answerProbe`. The caller ends the stream afterwards. Rejects with
 * `stage_unreachable` when it breaks or does not answer.
 * @param bytes how many to send each way at most
 */
export async function runProbe(stream: Duplex, bytes: number): Promise<ProbeResult> {
  const reader = createReader(stream);
  const rttMs = await roundTrip(stream, reader);
  const volume = Math.min(bytes, probeLimits.bytes);
  if (volume <= 0) return { rttMs, bytesPerS: null };
  const up = await upwards(stream, reader, volume);
  const down = await downwards(stream, reader, volume, rttMs);
  return { rttMs, bytesPerS: up === null || down === null ? null : Math.min(up, down) };
}

async function roundTrip(stream: Duplex, reader: Reader): Promise<number> {
  const times: number[] = [];
  for (let index = 0; index < pings; index += 1) {
    const sentAt = performance.now();
    stream.write(Buffer.of(probeOps.ping));
    if (!(await reader.bytes(1, sentAt + pingMs))) {
      throw new CoveyError('stage_unreachable', `no answer to a byte within ${pingMs} ms`);
    }
    times.push(performance.now() - sentAt);
  }
  return times.sort((a, b) => a - b)[pings >> 1] ?? 0;
}

/**
 * Blocks that grow while they take little time, two on their way at once so that the line is never idle. What
 * stands in buffers does not count: only blocks whose receipt was told do.
 */
async function upwards(stream: Duplex, reader: Reader, volume: number): Promise<number | null> {
  const startedAt = performance.now();
  const deadline = startedAt + volumeMs;
  const underWay: number[] = [];
  let wanted = volume;
  let sent = 0;
  let told = 0;
  let toldAt = startedAt;
  let blockBytes = firstBlockBytes;
  while (told < wanted) {
    while (underWay.length < 2 && sent < wanted) {
      const length = Math.min(blockBytes, wanted - sent);
      const header = Buffer.alloc(5);
      header.writeUInt8(probeOps.up, 0);
      header.writeUInt32BE(length, 1);
      stream.write(header);
      stream.write(Buffer.alloc(length));
      underWay.push(length);
      sent += length;
    }
    const waitingSince = performance.now();
    if (!(await reader.bytes(1, deadline + volumeMs / 2))) break;
    told += underWay.shift() ?? 0;
    toldAt = performance.now();
    // What is on its way then is still waited for: nothing can be measured behind it.
    if (toldAt >= deadline) wanted = sent;
    if (toldAt - waitingSince < 50) blockBytes = Math.min(maxBlockBytes, blockBytes * 2);
  }
  return told === 0 ? null : rate(told, toldAt - startedAt);
}

async function downwards(
  stream: Duplex,
  reader: Reader,
  volume: number,
  rttMs: number,
): Promise<number | null> {
  const request = Buffer.alloc(5);
  request.writeUInt8(probeOps.down, 0);
  request.writeUInt32BE(volume, 1);
  const startedAt = performance.now();
  stream.write(request);
  const { received, lastAt } = await reader.count(volume, startedAt + volumeMs);
  // The request's own way is no part of the flow.
  return received === 0 ? null : rate(received, Math.max(0.1, lastAt - startedAt - rttMs));
}

function rate(bytes: number, ms: number): number {
  return Math.round((bytes / Math.max(ms, 0.1)) * 1_000);
}

interface Reader {
  /** false: they did not come by then. Rejects when the stream ends. */
  bytes(count: number, deadline: number): Promise<boolean>;
  /** Counts what comes until there are `count`, or it is time. */
  count(count: number, deadline: number): Promise<{ received: number; lastAt: number }>;
}

function createReader(stream: Duplex): Reader {
  let available = 0;
  let lastAt = performance.now();
  let ended = false;
  let wake = (): void => undefined;
  stream.on('data', (chunk: Buffer) => {
    available += chunk.length;
    lastAt = performance.now();
    wake();
  });
  for (const event of ['end', 'close', 'error'] as const) {
    stream.on(event, () => {
      ended = true;
      wake();
    });
  }
  /** Resolves at the next change, at the latest at the deadline. */
  const change = (deadline: number): Promise<void> =>
    new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        wake = () => undefined;
        resolve();
      };
      const timer = setTimeout(done, Math.max(0, deadline - performance.now()));
      wake = done;
    });
  const wait = async (count: number, deadline: number): Promise<void> => {
    while (available < count && performance.now() < deadline && !ended) await change(deadline);
    if (ended && available < count) {
      throw new CoveyError('stage_unreachable', 'the connection ended while it was measured');
    }
  };
  return {
    async bytes(count, deadline) {
      await wait(count, deadline);
      if (available < count) return false;
      available -= count;
      return true;
    },
    async count(count, deadline) {
      await wait(count, deadline);
      return { received: Math.min(available, count), lastAt };
    },
  };
}
