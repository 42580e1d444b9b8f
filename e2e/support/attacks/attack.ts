import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { nodeIdOfCertificate } from '../../../src-main/nodejs/identity/node-id.ts';
import { model } from '../../../src-main/controller/state/fixtures.ts';
import { PROTOCOL_VERSION } from '../../../src-main/shared/protocol/version.ts';
import {
  certifiedKeys,
  openSession,
  ownKeys,
  stolenKeys,
  tryTcp,
  tryTls,
  type Aim,
  type Keys,
  type Outcome,
} from './peer.ts';
import { engine, firstWords, gateway, joinString, probe, pulse, relay, reverse } from './words.ts';

/**
 * What an attacker runs on its own machine: `attack.ts NAME PARAMETERS`, parameters as JSON. Prints what came of it
 * as one line of JSON. See attacker.test.ts for what must come of it.
 */
type WhoseKeys = 'none' | 'own' | 'other-authority' | 'expired' | { readonly stolenFrom: string };

async function keysOf(whose: WhoseKeys): Promise<Keys | null> {
  if (whose === 'none') return null;
  if (whose === 'own') return ownKeys();
  if (typeof whose === 'object') return stolenKeys(whose.stolenFrom);
  return certifiedKeys(whose);
}

const protocols = [null, 'h2', 'covey-session', 'covey-tunnel', 'covey-http', 'covey-join', 'covey-hello'];
const token = '7'.repeat(64);

const attacks = {
  /** Every port of a machine. */
  async scan({ host }: { host: string }): Promise<{ open: number[] }> {
    const open: number[] = [];
    let next = 1;
    const scanner = async (): Promise<void> => {
      for (let port = next++; port <= 65_535; port = next++)
        if (await accepts({ host, port })) open.push(port);
    };
    await Promise.all(Array.from({ length: 400 }, scanner));
    return { open: open.sort((a, b) => a - b) };
  },

  async plain(aim: Aim): Promise<{ answers: string[] }> {
    const words = ['GET / HTTP/1.1\r\nHost: x\r\n\r\n', 'SSH-2.0-x\r\n', '\u0000'.repeat(64)].map((text) =>
      Buffer.from(text, 'latin1'),
    );
    const answers = await Promise.all([...words, randomBytes(512)].map((bytes) => tryTcp(aim, bytes)));
    return { answers: answers.map(({ bytes }) => bytes.toString('hex')) };
  },

  /** All protocols with one kind of key, each with the words that belong there. */
  async handshakes({ aim, keys }: { aim: Aim; keys: WhoseKeys }): Promise<Record<string, Outcome>> {
    const own = await keysOf(keys);
    const outcomes: Record<string, Outcome> = {};
    for (const alpn of protocols) outcomes[alpn ?? 'none'] = await tryTls(aim, own, alpn, firstWords(alpn));
    return outcomes;
  },

  /** A member's key where only a controller's, or another member's, would do. */
  async trespass({ aim, keys, grant, peer }: { aim: Aim; keys: WhoseKeys; grant: string; peer: string }) {
    const own = await keysOf(keys);
    return {
      session: await tryTls(aim, own, 'covey-session', firstWords('covey-session')),
      gateway: await tryTls(aim, own, 'covey-http', gateway),
      engineHttp: await tryTls(aim, own, 'covey-http', engine(grant)),
      engineTunnel: await tryTls(aim, own, 'covey-tunnel', engine(grant)),
      pulse: await tryTls(aim, own, 'covey-tunnel', pulse(grant)),
      relay: await tryTls(aim, own, 'covey-tunnel', relay(peer, token)),
      reverse: await tryTls(aim, own, 'covey-tunnel', reverse(token)),
      probe: await tryTls(aim, own, 'covey-tunnel', probe),
    };
  },

  async join({ aim, secret }: { aim: Aim; secret: string }): Promise<Outcome> {
    return tryTls(aim, await ownKeys(), 'covey-join', joinString(secret));
  },

  /** Joins by guessed secrets, many at a time, from many addresses and with several keys. */
  async joins({ aim, count, from }: { aim: Aim; count: number; from: string[] }) {
    const keys = await Promise.all(Array.from({ length: 16 }, ownKeys));
    const seen = { tried: 0, cut: 0, refused: {} as Record<string, number>, admitted: 0 };
    const joiner = async (): Promise<void> => {
      while (seen.tried < count) {
        seen.tried += 1;
        const words = joinString(randomBytes(32).toString('hex'), `mallory-${seen.tried}`);
        const outcome = await tryTls(aim, keys[seen.tried % keys.length] ?? null, 'covey-join', words, {
          quietMs: 100,
          localAddress: from[seen.tried % from.length] ?? '0.0.0.0',
        });
        const code = /"code":"(\w+)"/.exec(outcome.text)?.[1];
        if (outcome.text.includes('"admitted"')) seen.admitted += 1;
        else if (code) seen.refused[code] = (seen.refused[code] ?? 0) + 1;
        else seen.cut += 1;
      }
    };
    await Promise.all(Array.from({ length: 64 }, joiner));
    return seen;
  },

  /** Bytes that somebody else sent once, to the port again. */
  async replay({ aim, file }: { aim: Aim; file: string }): Promise<{ answer: string; recorded: number }> {
    const recorded = readFileSync(file);
    const { bytes } = await tryTcp(aim, recorded);
    return { answer: bytes.toString('latin1'), recorded: recorded.length };
  },

  /**
   * A member that gets itself chosen as leader: tells of a model that it does not have, and keeps the grant of the
   * stage that it is told. Prints `ready` when it is connected, and the grant at the end.
   */
  async lead({ aim, keys, engineBuildId }: { aim: Aim; keys: WhoseKeys; engineBuildId: string }) {
    const own = await keysOf(keys);
    const session = own && (await openSession(aim, own));
    if (!own || !session) return { grant: null };
    session.say(hello('mallory', randomBytes(16).toString('hex'), engineBuildId));
    if (!(await session.hear('welcome'))) return { grant: null };
    process.stdout.write('ready\n');
    const asked = await session.hear('request');
    const value = { path: '/no/such/model.gguf', info: model, hash: 'none' };
    session.say({ type: 'response', id: asked?.['id'], result: { ok: true, value } });
    for (;;) {
      const assignments = await session.hear('assignments');
      if (!assignments) return { grant: null };
      const engines = assignments['engines'] as { stages?: { grant: string }[] }[];
      const grant = engines.flatMap((one) => one.stages ?? [])[0]?.grant;
      // It stays a little, so that the grant is good while others try it.
      if (grant !== undefined) {
        process.stdout.write(`${JSON.stringify({ grant })}\n`);
        const beat = setInterval(
          () => session.say({ type: 'heartbeat', seq: 1, telemetry: telemetry(), problems: [] }),
          1_000,
        );
        await new Promise((resolve) => process.stdin.once('end', resolve).resume());
        clearInterval(beat);
        session.close();
        return { grant };
      }
    }
  },

  /** What a member said before it restarted, in a new session: that engines of then run here, and are ready. */
  async oldFrames(given: {
    aim: Aim;
    keys: WhoseKeys;
    bootId: string;
    deploymentId: string;
    epoch: number;
    engineBuildId: string;
  }): Promise<{ welcomed: boolean; refused: unknown }> {
    const own = await keysOf(given.keys);
    const session = own && (await openSession(given.aim, own));
    if (!session) return { welcomed: false, refused: null };
    const old = {
      engineId: `${given.deploymentId}.${given.epoch}.0`,
      deploymentId: given.deploymentId,
      epoch: given.epoch,
      kind: 'llama',
      phase: 'ready',
      progress: null,
      error: null,
      endpoint: { port: 9, grant: '1'.repeat(64), apiKey: '2'.repeat(64) },
      pid: 1,
      rssBytes: 1,
      cpuMs: 1,
      suspended: false,
      busySlots: 0,
      links: [],
      startedAt: 1,
    };
    session.say({ ...hello('anna', given.bootId, given.engineBuildId), engines: [old] });
    const answer = await session.hear('welcome', 'refused');
    for (let count = 0; count < 20; count += 1) {
      session.say({ type: 'observed', generation: 1, engines: [old] });
      session.say({ type: 'heartbeat', seq: count, telemetry: telemetry(), problems: [] });
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    session.close();
    return { welcomed: answer?.['type'] === 'welcome', refused: answer?.['error'] ?? null };
  },

  async nodeId({ keys }: { keys: WhoseKeys }): Promise<{ nodeId: string | null }> {
    const own = await keysOf(keys);
    return { nodeId: own && nodeIdOfCertificate(own.certPem) };
  },
};

function accepts(aim: Aim): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(aim);
    const end = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(2_000, () => end(false));
    socket.once('connect', () => end(true));
    socket.once('error', () => end(false));
  });
}

