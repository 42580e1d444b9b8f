import { connect, type Socket } from 'node:net';
import { connect as tlsConnect } from 'node:tls';
import {
  makeIdentity,
  makeToken,
  listenEcho,
  stageId,
  startHost,
} from '../../../src-main/nodejs/transport/fixtures.ts';
import { encodeFrame } from '../../../src-main/nodejs/transport/frames.ts';
import { clientContext } from '../../../src-main/nodejs/transport/tls-settings.ts';
import { ALPN, LIMITS } from '../../../src-main/shared/protocol/version.ts';
import { readCorpus } from '../corpus.ts';
import { mutateBytes, mutateJsonText } from '../mutate.ts';
import type { Random } from '../random.ts';
import type { FuzzTarget } from '../target.ts';

const upgrade =
  'GET /session HTTP/1.1\r\nHost: covey\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n';
/** How long the host may take to end a connection whose other side has ended. */
const endMs = 8_000;

/**
 * A real cluster port, over real TCP and TLS: bytes that are no TLS, and after a handshake as a member, as a removed
 * one or as a stranger, on every protocol, frames that are nearly right. Strangers come from many addresses, so that
 * the gate lets some of them in. A stranger must not get one application byte, except on `covey-join`.
 */
export async function createTarget(): Promise<FuzzTarget> {
  const [own, member, removed, stranger] = await Promise.all([
    makeIdentity(),
    makeIdentity(),
    makeIdentity(),
    makeIdentity(),
  ]);
  const echo = await listenEcho();
  const token = makeToken();
  const test = await startHost(own, {
    role: 'controller',
    members: [
      { nodeId: member.nodeId, role: 'worker', name: 'anna' },
      {
        nodeId: removed.nodeId,
        role: 'worker',
        name: 'ben',
        refusal: { code: 'node_removed', message: 'This machine was removed.' },
      },
    ],
    grants: [
      {
        token,
        engineId: stageId,
        port: echo.port,
        peers: [member.nodeId],
        maxStreams: 4,
        alpn: 'tunnel',
        ttlMs: 2 ** 31 - 1,
      },
    ],
  });
  const peers = [member, removed, stranger].map((identity) => ({
    identity,
    context: clientContext(identity),
  }));
  const preambles = readCorpus('preambles.jsonl').map((text) => text.replaceAll('1'.repeat(64), token));
  const joins = readCorpus('join-worker-frames.jsonl');
  const sessions = readCorpus('worker-frames.jsonl');
  const protocols = [ALPN.join, ALPN.session, ALPN.tunnel, ALPN.http, ALPN.hello];
  const port = test.address.port;

  const runPlain = async (random: Random): Promise<void> => {
    const socket = connect({ host: '127.0.0.1', port, localAddress: anyLoopback(random) });
    const received = collect(socket);
    // Half of a handshake is waited for, within a bound of its own: nobody here has the time.
    const leave = setTimeout(() => socket.destroy(), 20);
    const hello = Buffer.from('16030100c8010000c40303', 'hex');
    const noise = random.bytes(random.int(400));
    socket.end(random.oneIn(2) ? Buffer.concat([hello, noise]) : noise);
    const bytes = await received;
    clearTimeout(leave);
    // A TLS alert at most: record type 21.
    if (bytes.length > 0 && bytes[0] !== 21)
      throw new Error(`plain bytes were answered: ${bytes.toString('hex')}`);
  };

  const runTls = async (random: Random): Promise<void> => {
    const alpn = random.pick(protocols);
    const peer = random.pick(peers);
    const socket = tlsConnect({
      socket: connect({ host: '127.0.0.1', port, localAddress: anyLoopback(random) }),
      secureContext: peer.context,
      ALPNProtocols: [alpn],
      rejectUnauthorized: false,
    });
    const received = collect(socket);
    const bytes = applicationBytes(random, alpn);
    socket.once('secureConnect', () => {
      const at = random.int(bytes.length + 1);
      socket.write(bytes.subarray(0, at));
      socket.end(bytes.subarray(at));
    });
    const answer = await received;
    if (peer.identity === stranger && alpn !== ALPN.join && answer.length > 0) {
      throw new Error(`a stranger got ${answer.length} bytes on ${alpn}`);
    }
    if (answer.length > LIMITS.frameBytes) throw new Error(`${answer.length} bytes on ${alpn}`);
  };

  const applicationBytes = (random: Random, alpn: string): Buffer => {
    if (random.oneIn(10)) return random.bytes(random.int(9_000));
    if (alpn === ALPN.session) {
      const text = Buffer.from(mutateJsonText(random, sessions));
      const head = Buffer.from(upgrade);
      const bytes = Buffer.concat([
        random.oneIn(4) ? mutateBytes(random, head, []) : head,
        webSocketFrame(random, text),
      ]);
      return random.oneIn(3) ? mutateBytes(random, bytes, []) : bytes;
    }
    const frame = encodeFrame(mutateJsonText(random, alpn === ALPN.join ? joins : preambles));
    return random.oneIn(3) ? mutateBytes(random, frame, []) : frame;
  };

  // What the main process would take in: nothing is kept here.
  const forget = setInterval(() => void test.events.splice(0), 50);

  return {
    run: (random) => (random.oneIn(4) ? runPlain(random) : runTls(random)),
    async close() {
      clearInterval(forget);
      test.host.close();
      await echo.close();
    },
  };
}

function anyLoopback(random: Random): string {
  return `127.${1 + random.int(250)}.${random.int(250)}.${1 + random.int(250)}`;
}

/** Everything that comes until the connection is closed, which must be soon. */
function collect(socket: Socket): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`the connection was not ended within ${endMs} ms`));
    }, endMs);
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(Buffer.concat(chunks));
    });
  });
}

/** A masked text frame (RFC 6455, 5.2), sometimes with another opcode or length than it has. */
function webSocketFrame(random: Random, payload: Buffer): Buffer {
  const first = random.oneIn(6) ? random.int(256) : 0x81;
  const length = random.oneIn(12) ? random.int(2 ** 31) : payload.length;
  const head =
    length < 126
      ? Buffer.from([first, 0x80 | length])
      : length < 65_536
        ? Buffer.from([first, 0xfe, length >> 8, length & 0xff])
        : Buffer.from([
            first,
            0xff,
            0,
            0,
            0,
            0,
            length >>> 24,
            (length >> 16) & 0xff,
            (length >> 8) & 0xff,
            length & 0xff,
          ]);
  return Buffer.concat([head, Buffer.alloc(4), payload]);
}
