import { readFileSync } from 'node:fs';
import path from 'node:path';
import { connect as tcpConnect } from 'node:net';
import { connect as tlsConnect, type TLSSocket } from 'node:tls';
import { webcrypto } from 'node:crypto';
import { WebSocket } from 'ws';
import { createSelfSigned } from '../../../src-main/nodejs/identity/self-signed.ts';

/** A key and what it shows: ours, stolen, or made for the purpose. */
export interface Keys {
  readonly keyPem: string;
  readonly certPem: string;
}

/** Where an attacker stands on the network, and whom it is after. */
export interface Aim {
  readonly host: string;
  readonly port: number;
}

export interface Outcome {
  /** TLS was set up as far as this side can tell. */
  readonly connected: boolean;
  readonly protocol: string | null;
  /** Application bytes that came back, and as text. */
  readonly bytes: number;
  readonly text: string;
}

/** The key of a node whose data directory was read. */
export function stolenKeys(dataDirectory: string): Keys {
  const read = (name: string): string => readFileSync(path.join(dataDirectory, 'identity', name), 'utf8');
  return { keyPem: read('key.pem'), certPem: read('cert.pem') };
}

export function ownKeys(): Promise<Keys> {
  return createSelfSigned(Date.now());
}

/** A certificate by an authority of the attacker's own, or of its own key and long expired. */
export async function certifiedKeys(kind: 'other-authority' | 'expired'): Promise<Keys> {
  await import('reflect-metadata');
  const x509 = await import('@peculiar/x509');
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const authority = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const year = 365 * 86_400_000;
  const [from, to] = kind === 'expired' ? [-3 * year, -2 * year] : [-year, year];
  const certificate = await x509.X509CertificateGenerator.create(
    {
      subject: 'CN=covey',
      issuer: kind === 'expired' ? 'CN=covey' : 'CN=Covey Authority',
      notBefore: new Date(Date.now() + from),
      notAfter: new Date(Date.now() + to),
      signingAlgorithm: algorithm,
      publicKey: keys.publicKey,
      signingKey: kind === 'expired' ? keys.privateKey : authority.privateKey,
    },
    webcrypto,
  );
  const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64');
  const lines = pkcs8.match(/.{1,64}/g) ?? [];
  return {
    keyPem: `-----BEGIN PRIVATE KEY-----\n${lines.join('\n')}\n-----END PRIVATE KEY-----\n`,
    certPem: certificate.toString('pem'),
  };
}

const dialMs = 5_000;

function dial(aim: Aim, keys: Keys | null, alpn: string | null, localAddress?: string): TLSSocket {
  return tlsConnect({
    socket: tcpConnect({ ...aim, ...(localAddress === undefined ? {} : { localAddress }) }),
    ...(keys ? { key: keys.keyPem, cert: keys.certPem } : {}),
    ...(alpn === null ? {} : { ALPNProtocols: [alpn] }),
    rejectUnauthorized: false,
    minVersion: 'TLSv1.2',
  });
}

/**
 * Dials, says `words`, and listens until the other side has ended the connection, or said nothing for `quietMs`.
 */
export function tryTls(
  aim: Aim,
  keys: Keys | null,
  alpn: string | null,
  words: Buffer,
  options: { readonly quietMs?: number; readonly localAddress?: string } = {},
): Promise<Outcome> {
  return new Promise((resolve) => {
    const socket = dial(aim, keys, alpn, options.localAddress);
    const chunks: Buffer[] = [];
    let connected = false;
    let protocol: string | null = null;
    const finish = (): void => void socket.destroy();
    let quiet = setTimeout(finish, dialMs);
    socket.on('secureConnect', () => {
      connected = true;
      protocol = socket.alpnProtocol === false ? null : socket.alpnProtocol;
      socket.write(words);
    });
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      clearTimeout(quiet);
      quiet = setTimeout(finish, options.quietMs ?? 1_500);
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(quiet);
      const all = Buffer.concat(chunks);
      resolve({ connected, protocol, bytes: all.length, text: all.toString('latin1').slice(0, 2_000) });
    });
  });
}

/** Says the bytes to the port itself. */
export function tryTcp(aim: Aim, words: Buffer): Promise<{ readonly bytes: Buffer }> {
  return new Promise((resolve) => {
    const socket = tcpConnect(aim);
    const chunks: Buffer[] = [];
    const timer = setTimeout(() => socket.destroy(), 2_000);
    socket.on('connect', () => socket.write(words));
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(timer);
      resolve({ bytes: Buffer.concat(chunks) });
    });
  });
}

export interface RawSession {
  say(frame: object): void;
  /** The next frame of one of these types; null when the session ended before. */
  hear(...types: string[]): Promise<Record<string, unknown> | null>;
  close(): void;
}

/** A session as any holder of a key could open it. null: there is none to be had. */
export function openSession(aim: Aim, keys: Keys): Promise<RawSession | null> {
  return new Promise((resolve) => {
    const socket = dial(aim, keys, 'covey-session');
    socket.on('error', () => resolve(null));
    const webSocket = new WebSocket('ws://covey/session', {
      perMessageDeflate: false,
      handshakeTimeout: dialMs,
      createConnection: () => socket,
    });
    const heard: Record<string, unknown>[] = [];
    let ended = false;
    let wake = (): void => undefined;
    webSocket.on('message', (data: Buffer) => {
      heard.push(JSON.parse(data.toString('utf8')) as Record<string, unknown>);
      wake();
    });
    webSocket.on('error', () => resolve(null));
    webSocket.on('close', () => {
      ended = true;
      wake();
      resolve(null);
    });
    webSocket.on('open', () =>
      resolve({
        say: (frame) => webSocket.send(JSON.stringify(frame)),
        async hear(...types) {
          const deadline = Date.now() + 10_000;
          for (;;) {
            const frame = heard.shift();
            if (frame && types.includes(String(frame['type']))) return frame;
            if (frame) continue;
            if (ended || Date.now() > deadline) return null;
            await new Promise<void>((done) => {
              wake = done;
              setTimeout(done, 200);
            });
          }
        },
        close: () => webSocket.terminate(),
      }),
    );
  });
}
