import { readdirSync } from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { decodeJoinString, encodeJoinString } from '../../src-main/nodejs/join-string.ts';
import type { DeploymentView } from '../../src-main/shared/domain/deployment.ts';
import type { RunningController, RunningNode } from '../support/cluster.ts';
import { eventsOf, untilEvent } from '../support/events.ts';
import { startProcess, type ManagedProcess } from '../support/managed-process.ts';
import { predictableModel } from '../support/models.ts';
import {
  createNetwork,
  netnsMissing,
  removeLeftoverNetworks,
  type Host,
  type Network,
} from '../support/netns.ts';
import { complete } from '../support/openai-http.ts';
import type { Outcome } from '../support/attacks/peer.ts';
import { pair, startJoin, untilJoin } from '../support/pairing.ts';
import { processInfo } from '../support/processes.ts';
import { loadReady, untilEligible, untilStatus } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

const missing = netnsMissing();
const cluster = useCluster();
const clusterPort = 7879;
const scripts = path.join(import.meta.dirname, '..', 'support', 'attacks');
type Outcomes = Record<string, Outcome>;

describe.skipIf(missing)(`an attacker on the same network${missing ? ` (${missing})` : ''}`, () => {
  let network: Network;
  const tools: ManagedProcess[] = [];
  beforeAll(() => removeLeftoverNetworks());
  afterEach(async () => {
    for (const tool of tools.splice(0)) await tool.stop(1_000);
    await cluster.current.close().catch(() => undefined);
    await network.destroy();
  });
  afterAll(() => removeLeftoverNetworks());

  const host = (name: string): Host => {
    const found = network.hosts[name];
    if (!found) throw new Error(`no host ${name}`);
    return found;
  };
  const aimAt = (name: string) => ({ host: host(name).address, port: clusterPort });
  const on = (name: string, discovery = false) => ({ host: host(name), api: '127.0.0.1:0', discovery });

  /** A controller on desk, anna on left and ben on right, members; nobody on stranger but the attacker. */
  const start = async (discovery = false) => {
    network = createNetwork(['desk', 'left', 'right', 'stranger']);
    const controller = await cluster.current.startController({ name: 'desk', ...on('desk', discovery) });
    const member = async (name: string, at: string): Promise<RunningNode> =>
      cluster.current.startWorker({ name, join: await controller.invite(), ...on(at, discovery) });
    const anna = await member('anna', 'left');
    const ben = await member('ben', 'right');
    await untilEligible(controller, 2);
    return { controller, anna, ben };
  };

  /** Starts a script on the attacker's machine. */
  const run = (script: string, ...args: string[]): ManagedProcess => {
    const tool = startProcess({
      label: script,
      argv: [...host('stranger').prefix, process.execPath, path.join(scripts, `${script}.ts`), ...args],
    });
    tools.push(tool);
    return tool;
  };
  /** What a script has printed that is JSON. */
  const said = (tool: ManagedProcess): Record<string, unknown>[] =>
    tool
      .stdout()
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  const untilSaid = (
    tool: ManagedProcess,
    key: string,
    timeoutMs = 20_000,
  ): Promise<Record<string, unknown>> =>
    waitFor(
      `the attacker to say ${key}`,
      () => {
        if (tool.hasExited && !said(tool).some((line) => key in line)) throw new Error(tool.output());
        return said(tool).find((line) => key in line);
      },
      timeoutMs,
    );
  /** Runs an attack to its end and returns what came of it. */
  const attack = async <T>(name: string, parameters: unknown, timeoutMs = 60_000): Promise<T> => {
    const tool = run('attack', name, JSON.stringify(parameters));
    await waitFor(`the attack ${name} to end`, () => tool.hasExited, timeoutMs);
    const last = said(tool).at(-1);
    if (!last) throw new Error(tool.output());
    return last as T;
  };
  const names = async (controller: RunningController): Promise<string[]> =>
    (await controller.client.call('nodes')).nodes.map((node) => node.name).sort();

  test('finds one open port on each machine, and gets nothing out of it without a key of ours', async () => {
    const { controller, ben } = await start();
    await loadReady(controller, await predictableModel());
    for (const name of ['desk', 'left']) {
      expect(await attack('scan', { host: host(name).address }, 120_000)).toEqual({ open: [clusterPort] });
    }
    for (const name of ['desk', 'right']) {
      const { answers } = await attack<{ answers: string[] }>('plain', aimAt(name));
      // A TLS alert (record type 21) at most.
      for (const answer of answers) expect(answer).toMatch(/^(15.{8,12})?$/);
      for (const keys of ['none', 'own', 'other-authority', 'expired']) {
        const outcomes = await attack<Outcomes>('handshakes', { aim: aimAt(name), keys });
        const { 'covey-join': join, ...others } = outcomes;
        for (const [protocol, { bytes }] of Object.entries(others)) {
          expect(`${name} ${keys} ${protocol}: ${bytes} bytes`).toBe(`${name} ${keys} ${protocol}: 0 bytes`);
        }
        // Anybody with a key may ask a controller to join, and hears no.
        if (name === 'desk' && keys !== 'none') expect(join?.text).toContain('"refused"');
        else expect(join?.bytes).toBe(0);
      }
    }
    await untilEvent(controller, 'security-refused', /no TLS session/);
    await untilEvent(controller, 'security-refused', /showed no certificate/);
    await untilEvent(controller, 'security-refused', /no member's/);
    await untilEvent(controller, 'security-join-refused');
    expect(await names(controller)).toEqual(['anna', 'ben']);
    expect(ben.engines()).toHaveLength(1);
  });

  test("gets one refusal with a removed member's key, and nothing from the other members", async () => {
    const { controller, ben } = await start();
    await controller.client.call('removeNode', { params: { node: 'ben' } });
    const keys = { stolenFrom: ben.dataDirectory };
    await ben.stop();
    const atController = await attack<Outcomes>('handshakes', { aim: aimAt('desk'), keys });
    expect(atController['covey-session']?.text).toContain('node_removed');
    for (const protocol of ['covey-tunnel', 'covey-http']) {
      expect(atController[protocol]?.text).toContain('node_removed');
    }
    const atMember = await attack<Outcomes>('handshakes', { aim: aimAt('left'), keys });
    for (const outcome of Object.values(atMember)) expect(outcome.bytes).toBe(0);
    await untilEvent(controller, 'security-refused', /was removed/);
    expect(await names(controller)).toEqual(['anna']);
  });

  test("cannot act as controller, nor as another member, with a member's key", async () => {
    const { controller, anna, ben } = await start();
    const mallory = await cluster.current.startWorker({
      name: 'mallory',
      join: await controller.invite(),
      ...on('stranger'),
    });
    await mallory.stop();
    const keys = { stolenFrom: mallory.dataDirectory };
    const { engineBuildId } = await controller.client.call('node', { params: { node: 'ben' } });

    // As a member it is chosen to lead, and is told the grant of ben's stage: bound to mallory's key.
    const leader = run('attack', 'lead', JSON.stringify({ aim: aimAt('desk'), keys, engineBuildId }));
    await untilEligible(controller, 3);
    const loading = controller.client.call('load', {
      body: {
        model: '/any.gguf',
        nodes: ['mallory', 'ben'],
        split: { mallory: 1, ben: 1 },
        leader: 'mallory',
      },
    });
    loading.catch(() => undefined);
    const { grant } = await untilSaid(leader, 'grant');
    expect(grant).toMatch(/^[0-9a-f]{64}$/);

    const peer = ben.report.nodeId;
    const trespass = (name: string, whose: string): Promise<Outcomes> =>
      attack('trespass', { aim: aimAt(name), keys: { stolenFrom: whose }, grant, peer });
    // It is good for mallory itself ...
    const rightful = await trespass('right', mallory.dataDirectory);
    expect(rightful['engineTunnel']?.text).toContain('{"ok":true}');
    // ... and for nobody else, on no protocol, at no other machine.
    const [stolen, atLeft, atDesk] = await Promise.all([
      trespass('right', anna.dataDirectory),
      trespass('left', mallory.dataDirectory),
      trespass('desk', mallory.dataDirectory),
    ]);
    for (const way of ['engineHttp', 'engineTunnel', 'pulse'])
      expect(stolen[way]?.text).toMatch(/"grant_invalid"/);
    for (const outcomes of [rightful, stolen]) {
      // No member takes sessions, requests for a gateway, or relays for others.
      expect(outcomes['session']?.bytes).toBe(0);
      for (const way of ['gateway', 'relay', 'reverse']) {
        expect(outcomes[way]?.text).toMatch(/"ok":false/);
        expect(outcomes[way]?.text).not.toMatch(/HTTP\/1/);
      }
    }
    for (const way of ['engineHttp', 'engineTunnel', 'pulse'])
      expect(atLeft[way]?.text).toMatch(/"grant_invalid"/);
    // At the controller: no relay that it did not ask for, and its /api is closed without a token.
    for (const way of ['engineHttp', 'engineTunnel', 'relay'])
      expect(atDesk[way]?.text).toMatch(/"ok":false/);
    expect(atDesk['gateway']?.text).toMatch(/HTTP\/1\.1 401/);
    await untilEvent(controller, 'security-refused', new RegExp(mallory.report.nodeId.slice(0, 12)));
  });

  test('gets nowhere with what it recorded: join strings, sessions, frames of an earlier run', async () => {
    network = createNetwork(['desk', 'left', 'stranger']);
    const controller = await cluster.current.startController({ name: 'desk', ...on('desk') });
    const invite = decodeJoinString(await controller.invite());
    if (!invite.ok) throw invite.error;
    // Everything between anna and the controller passes by the attacker.
    const tape = path.join(cluster.current.directory, 'tape');
    const recorder = run('recorder', host('desk').address, String(clusterPort), tape);
    await waitFor('the recorder', () => recorder.stdout().includes('ready'), 10_000);
    const join = encodeJoinString({
      ...invite.value,
      addresses: [{ host: host('stranger').address, port: clusterPort }],
    });
    const anna = await cluster.current.startWorker({ name: 'anna', join, ...on('left') });
    await untilEligible(controller, 1);

    const again = await attack<Outcome>('join', { aim: aimAt('desk'), secret: invite.value.secret });
    expect(again.text).toContain('join_secret_used');
    await untilEvent(controller, 'security-join-refused', /used already/);

    const sessions = async (): Promise<number> =>
      (await eventsOf(controller)).filter((event) => event.kind === 'session-opened').length;
    const opened = await sessions();
    const replayed = await attack<{ answer: string; recorded: number }>('replay', {
      aim: aimAt('desk'),
      file: tape,
    });
    expect(replayed.recorded).toBeGreaterThan(500);
    expect(replayed.answer).not.toMatch(/welcome|admitted|\{"/);
    await untilEvent(controller, 'security-refused', /no TLS session/);
    expect(await sessions()).toBe(opened);
    expect(await names(controller)).toEqual(['anna']);

    const before = await loadOn(controller);
    const { engineBuildId } = await controller.client.call('node', { params: { node: 'anna' } });
    await anna.stop();
    const old = await attack<{ welcomed: boolean }>('oldFrames', {
      aim: aimAt('desk'),
      keys: { stolenFrom: anna.dataDirectory },
      bootId: 'e'.repeat(32),
      deploymentId: before.id,
      epoch: before.epoch,
      engineBuildId,
    });
    // Who holds the key is the machine; what ran in another run of it is not what runs now.
    expect(old.welcomed).toBe(true);
    const after = await controller.client.call('deployment', { params: { id: before.id } });
    expect(after.status).not.toBe('ready');
    await expect(complete(controller.api, before.model, 'once', 4)).rejects.toThrow(/503/);
  });

  test('that asks to join ten thousand times binds nothing, and members do not notice', async () => {
    const { controller, anna } = await start();
    const stranger = host('stranger');
    const from = Array.from({ length: 20 }, (_, index) => `10.77.0.${100 + index}`);
    for (const address of from) stranger.run(['ip', 'address', 'add', `${address}/24`, 'dev', 'eth0']);
    const pids = controller.processes().map((one) => one.pid);
    const use = () => ({
      rssMb: pids.reduce((sum, pid) => sum + (processInfo(pid)?.rssBytes ?? 0), 0) / 1e6,
      handles: pids.reduce((sum, pid) => sum + readdirSync(`/proc/${pid}/fd`).length, 0),
    });
    const before = use();
    const worst = { rssMb: 0, handles: 0, healthMs: 0 };
    const flood = run('attack', 'joins', JSON.stringify({ aim: aimAt('desk'), count: 10_000, from }));
    await waitFor(
      'ten thousand attempts',
      async () => {
        const askedAt = performance.now();
        const answer = await fetch(`${controller.api}/healthz`, { signal: AbortSignal.timeout(5_000) });
        await answer.arrayBuffer();
        const now = use();
        worst.healthMs = Math.max(worst.healthMs, performance.now() - askedAt);
        worst.rssMb = Math.max(worst.rssMb, now.rssMb);
        worst.handles = Math.max(worst.handles, now.handles);
        return flood.hasExited;
      },
      150_000,
    );
    const result = said(flood).at(-1);
    console.log(JSON.stringify({ before, worst, result }));
    expect(result).toMatchObject({ admitted: 0 });
    expect(Number(result?.['tried'])).toBeGreaterThanOrEqual(10_000);
    expect(worst.healthMs).toBeLessThan(1_000);
    expect(worst.rssMb - before.rssMb).toBeLessThan(150);
    expect(worst.handles - before.handles).toBeLessThan(350);
    await waitFor('its handles to be given back', () => use().handles <= before.handles + 8, 20_000);
    await untilEvent(controller, 'security-join-refused');
    const events = await eventsOf(controller);
    expect(events.filter((event) => event.kind === 'session-closed')).toEqual([]);
    expect(events.length).toBeLessThan(300);
    expect(await names(controller)).toEqual(['anna', 'ben']);
    // Who is invited gets in meanwhile and afterwards.
    expect((await anna.client.call('self')).membership).toMatchObject({ connected: true });
  });

  test.each(['own', 'forward'])(
    'between a machine and its controller (%s) shows itself by the number',
    async (how) => {
      network = createNetwork(['desk', 'left', 'stranger']);
      const controller = await cluster.current.startController({ name: 'desk', ...on('desk') });
      const anna = await cluster.current.startWorker({ name: 'anna', ...on('left') });
      const middle = run('middle', host('desk').address, String(clusterPort), how);
      await untilSaid(middle, 'ready');
      await startJoin(anna, { controller: `${host('stranger').address}:${clusterPort}` });
      if (how === 'forward') {
        // The commitment is to the key that asks: passed on, it is not kept.
        const { error } = await untilJoin(anna, 'failed');
        expect(error?.code).toMatch(/join_code_mismatch|invalid_request|controller_unreachable/);
        await untilEvent(controller, 'security-join-refused');
      } else {
        const shown = await untilSaid(middle, 'workerShows');
        const wanted = await untilSaid(middle, 'controllerWants');
        expect(shown['workerShows']).not.toBe(wanted['controllerWants']);
        // A controller that says "admitted" before the person here has agreed is not believed.
        const { error } = await untilJoin(anna, 'failed');
        expect(error?.code).toBe('invalid_request');
        const [request] = await waitFor(
          'the request of the man in the middle',
          async () => {
            const { pending } = await controller.client.call('pending');
            return pending.length > 0 ? pending : null;
          },
          10_000,
        );
        expect(request?.nodeId).not.toBe(anna.report.nodeId);
        // What the person reads off the machine is not what the controller waits for.
        await expect(
          controller.client.call('approve', { body: { code: String(shown['workerShows']) } }),
        ).rejects.toMatchObject({ code: 'join_code_wrong' });
        await untilEvent(controller, 'security-join-refused', /number was typed/);
      }
      expect((await anna.client.call('self')).membership).toBeNull();
      expect(await names(controller)).toEqual([]);
    },
  );

  test('that announces itself as the controller leads nobody away', async () => {
    network = createNetwork(['desk', 'left', 'right', 'stranger']);
    const controller = await cluster.current.startController({ name: 'desk', ...on('desk', true) });
    const { secret } = await controller.client.call('newClusterSecret');
    const anna = await cluster.current.startWorker({ name: 'anna', ...on('left', true) });
    await pair(controller, anna, { controller: `${host('desk').address}:${clusterPort}` });
    await untilEligible(controller, 1);

    const middle = run('middle', host('desk').address, String(clusterPort), 'own');
    const { nodeId: strangerId } = await untilSaid(middle, 'ready');
    const impostor = run('impostor', host('stranger').address);
    const { mark } = await untilSaid(impostor, 'heard');
    expect(mark).toMatch(/^[0-9a-f]{32}$/);

    // A machine that holds the secret joins the key that proves it, wherever else it is sent.
    const ben = await cluster.current.startWorker({ name: 'ben', ...on('right', true) });
    await startJoin(ben, { clusterSecret: secret });
    const { controller: joined } = await untilJoin(ben, 'joined');
    expect(joined?.nodeId).toBe(controller.report.nodeId);
    await untilEligible(controller, 2);
    expect(said(middle).some((line) => line['worker'] === 'proof')).toBe(false);

    // A member that loses its controller goes to nobody else, and comes back.
    host('desk').unplug();
    await waitFor(
      'anna to miss its controller',
      async () => (await anna.client.call('self')).membership?.connected === false,
      30_000,
    );
    const { membership } = await anna.client.call('self');
    expect(membership?.controllerId).toBe(controller.report.nodeId);
    expect(membership?.controllerId).not.toBe(strangerId);
    host('desk').plug();
    await untilEligible(controller, 2, 60_000);
    const seen = (await anna.client.call('discovery')).machines.filter(
      (machine) => machine.nodeId === controller.report.nodeId,
    );
    const lies = seen
      .flatMap((machine) => machine.attempts)
      .filter((one) => one.address.host === host('stranger').address);
    await untilEvent(
      controller,
      'security-refused',
      /announced as this machine and shows another key/,
      40_000,
    );
    // What was tried at the impostor's address showed another key, or nothing.
    for (const lie of lies) expect(lie.nodeId).not.toBe(controller.report.nodeId);
  });
});

async function loadOn(controller: RunningController): Promise<DeploymentView> {
  const { id } = await controller.client.call('load', { body: { model: await predictableModel() } });
  return untilStatus(controller, id, 'ready');
}
