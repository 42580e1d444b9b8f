import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { startProcess, type ManagedProcess } from './managed-process.ts';
import { killTree } from './processes.ts';
import { waitFor } from './wait.ts';

/**
 * Several computers on one: each host is a Linux network namespace with an address of its own, all of them
 * plugged into one bridge that lives in a namespace too. Nothing is added to this machine's own network.
 */
export interface Network {
  readonly hosts: Readonly<Record<string, Host>>;
  /** Ends everything that runs inside and removes the namespaces. */
  destroy(): Promise<void>;
}

export interface Host {
  readonly name: string;
  /** Its IPv4 address in the network, the present one. */
  readonly address: string;
  /** Put before a command line to run it on this host. */
  readonly prefix: readonly [string, ...string[]];
  /** Runs a program there to its end; stdout and stderr as text. */
  run(argv: readonly string[], timeoutMs?: number): { code: number; stdout: string; stderr: string };
  /** Pulls the cable: packets stop, addresses and connections stay as they are. */
  unplug(): void;
  plug(): void;
  /** Its firewall: `nft` rules of an inet table, such as `input ip protocol udp drop`. Replaces earlier ones. */
  firewall(rules: readonly string[]): void;
  /** Another address instead of the one it has (as after DHCP); connections from the old one hang. */
  move(address: string): void;
  /** This host sends nothing to that address any more. */
  blackhole(address: string): void;
  unblackhole(address: string): void;
  /**
   * Makes a port on this host's loopback reachable under the same number on the test's own (servers check the
   * port in the Host header).
   */
  reach(port: number): Promise<void>;
}

const prefix = 'coveytest';
const subnet = '10.77.0';
let networks = 0;

/** null when namespaces can be made here, otherwise the reason why not, for `context.skip`. */
export function netnsMissing(): string | null {
  if (process.platform !== 'linux') return 'network namespaces exist on Linux only';
  if (process.getuid?.() !== 0) return 'network namespaces need root';
  const name = `${prefix}-${process.pid}-probe`;
  const made = spawnSync('ip', ['netns', 'add', name], { encoding: 'utf8' });
  if (made.error) return 'the program "ip" (package iproute2) is not installed';
  if (made.status !== 0) return `network namespaces cannot be made here: ${made.stderr.trim()}`;
  const [enter, ...args] = into(name);
  const entered = spawnSync(enter, [...args, 'true'], { encoding: 'utf8' });
  spawnSync('ip', ['netns', 'delete', name]);
  if (entered.error) return 'the program "nsenter" (package util-linux) is not installed';
  if (entered.status !== 0) return `network namespaces cannot be entered here: ${entered.stderr.trim()}`;
  return null;
}

/**
 * Put before a command line to run it in a namespace. `ip netns exec` would mount a new /sys, without the control
 * groups that hold programs of jobs.
 */
function into(namespace: string): [string, ...string[]] {
  return ['nsenter', `--net=/var/run/netns/${namespace}`, '--'];
}

function ip(...args: string[]): string {
  return execFileSync('ip', args, { encoding: 'utf8', timeout: 10_000, stdio: ['ignore', 'pipe', 'pipe'] });
}

/** Removes namespaces whose test process is gone, with everything that still runs inside. */
export function removeLeftoverNetworks(): void {
  const listed = spawnSync('ip', ['netns', 'list'], { encoding: 'utf8' });
  if (listed.status !== 0) return;
  for (const line of listed.stdout.split('\n')) {
    const match = new RegExp(`^(${prefix}-(\\d+)-\\S+)`).exec(line);
    if (match?.[1] === undefined || processRuns(Number(match[2]))) continue;
    removeNamespace(match[1]);
  }
}

