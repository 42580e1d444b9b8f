import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ProbeState } from '../support/discovery-probe.ts';
import { startProcess, type ManagedProcess } from '../support/managed-process.ts';
import {
  createNetwork,
  netnsMissing,
  removeLeftoverNetworks,
  type Host,
  type Network,
} from '../support/netns.ts';
import { waitFor, withDeadline } from '../support/wait.ts';

const missing = netnsMissing();
const support = path.join(import.meta.dirname, '..', 'support');

interface Probe {
  state(): ProbeState;
  /** Waits until what it last said is so. */
  until(description: string, holds: (state: ProbeState) => boolean, timeoutMs?: number): Promise<ProbeState>;
  stop(): Promise<void>;
  crash(): Promise<unknown>;
}

describe.skipIf(missing)(`discovery among hosts${missing ? ` (${missing})` : ''}`, () => {
  let network: Network;
  let running: ManagedProcess[] = [];
  beforeAll(() => removeLeftoverNetworks());
  beforeEach(() => {
    network = createNetwork(['anna', 'ben', 'mallory']);
  });
  afterEach(async () => {
    await Promise.all(running.map((one) => one.stop(2_000)));
    running = [];
    await network.destroy();
  });
  afterAll(() => removeLeftoverNetworks());

  const host = (name: string): Host => {
    const found = network.hosts[name];
    if (!found) throw new Error(`no host ${name}`);
    return found;
  };
  const ip = (name: string, ...args: string[]): void => {
    const { code, stderr } = host(name).run(['ip', ...args]);
    if (code !== 0) throw new Error(`ip ${args.join(' ')}: ${stderr}`);
  };
  const nft = (name: string, hook: 'input' | 'output'): void => {
    const rules =
      `add table inet t; add chain inet t c { type filter hook ${hook} priority 0; }; ` +
      `add rule inet t c ip daddr 224.0.0.0/4 drop`;
    const { code, stderr } = host(name).run(['nft', rules]);
    if (code !== 0) throw new Error(`nft: ${stderr}`);
  };
  const probe = (name: string, digit: string, ...bound: string[]): Probe => {
    const started = startProcess({
      label: `probe ${digit}`,
      argv: [
        ...host(name).prefix,
        process.execPath,
        path.join(support, 'discovery-probe.ts'),
        digit,
        ...bound,
      ],
    });
    running.push(started);
    const state = (): ProbeState => {
      const line = started.stdout().split('\n').at(-2);
      if (line === undefined) throw new Error(`probe ${digit} said nothing: ${started.output()}`);
      return JSON.parse(line) as ProbeState;
    };
    return {
      state,
      until: async (description, holds, timeoutMs = 5_000) => {
        let last: ProbeState | null = null;
        await waitFor(
          description,
          () => {
            last = state();
            if (!holds(last)) throw new Error(JSON.stringify(last).slice(0, 2_000));
            return true;
          },
          timeoutMs,
        );
        return last ?? state();
      },
      stop: async () => void (await started.stop(5_000)),
      crash: () => started.crash(),
    };
  };
  const flood = async (kind: string, count: number, perS?: number): Promise<void> => {
    const { address, prefix } = host('mallory');
    const flooder = startProcess({
      label: 'flood',
      argv: [
        ...prefix,
        process.execPath,
        path.join(support, 'mdns-flood.ts'),
        ...[address, String(count), kind, ...(perS === undefined ? [] : [String(perS)])],
      ],
    });
    running.push(flooder);
    const { code } = await withDeadline('the flood to end', flooder.exited, 60_000);
    expect(code, flooder.output()).toBe(0);
  };
  const finds =
    (digit: string) =>
    (state: ProbeState): boolean =>
      state.peers.some((peer) => peer.nodeId === digit.repeat(64));
  const first = (state: ProbeState, digit: string) =>
    state.peers.find((peer) => peer.nodeId === digit.repeat(64))?.addresses[0];
  const up = (state: ProbeState): boolean => state.interfaces.some((one) => one.working);

  test('two find each other at once, and one says goodbye', async () => {
    const anna = probe('anna', 'a');
    await anna.until('anna to listen', up);
    const ben = probe('ben', 'b');
    const found = await ben.until('ben to find anna', finds('a'));
    expect(found.foundMs).toBeLessThan(1_000);
    expect(found.peers).toMatchObject([
      { name: 'probe a', role: 'worker', version: '0.1.0', bootId: 'a'.repeat(32), interfaces: ['eth0'] },
    ]);
    expect(first(found, 'a')).toEqual({ host: host('anna').address, port: 7000 });
    expect(found.interfaces).toEqual([
      { name: 'eth0', address: host('ben').address, virtual: false, working: true, problem: null },
    ]);
    await anna.until('anna to find ben', finds('b'));
    await ben.stop();
    await anna.until('anna to hear the goodbye', (state) => state.peers.length === 0, 2_000);
  });

  test('link-local addresses on a cable, without any route', async () => {
    for (const [name, address] of [
      ['anna', '169.254.10.1/16'],
      ['ben', '169.254.200.2/16'],
    ] as const) {
      ip(name, 'route', 'delete', 'default');
      ip(name, 'address', 'flush', 'dev', 'eth0');
      ip(name, 'address', 'add', address, 'dev', 'eth0', 'scope', 'link');
    }
    const anna = probe('anna', 'a');
    const ben = probe('ben', 'b');
    expect(first(await ben.until('ben to find anna', finds('a')), 'a')?.host).toBe('169.254.10.1');
    expect(first(await anna.until('anna to find ben', finds('b')), 'b')?.host).toBe('169.254.200.2');
  });

  test('with a decoy that comes first and has the default route', async () => {
    for (const name of ['anna', 'ben']) {
      ip(name, 'link', 'set', 'eth0', 'down');
      ip(name, 'link', 'set', 'eth0', 'name', 'zz0');
      ip(name, 'link', 'add', 'aa0', 'type', 'veth', 'peer', 'name', 'aa1');
      ip(name, 'address', 'add', '10.99.0.1/24', 'dev', 'aa0');
      ip(name, 'link', 'add', 'docker0', 'type', 'veth', 'peer', 'name', 'docker1');
      ip(name, 'address', 'add', '172.17.0.1/16', 'dev', 'docker0');
      for (const link of ['aa0', 'aa1', 'docker0', 'docker1', 'zz0']) ip(name, 'link', 'set', link, 'up');
      ip(name, 'route', 'replace', 'default', 'dev', 'aa0');
    }
    const anna = probe('anna', 'a');
    const ben = probe('ben', 'b');
    const found = await ben.until('ben to find anna', finds('a'));
    expect(found.peers).toMatchObject([{ interfaces: ['zz0'] }]);
    expect(first(found, 'a')?.host).toBe(host('anna').address);
    expect(found.interfaces.at(-1)).toMatchObject({ name: 'docker0', virtual: true });
    await anna.until('anna to find ben', finds('b'));
  });

  test('follows a change of address', async () => {
    const anna = probe('anna', 'a');
    const ben = probe('ben', 'b');
    await ben.until('ben to find anna', finds('a'));
    ip('anna', 'address', 'delete', `${host('anna').address}/24`, 'dev', 'eth0');
    ip('anna', 'address', 'add', '10.77.0.101/24', 'dev', 'eth0');
    await ben.until('anna at her new address', (state) => first(state, 'a')?.host === '10.77.0.101', 8_000);
    await anna.until('her own view', ({ interfaces }) => interfaces[0]?.address === '10.77.0.101');
    ip('ben', 'link', 'set', 'eth0', 'down');
    await ben.until('ben without a network', ({ interfaces }) => interfaces[0]?.name === 'lo', 8_000);
    ip('ben', 'link', 'set', 'eth0', 'up');
    await ben.until('ben back', (state) => state.interfaces[0]?.name === 'eth0' && up(state), 8_000);
  });

  test.each(['input', 'output'] as const)(
    'multicast dropped at %s: nothing is found, and it says so',
    async (hook) => {
      nft('ben', hook);
      const anna = probe('anna', 'a');
      const ben = probe('ben', 'b');
      const { interfaces, peers } = await ben.until(
        'the problem',
        (state) => state.interfaces[0]?.working === false && state.interfaces[0].problem !== 'not opened yet',
      );
      expect(interfaces[0]?.problem).toMatch(/firewall/);
      if (hook === 'input') expect(peers).toEqual([]);
      await anna.until('anna works', up);
      ip('ben', 'link', 'set', 'lo', 'up');
      host('ben').run(['nft', 'delete', 'table', 'inet', 't']);
      await ben.until('ben to find anna after all', finds('a'), 60_000);
      await ben.until('no problem', up);
    },
  );

  test('several on one machine, on a network and with loopback alone', async () => {
    const [a, b] = [probe('anna', 'a'), probe('anna', 'b')];
    const bound = probe('anna', 'c', '127.0.0.1');
    const far = probe('mallory', 'f');
    for (const one of [a, b, bound]) {
      await one.until('the three others', ({ peers }: ProbeState) => peers.length === 3);
    }
    const addresses = a.state().peers.find((peer) => peer.nodeId === 'c'.repeat(64))?.addresses;
    expect(addresses).toContainEqual({ host: '127.0.0.1', port: 7000 });
    // What only its own machine can reach is of no use elsewhere.
    await far.until('the two that it can reach', ({ peers }: ProbeState) => peers.length === 2);
    expect(finds('c')(far.state())).toBe(false);

    ip('ben', 'link', 'set', 'eth0', 'down');
    const [d, e] = [probe('ben', 'd'), probe('ben', 'e')];
    expect(first(await d.until('the other', finds('e')), 'e')).toEqual({ host: '127.0.0.1', port: 7000 });
    await e.until('the other', finds('d'));
    expect(e.state().interfaces).toMatchObject([{ name: 'lo', working: true }]);
  });

  test('IPv6 alone: says that it is not enough', async () => {
    ip('ben', 'address', 'flush', 'dev', 'eth0');
    ip('ben', 'address', 'add', 'fd00:77::2/64', 'dev', 'eth0', 'nodad');
    const { interfaces } = await probe('ben', 'b').until('lo to work', up);
    expect(interfaces).toMatchObject([
      { name: 'lo', working: true },
      { name: 'eth0', working: false, problem: expect.stringContaining('only IPv6') },
    ]);
  });

  test('another program holds port 5353 for itself: a problem, no crash, and it recovers', async () => {
    const program = `require('dgram').createSocket('udp4').bind(5353,()=>console.log('up'))`;
    const holder = startProcess({
      label: 'holder',
      argv: [...host('ben').prefix, process.execPath, '-e', program],
    });
    running.push(holder);
    await waitFor('the holder', () => holder.stdout().includes('up'), 5_000);
    const ben = probe('ben', 'b');
    await ben.until('the problem', ({ interfaces }) => /5353.*holds/.test(interfaces[0]?.problem ?? ''));
    await holder.stop();
    await ben.until('no problem', up, 25_000);
  });

  test('100,000 packets of garbage and of machines that are not there', async () => {
    const anna = probe('anna', 'a');
    await anna.until('anna to listen', up);
    const ben = probe('ben', 'b');
    await ben.until('ben to find anna', finds('a'));
    const before = ben.state();
    for (const [kind, count, perS] of [
      // Too slow to be cut off: looked at as far as the gate lets them.
      ['machines', 4_000, 2_000],
      ['questions', 2_000, 2_000],
      ['garbage', 50_000, undefined],
      ['machines', 26_000, undefined],
      ['questions', 18_000, undefined],
    ] as const) {
      await flood(kind, count, perS);
      expect(ben.state().peers.length).toBeLessThanOrEqual(512);
      if (perS !== undefined) expect(finds('a')(ben.state())).toBe(true);
    }
    const after = ben.state();
    const grownBytes = after.rssBytes - before.rssBytes;
    const cpuMs = after.cpuMs - before.cpuMs;
    console.log(
      `flood: ${(grownBytes / 2 ** 20).toFixed(1)} MiB more, ${Math.round(cpuMs)} ms CPU, ${after.peers.length} peers`,
    );
    expect(grownBytes).toBeLessThan(48 * 2 ** 20);
    expect(cpuMs).toBeLessThan(5_000);
    // And it still works: a newcomer is found once the flood is over.
    probe('mallory', 'f');
    await ben.until('ben to listen again', up, 15_000);
    await ben.until('the newcomer', finds('f'), 15_000);
  });
});
