import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';
import type { Address } from '#shared/domain/node.ts';
import { ALPN, LIMITS } from '#shared/protocol/version.ts';
import type { Identity } from '../../identity/identity.ts';
import { makeIdentity, refusalOf, within } from '../fixtures.ts';
import { readFrame } from '../frames.ts';
import { parsePreamble } from '../preamble.ts';
import { splice } from '../splice.ts';
import { clientContext, tls, tlsSettings } from '../tls-settings.ts';
import { createEndToEnd } from './end-to-end.ts';
import { accepted } from './accepted.ts';
import { echoThrough, startTrio } from './trio.ts';

const cleanup: Array<() => unknown> = [];
afterEach(async () => {
  for (const step of cleanup.splice(0).reverse()) await step();
});

/** A controller's relay that keeps what it sees, or does with the second connection what the test says. */
async function spyingRelay(
  identity: Identity,
  onPair?: (requester: TLSSocket, peer: TLSSocket) => void,
): Promise<{ readonly address: Address; readonly seen: () => Buffer }> {
  const chunks: Buffer[] = [];
  const waiting = new Map<string, TLSSocket>();
  const server = tls.createServer(
    {
      ...tlsSettings(identity),
      ALPNProtocols: [ALPN.tunnel],
      requestCert: true,
      rejectUnauthorized: false,
      allowHalfOpen: true,
    },
    (socket) => {
      socket.on('error', () => undefined);
      cleanup.push(() => socket.destroy());
      void readFrame(socket, {
        maxBytes: LIMITS.preambleBytes,
        timeoutMs: 5_000,
        whatFor: 'a preamble',
        closed: () => new Error('closed') as never,
      }).then((json) => {
        const preamble = parsePreamble(json);
        if (preamble?.target !== 'relay') return socket.destroy();
        const first = waiting.get(preamble.token);
        if (!first) return waiting.set(preamble.token, socket);
        for (const end of [first, socket]) end.write(accepted);
        if (onPair) return onPair(first, socket);
        for (const end of [first, socket]) end.on('data', (chunk: Buffer) => chunks.push(chunk));
        return splice(first, socket);
      });
    },
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanup.push(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { address: { host: '127.0.0.1', port }, seen: () => Buffer.concat(chunks) };
}

const nowhere: Address = { host: '127.0.0.1', port: 1 };

describe('TLS inside a relay', () => {
  it('shows the controller ciphertext only', async () => {
    const controllerKey = await makeIdentity();
    const relay = await spyingRelay(controllerKey);
    const trio = await startTrio({ controllerKey, relayAddress: relay.address, routes: ['relay'] });
    cleanup.push(() => trio.close());
    const link = await trio.open([nowhere]);
    const text = 'the weights of a model and the words of a prompt '.repeat(2_000);
    const socket = await echoThrough(link.port, text);
    const seen = relay.seen();
    expect(seen.length).toBeGreaterThan(2 * text.length);
    for (const plain of ['weights of a model', 'words of a prompt', trio.grant, '"target"', 'pulse']) {
      expect(seen.includes(plain)).toBe(false);
    }
    // Nor are the members' certificates readable: TLS 1.3 encrypts them.
    for (const { certPem } of [trio.leader.identity, trio.stage.identity]) {
      expect(seen.includes(new X509Certificate(certPem).raw.subarray(-64))).toBe(false);
    }
    socket.destroy();
  });

  it('is not begun with a controller that puts itself between', async () => {
    const controllerKey = await makeIdentity();
    const heard: string[] = [];
    const relay = await spyingRelay(controllerKey, (requester) => {
      // It plays the stage, with the only key that it has.
      const playing = new tls.TLSSocket(requester, {
        isServer: true,
        secureContext: tls.createSecureContext(tlsSettings(controllerKey)),
        ALPNProtocols: Buffer.from(`\x0c${ALPN.tunnel}`),
        requestCert: true,
        rejectUnauthorized: false,
      });
      playing.on('error', () => undefined);
      playing.on('data', (chunk: Buffer) => heard.push(chunk.toString()));
    });
    const trio = await startTrio({ controllerKey, relayAddress: relay.address, routes: ['relay'] });
    cleanup.push(() => trio.close());
    const error = await refusalOf(trio.open([nowhere]));
    expect(error.code).toBe('stage_unreachable');
    expect(error.message).toContain('another key answers behind the relay');
    // Not a byte of the preamble, which holds the grant.
    expect(heard).toEqual([]);
  });

  it('is not served to a controller that puts itself between', async () => {
    const controllerKey = await makeIdentity();
    const ended = Promise.withResolvers<TLSSocket>();
    const relay = await spyingRelay(controllerKey, (_requester, peer) => {
      const own = createEndToEnd(controllerKey, clientContext(controllerKey));
      void own
        .client(peer, trio.stage.identity.nodeId, { timeoutMs: 3_000 })
        .then(ended.resolve, ended.reject);
    });
    const trio = await startTrio({ controllerKey, relayAddress: relay.address, routes: ['relay'] });
    cleanup.push(() => trio.close());
    const opening = trio.open([nowhere], { connectTimeoutMs: 4_000 });
    opening.catch(() => undefined);
    // TLS 1.3: the client is done before the server has judged its key.
    const socket = await ended.promise;
    socket.on('error', () => undefined);
    socket.resume();
    await within(once(socket, 'end'), 3_000, 'the end by the stage');
    await trio.stage.event('log', ({ message }) => message.includes('another key answers behind the relay'));
    expect(trio.engine.accepted()).toBe(0);
    await refusalOf(opening);
  });
});