function processRuns(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function removeNamespace(name: string): void {
  const inside = spawnSync('ip', ['netns', 'pids', name], { encoding: 'utf8' });
  for (const pid of (inside.stdout ?? '').split('\n').filter(Boolean)) killTree(Number(pid));
  spawnSync('ip', ['netns', 'delete', name]);
}

/** Makes a network of the given hosts. Everything is undone when any step fails. */
export function createNetwork(hostNames: readonly string[]): Network {
  networks += 1;
  const namespaceOf = (host: string): string => `${prefix}-${process.pid}-${networks}-${host}`;
  const switchNamespace = namespaceOf('switch');
  const made: string[] = [];
  const relays: Relays = { directory: mkdtempSync(path.join(os.tmpdir(), 'covey-net-')), ends: [] };
  const destroy = async (): Promise<void> => {
    for (const end of relays.ends.reverse()) await end();
    for (const namespace of made.reverse()) removeNamespace(namespace);
    rmSync(relays.directory, { recursive: true, force: true });
  };
  try {
    ip('netns', 'add', switchNamespace);
    made.push(switchNamespace);
    ip('-n', switchNamespace, 'link', 'add', 'bridge', 'type', 'bridge');
    ip('-n', switchNamespace, 'link', 'set', 'bridge', 'up');
    const hosts = Object.fromEntries(
      hostNames.map((name, index) => {
        const namespace = namespaceOf(name);
        ip('netns', 'add', namespace);
        made.push(namespace);
        const port = `port${index}`;
        const address = `${subnet}.${index + 1}`;
        ip(
          '-n',
          namespace,
          'link',
          'add',
          'eth0',
          'type',
          'veth',
          'peer',
          'name',
          port,
          'netns',
          switchNamespace,
        );
        ip('-n', switchNamespace, 'link', 'set', port, 'master', 'bridge', 'up');
        ip('-n', namespace, 'address', 'add', `${address}/24`, 'dev', 'eth0');
        ip('-n', namespace, 'link', 'set', 'lo', 'up');
        ip('-n', namespace, 'link', 'set', 'eth0', 'up');
        ip('-n', namespace, 'route', 'add', 'default', 'dev', 'eth0');
        return [name, createHost({ name, namespace, address, switchNamespace, port, relays })];
      }),
    );
    return { hosts, destroy };
  } catch (error) {
    for (const namespace of made.reverse()) removeNamespace(namespace);
    rmSync(relays.directory, { recursive: true, force: true });
    throw error;
  }
}

interface Relays {
  readonly directory: string;
  readonly ends: (() => Promise<void>)[];
}

interface HostParts {
  readonly name: string;
  readonly namespace: string;
  readonly address: string;
  readonly switchNamespace: string;
  /** Its end of the cable on the switch. */
  readonly port: string;
  readonly relays: Relays;
}

function createHost({ name, namespace, address, switchNamespace, port, relays }: HostParts): Host {
  const inside: readonly [string, ...string[]] = into(namespace);
  let current = address;
  return {
    name,
    get address() {
      return current;
    },
    prefix: inside,
    run(argv, timeoutMs = 20_000) {
      const result = spawnSync(inside[0], [...inside.slice(1), ...argv], {
        encoding: 'utf8',
        timeout: timeoutMs,
      });
      return { code: result.status ?? 124, stdout: result.stdout, stderr: result.stderr };
    },
    firewall(rules) {
      const table = [
        'table inet test',
        'delete table inet test',
        'table inet test {',
        '  chain input { type filter hook input priority 0; policy accept;',
        ...rules.filter((rule) => rule.startsWith('input ')).map((rule) => `    ${rule.slice(6)}`),
        '  }',
        '  chain output { type filter hook output priority 0; policy accept;',
        ...rules.filter((rule) => rule.startsWith('output ')).map((rule) => `    ${rule.slice(7)}`),
        '  }',
        '}',
        '',
      ].join('\n');
      execFileSync(inside[0], [...inside.slice(1), 'nft', '-f', '-'], { input: table, timeout: 10_000 });
    },
    move(next) {
      // In this order: the first address of a subnet takes the others with it.
      ip('-n', namespace, 'address', 'delete', `${current}/24`, 'dev', 'eth0');
      ip('-n', namespace, 'address', 'add', `${next}/24`, 'dev', 'eth0');
      ip('-n', namespace, 'route', 'replace', 'default', 'dev', 'eth0');
      current = next;
    },
    unplug: () => void ip('-n', switchNamespace, 'link', 'set', port, 'down'),
    plug: () => void ip('-n', switchNamespace, 'link', 'set', port, 'up'),
    blackhole: (target) => void ip('-n', namespace, 'route', 'replace', 'blackhole', target),
    unblackhole: (target) => void ip('-n', namespace, 'route', 'delete', 'blackhole', target),
    async reach(target) {
      const socketPath = path.join(relays.directory, `${name}-${target}`);
      const relay = startProcess({
        label: `relay into ${name}`,
        argv: [
          ...inside,
          process.execPath,
          path.join(import.meta.dirname, 'relay.ts'),
          socketPath,
          String(target),
        ],
      });
      const server = await serveRelay(socketPath, relay, target);
      relays.ends.push(async () => {
        server.close();
        await relay.stop();
      });
    },
  };
}

/** Sockets in the file system are seen from every network namespace: that is the way in. */
async function serveRelay(socketPath: string, relay: ManagedProcess, port: number): Promise<Server> {
  await waitFor(
    'the relay',
    () => {
      if (relay.hasExited) throw new Error(`the relay ended: ${relay.output()}`);
      return relay.stdout().includes('ready');
    },
    10_000,
  );
  const server = createServer((client) => {
    const upstream = connect(socketPath);
    const end = (): void => {
      client.destroy();
      upstream.destroy();
    };
    client.on('error', end).on('close', end).pipe(upstream);
    upstream.on('error', end).on('close', end).pipe(client);
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return server;
}
