import { afterEach, describe, expect, it } from 'vitest';
import type { Discovered, DiscoveryView } from '#shared/api/self.ts';
import { scriptedIo } from '../../../e2e/support/cli-io.ts';
import { startScriptedApi, type ScriptedApi } from '../../../e2e/support/scripted-api.ts';
import { at, nodeIdOf } from '../../../e2e/support/views.ts';
import { runCli } from '../main.ts';

let api: ScriptedApi | null = null;
afterEach(async () => {
  await api?.close();
  api = null;
});

const working = { name: 'eth0', address: '192.168.1.9', virtual: false, working: true, problem: null };
const machine = (digit: string, changes: Partial<Discovered>): Discovered => ({
  nodeId: nodeIdOf(digit),
  name: 'attic',
  role: 'worker',
  version: '0.1.0',
  relation: 'stranger',
  verified: true,
  attempts: [
    { address: { host: '192.168.1.4', port: 7879 }, nodeId: nodeIdOf(digit), connectMs: 4.2, problem: null },
  ],
  interfaces: ['eth0'],
  lastSeenAt: at - 400,
  ...changes,
});
const self = machine('5', { name: 'desk', relation: 'self', attempts: [] });

async function discover(changes: Partial<DiscoveryView>, words: string[] = []): Promise<string> {
  const view: DiscoveryView = {
    enabled: true,
    interfaces: [working],
    machines: [self],
    problem: null,
    ...changes,
  };
  api = await startScriptedApi({ discovery: () => view });
  const io = scriptedIo();
  expect(await runCli(['--data', api.dataDirectory, 'discover', ...words], io), io.stderr()).toBe(0);
  for (const line of io.stdout().split('\n')) {
    if (words.length === 0) expect(line.length, line).toBeLessThanOrEqual(80);
  }
  return io.stdout();
}

describe('covey discover', () => {
  it('groups machines, with every address that was tried, at 80 columns', async () => {
    const machines = [
      self,
      machine('c', { name: 'hall', relation: 'controller', role: 'controller' }),
      machine('e', {
        relation: 'member',
        verified: false,
        attempts: [
          {
            address: { host: '192.168.1.5', port: 7879 },
            nodeId: null,
            connectMs: null,
            problem: 'refuses connections',
          },
          {
            address: { host: 'fd00::5', port: 7879 },
            nodeId: null,
            connectMs: null,
            problem: 'does not answer',
          },
        ],
      }),
      machine('7', { name: 'kitchen', relation: 'kin' }),
      machine('8', {
        name: 'evil\u001b[2J',
        role: 'controller',
        verified: false,
        attempts: [
          {
            address: { host: '192.168.1.66', port: 7879 },
            nodeId: nodeIdOf('6'),
            connectMs: 3,
            problem: null,
          },
        ],
      }),
      machine('9', { name: 'shed', relation: 'duplicate' }),
    ];
    const docker = { ...working, name: 'docker0', address: '172.17.0.1', virtual: true };
    const broken = {
      ...working,
      name: 'wlan0',
      address: '10.0.0.3',
      working: false,
      problem: 'carries no multicast',
    };
    expect(await discover({ machines, interfaces: [working, broken, docker] })).toMatchInlineSnapshot(`
      "This covey
        desk  555555555555  worker, this machine
          covey 0.1.0
        hall  cccccccccccc  the controller
          covey 0.1.0, heard on eth0, 400 ms ago
          192.168.1.4:7879 answered in 4.2 ms
        attic  eeeeeeeeeeee  member
          covey 0.1.0, heard on eth0, 400 ms ago
          192.168.1.5:7879 refuses connections
          [fd00::5]:7879 does not answer
          Not verified: no address answered, so this is only what it says of itself.

      Other controllers
        evil\\x1b[2J  888888888888  controller
          covey 0.1.0, heard on eth0, 400 ms ago
          192.168.1.66:7879 shows another key: 666666666666
          Not who it says it is: no address shows the key that it claims.

      Other machines
        kitchen  777777777777  worker, shows our cluster secret's mark
          covey 0.1.0, heard on eth0, 400 ms ago
          192.168.1.4:7879 answered in 4.2 ms

      Machines that use a key twice
        shed  999999999999  worker, claims a key that another machine uses too
          covey 0.1.0, heard on eth0, 400 ms ago
          192.168.1.4:7879 answered in 4.2 ms

      Listening on
        INTERFACE  ADDRESS      KIND              STATE
        eth0       192.168.1.9  network           works
        wlan0      10.0.0.3     network           does not work
        docker0    172.17.0.1   container or VPN  works
        wlan0 carries no multicast.

      A key on two machines is a copied data directory: "covey identity new" makes a
      new key for one of them.
      "
    `);
  });

  it('says why nothing was found and what to do', async () => {
    const problem = 'No other machine was heard. '.repeat(6).trim();
    expect(await discover({ problem })).toContain('No other machine was heard.');
    const hall = machine('c', { name: 'hall', role: 'controller' });
    expect(await discover({ machines: [self, hall] })).toContain('covey join "hall"');
    expect(await discover({ machines: [], interfaces: [], enabled: false, problem: 'It is off.' })).toBe(
      'It is off.\n',
    );
  });

  it('as JSON is what the API answers', async () => {
    expect(JSON.parse(await discover({}, ['--json']))).toMatchObject({ enabled: true, machines: [self] });
  });
});
