import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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
import { startProcess } from '../support/managed-process.ts';
import { freePort } from '../support/ports.ts';
import { waitFor } from '../support/wait.ts';

/** A way to a server on loopback: through something, or bare. */
export interface TunnelPath {
  readonly name: string;
  readonly port: number;
  close(): Promise<void>;
}

/** Two transport processes with a link between them, as on a leader and a stage. */
export async function openCoveyPath(target: number): Promise<TunnelPath> {
  const processHost = createChildProcessHost(entries);
  const [leader, stage] = [await makeIdentity(), await makeIdentity()];
  const shared = { processHost, gatewaySocket: null, logger: silentLogger, role: 'worker' } as const;
  const atLeader = await createTransport({ ...shared, identity: leader, listen: null });
  const atStage = await createTransport({
    ...shared,
    identity: stage,
    listen: { host: '127.0.0.1', port: 0 },
  });
  const token = makeToken();
  atStage.setMembers([{ nodeId: leader.nodeId, role: 'worker', name: 'leader' }]);
  atStage.addGrant({
    token,
    engineId: stageId,
    port: target,
    peers: [leader.nodeId],
    maxStreams: 8,
    alpn: 'tunnel',
    ttlMs: 3_600_000,
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
  return {
    name: 'covey',
    port: link.port,
    close: async () => void (await Promise.all([atLeader.close(), atStage.close()])),
  };
}

/** null where stunnel (Debian package stunnel4) is not installed. */
export function stunnelProgram(): string | null {
  return ['/usr/bin/stunnel', '/usr/bin/stunnel4'].find((path) => existsSync(path)) ?? null;
}

/** Two stunnel processes, TLS 1.3 between them, with its own choice of cipher. */
export async function openStunnelPath(program: string, target: number): Promise<TunnelPath> {
  const directory = await mkdtemp(join(tmpdir(), 'covey-stunnel-'));
  const { keyPem, certPem } = await makeIdentity();
  await writeFile(join(directory, 'both.pem'), keyPem + certPem, { mode: 0o600 });
  const [near, far] = [await freePort(), await freePort()];
  const start = async (name: string, lines: readonly string[]) => {
    const file = join(directory, `${name}.conf`);
    const common = ['foreground = yes', 'debug = 3', 'pid =', 'sslVersionMin = TLSv1.3'];
    const noDelay = ['socket = l:TCP_NODELAY=1', 'socket = r:TCP_NODELAY=1'];
    const text = [...common, ...noDelay, `cert = ${join(directory, 'both.pem')}`, '[tunnel]', ...lines, ''];
    await writeFile(file, text.join('\n'));
    return startProcess({ label: name, argv: [program, file] });
  };
  const server = await start('server', [`accept = 127.0.0.1:${far}`, `connect = 127.0.0.1:${target}`]);
  const client = await start('client', [
    'client = yes',
    `accept = 127.0.0.1:${near}`,
    `connect = 127.0.0.1:${far}`,
  ]);
  // Only the listeners are asked: a probe through the tunnel would be a client to the engine.
  await waitFor('stunnel', () => isListening(far).then((up) => up && isListening(near)), 5_000);
  return {
    name: 'stunnel',
    port: near,
    close: async () => {
      await client.stop();
      await server.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

export function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    const settle = (up: boolean) => (): void => {
      socket.destroy();
      resolve(up);
    };
    socket.once('connect', settle(true)).once('error', settle(false));
  });
}