const gib = 2 ** 30;

function telemetry(): object {
  return {
    cpuLoad: 0,
    ramTotalBytes: 64 * gib,
    ramAvailableBytes: 60 * gib,
    diskFreeBytes: null,
    ownRssBytes: 1,
    deviceFree: [{ id: 'CPU', freeBytes: 60 * gib }],
  };
}

function hello(name: string, bootId: string, engineBuildId: string): object {
  const cpu = {
    id: 'CPU',
    kind: 'cpu',
    backend: 'CPU',
    name: 'CPU',
    totalBytes: 64 * gib,
    freeBytes: 60 * gib,
  };
  return {
    type: 'hello',
    protocol: PROTOCOL_VERSION,
    bootId,
    name,
    version: '0.1.0',
    at: Date.now(),
    machine: null,
    engine: { buildId: engineBuildId, rpcProtocol: '6.0.0' },
    hardware: {
      os: { platform: 'linux', arch: 'x64', release: '6', hostname: name },
      cpu: { known: true, value: { model: 'CPU', physicalCores: 4, logicalCores: 8 } },
      ram: { known: true, value: { totalBytes: 64 * gib } },
      disk: { known: false, reason: 'no' },
      gpus: { known: true, value: [] },
      devices: { known: true, value: [{ ...cpu, pciId: null }] },
    },
    addresses: [{ host: '10.77.0.4', port: 7879 }],
    telemetry: telemetry(),
    engines: [],
  };
}

const [name = '', parameters = '{}'] = process.argv.slice(2);
const attack = (attacks as unknown as Record<string, (given: unknown) => Promise<unknown>>)[name];
if (!attack) throw new Error(`there is no attack "${name}"`);
const outcome = await attack(JSON.parse(parameters));
process.stdout.write(`${JSON.stringify(outcome)}\n`, () => process.exit(0));
