import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect as tlsConnect, createServer, type TLSSocket } from 'node:tls';
import { nodeIdOfCertificate } from '../../../src-main/nodejs/identity/node-id.ts';
import { commitmentOf } from '../../../src-main/nodejs/pairing/commitment.ts';
import { pairingDigits } from '../../../src-main/nodejs/pairing/digits.ts';
import { createFrameDecoder } from '../../../src-main/nodejs/transport/frames.ts';
import { PROTOCOL_VERSION } from '../../../src-main/shared/protocol/version.ts';
import { ownKeys } from './peer.ts';
import { frame } from './words.ts';

/**
 * A man in the middle of a pairing: `middle.ts HOST PORT HOW`. To the machine that wants to join it is a controller
 * (on port 7879, with a key of its own), to the controller at HOST:PORT it is that machine. `HOW` is `own`: each side
 * gets a conversation of its own, as the protocol has it; or `forward`: everything is passed on as it came. Prints
 * `ready`, then a line of JSON for every number that it knows, and what each side says.
 */
const [host = '', port = '0', how = 'own'] = process.argv.slice(2);
const keys = await ownKeys();
const ownId = nodeIdOfCertificate(keys.certPem);
const exporterLabel = 'EXPORTER-covey-join';
type Frame = Record<string, unknown>;

const tell = (event: object): void => void process.stdout.write(`${JSON.stringify(event)}\n`);

function onFrames(socket: TLSSocket, listener: (received: Frame) => void): void {
  let decode = createFrameDecoder(64 * 1024);
  socket.on('error', () => undefined);
  socket.on('data', (chunk: Buffer) => {
    for (let rest = chunk; rest.length > 0;) {
      const progress = decode(rest);
      if (progress.kind !== 'frame') return;
      decode = createFrameDecoder(64 * 1024);
      rest = progress.rest;
      listener(JSON.parse(progress.json) as Frame);
    }
  });
}

const bindingOf = (socket: TLSSocket): string =>
  socket.exportKeyingMaterial(32, exporterLabel, Buffer.alloc(0)).toString('hex');
const peerOf = (socket: TLSSocket): string => {
  const certificate = socket.getPeerX509Certificate();
  return certificate ? nodeIdOfCertificate(certificate) : '';
};

async function dialController(): Promise<TLSSocket> {
  const socket = tlsConnect({
    host,
    port: Number(port),
    key: keys.keyPem,
    cert: keys.certPem,
    ALPNProtocols: ['covey-join'],
    rejectUnauthorized: false,
  });
  await once(socket, 'secureConnect');
  return socket;
}

/** Two honest conversations, one with each side: the best that can be done within the protocol. */
async function converse(worker: TLSSocket): Promise<void> {
  const controller = await dialController();
  const toWorker = randomBytes(32).toString('hex');
  const toController = randomBytes(32).toString('hex');
  onFrames(worker, (received) => {
    tell({ worker: received['type'] });
    if (received['type'] === 'ask') {
      worker.write(frame({ type: 'challenge', controllerName: 'desk', nonce: toWorker }));
    } else if (received['type'] === 'reveal') {
      worker.write(frame({ type: 'waiting', expiresInMs: 300_000 }));
      tell({
        workerShows: pairingDigits({
          binding: bindingOf(worker),
          workerId: peerOf(worker) as never,
          controllerId: ownId,
          workerNonce: String(received['nonce']),
          controllerNonce: toWorker,
        }),
      });
      // In the hope that a machine takes it without its person.
      worker.write(frame({ type: 'approved' }));
      worker.write(frame({ type: 'admitted', controllerId: ownId, controllerName: 'desk', addresses: [] }));
    }
  });
  onFrames(controller, (received) => {
    tell({ controller: received['type'], error: received['error'] });
    if (received['type'] !== 'challenge') return;
    controller.write(frame({ type: 'reveal', nonce: toController }));
    tell({
      controllerWants: pairingDigits({
        binding: bindingOf(controller),
        workerId: ownId,
        controllerId: peerOf(controller) as never,
        workerNonce: toController,
        controllerNonce: String(received['nonce']),
      }),
    });
    controller.write(frame({ type: 'confirm' }));
  });
  const commitment = commitmentOf(toController, ownId);
  controller.write(frame({ type: 'ask', protocol: PROTOCOL_VERSION, name: 'anna', commitment }));
}

async function forward(worker: TLSSocket): Promise<void> {
  const controller = await dialController();
  for (const [from, to, name] of [
    [worker, controller, 'worker'],
    [controller, worker, 'controller'],
  ] as const) {
    onFrames(from, (received) => {
      tell({ [name]: received['type'], error: received['error'] });
      to.write(frame(received));
    });
  }
}

const server = createServer({
  key: keys.keyPem,
  cert: keys.certPem,
  requestCert: true,
  rejectUnauthorized: false,
  minVersion: 'TLSv1.3',
  ALPNProtocols: ['covey-join', 'covey-hello'],
});
server.on('secureConnection', (socket: TLSSocket) => {
  socket.on('error', () => undefined);
  if (socket.alpnProtocol !== 'covey-join') return void socket.end();
  return void (how === 'forward' ? forward(socket) : converse(socket)).catch(() => socket.destroy());
});
server.on('tlsClientError', () => undefined);
server.listen(7879, '0.0.0.0', () => tell({ ready: true, nodeId: ownId }));
