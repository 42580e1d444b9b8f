import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createNetwork, netnsMissing, removeLeftoverNetworks, type Network } from './netns.ts';
import { startProcess } from './managed-process.ts';
import { waitFor } from './wait.ts';

const node = process.execPath;
const missing = netnsMissing();

/** Exit code 0: a connection from this host to that address and port was accepted within half a second. */
const dial = (host: string, port: number): string[] => [
  node,
  '-e',
  `const s=require('net').connect(${port},'${host}');s.on('connect',()=>process.exit(0));` +
    `s.on('error',()=>process.exit(1));setTimeout(()=>process.exit(2),500)`,
];
const serve = (port: number): string[] => [
  node,
  '-e',
  `require('http').createServer((q,r)=>r.end('hello')).listen(${port},()=>console.log('up'));` +
    `process.stdin.on('end',()=>process.exit()).resume()`,
];

describe('network namespaces', () => {
  let network: Network;

  beforeEach((context) => {
    if (missing !== null) context.skip(missing);
    network = createNetwork(['a', 'b']);
  });
  afterEach(async () => {
    await network?.destroy();
  });

  it('gives hosts addresses, lets them talk, and cuts them off and on again', async () => {
    const { a, b } = network.hosts;
    if (!a || !b) throw new Error('hosts are missing');
    const server = startProcess({
      label: 'server',
      argv: [...b.prefix, ...serve(47123)] as [string, ...string[]],
    });
    await waitFor('the server', () => server.stdout().includes('up'), 5_000);

    expect(a.run(dial(b.address, 47123)).code).toBe(0);
    b.unplug();
    expect(a.run(dial(b.address, 47123)).code).not.toBe(0);
    b.plug();
    await waitFor('the cable', () => a.run(dial(b.address, 47123)).code === 0, 5_000);
    a.blackhole(b.address);
    expect(a.run(dial(b.address, 47123)).code).toBe(1);
    a.unblackhole(b.address);
    expect(a.run(dial(b.address, 47123)).code).toBe(0);

    await b.reach(47123);
    expect(await (await fetch('http://127.0.0.1:47123/')).text()).toBe('hello');
    await server.stop();
  });

  it('does not reach the machine around it', async () => {
    const { a } = network.hosts;
    const outside = createServer().listen(0, '127.0.0.1');
    await once(outside, 'listening');
    const address = outside.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    expect(a?.run(dial('127.0.0.1', address.port)).code).toBe(1);
    outside.close();
  });

  it('leaves a host what this machine mounts, its control groups among it', () => {
    const { a } = network.hosts;
    const mounted = (text: string): string[] =>
      text
        .split('\n')
        .flatMap((line) => line.split(' ')[4] ?? [])
        .filter((directory) => directory.startsWith('/sys'))
        .sort();
    const here = readFileSync('/proc/self/mountinfo', 'utf8');
    expect(mounted(a?.run(['cat', '/proc/self/mountinfo']).stdout ?? '')).toEqual(mounted(here));
  });

  it('is gone after destroy, with what ran inside', async () => {
    const { a } = network.hosts;
    if (!a) throw new Error('host is missing');
    const server = startProcess({
      label: 'server',
      argv: [...a.prefix, ...serve(47124)] as [string, ...string[]],
    });
    await waitFor('the server', () => server.stdout().includes('up'), 5_000);
    await network.destroy();
    expect((await server.exited).signal).toBe('SIGKILL');
    const listed = spawnSync('ip', ['netns', 'list'], { encoding: 'utf8' }).stdout;
    expect(listed).not.toContain(`coveytest-${process.pid}-`);
  });

  it('removes what a dead run left behind, and only that', () => {
    const dead = spawnSync(node, ['-e', '']).pid;
    const name = `coveytest-${dead}-1-x`;
    spawnSync('ip', ['netns', 'add', name]);
    removeLeftoverNetworks();
    const listed = spawnSync('ip', ['netns', 'list'], { encoding: 'utf8' }).stdout;
    expect(listed).not.toContain(name);
    expect(listed).toContain(`coveytest-${process.pid}-`);
  });
});
