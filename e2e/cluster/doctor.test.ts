import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { doctorReportSchema, type DoctorReport } from '../../src-main/shared/api/self.ts';
import type { DoctorCheck } from '../../src-main/shared/domain/doctor.ts';
import { runCovey } from '../support/cli.ts';
import { NodeEnded, type RunningController, type RunningNode } from '../support/cluster.ts';
import { coveyCommand } from '../support/checkout.ts';
import { createNetwork, netnsMissing, removeLeftoverNetworks, type Network } from '../support/netns.ts';
import { freePort } from '../support/ports.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

const dayMs = 86_400_000;
const clockModule = pathToFileURL(path.join(import.meta.dirname, '..', 'support', 'shifted-clock.mjs')).href;
const shifted = (ms: number): NodeJS.ProcessEnv => ({
  NODE_OPTIONS: `--import=${clockModule}`,
  TEST_CLOCK_SHIFT_MS: String(ms),
});

function checkOf(report: Pick<DoctorReport, 'nodes'>, name: string, id: string): DoctorCheck {
  const found = report.nodes.find((node) => node.name === name)?.checks.find((check) => check.id === id);
  if (!found) throw new Error(`no check ${id} of ${name} in ${JSON.stringify(report, null, 1)}`);
  return found;
}

/** A program of the user that listens somewhere; it ends with this process. */
async function startKettle(port: number, prefix: readonly string[] = []): Promise<ChildProcess> {
  const script = `process.title='tea-kettle';process.stdin.on('end',()=>process.exit()).resume();require('net').createServer().listen(${port},'0.0.0.0',()=>console.log('on'))`;
  const [file, ...args] = [...prefix, process.execPath, '-e', script] as string[];
  const child = spawn(file ?? '', args, { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  return child;
}

describe('the doctor of a covey', () => {
  const cluster = useCluster('file');
  let controller: RunningController;
  let anna: RunningNode;
  let late: RunningNode;

  beforeAll(async () => {
    controller = await cluster.current.startController({ name: 'hall' });
    anna = await cluster.current.startWorker({
      name: 'anna',
      join: await controller.invite(),
      api: '127.0.0.1:0',
    });
    late = await cluster.current.startWorker({
      name: 'late',
      join: await controller.invite(),
      env: shifted(dayMs),
    });
    await waitFor(
      'all to be ready',
      async () => {
        const { nodes } = await controller.client.call('nodes');
        return nodes.length === 2 && nodes.every(({ eligible }) => eligible);
      },
      20_000,
    );
  });

  it('names the machine whose clock is a day off, which is a member all the same', async () => {
    const { code, stdout } = await runCovey(controller, ['doctor', '--json'], { timeoutMs: 120_000 });
    const report = doctorReportSchema.parse(JSON.parse(stdout));
    expect(checkOf(report, 'late', 'clock')).toMatchObject({
      status: 'fail',
      summary: expect.stringMatching(/1 day ahead of the controller's/),
      action: expect.stringContaining('automatic time'),
    });
    expect(code).toBe(1);
    expect(checkOf(report, 'anna', 'clock').status).toBe('ok');
    expect(report.nodes.map(({ name, error }) => [name, error])).toEqual([
      ['hall', null],
      ['anna', null],
      ['late', null],
    ]);
    // Certificates, leases and heartbeats do not hang on the date.
    const { nodes } = await controller.client.call('nodes');
    expect(nodes.map(({ name, status }) => [name, status])).toEqual([
      ['anna', 'ready'],
      ['late', 'ready'],
    ]);
  });

  it('measures each pair in both directions, and keeps that for "covey links"', async () => {
    const report = await controller.client.call('doctor', { timeoutMs: 120_000 });
    expect(
      report.pairs.map(({ fromName, toName, path: way, error }) => [fromName, toName, way, error]),
    ).toEqual([
      ['anna', 'late', 'direct', null],
      ['late', 'anna', 'direct', null],
    ]);
    for (const { rttMs, bytesPerS } of report.pairs) {
      expect(rttMs).toBeGreaterThan(0);
      expect(bytesPerS).toBeGreaterThan(1e6);
    }
    expect(checkOf(report, 'hall', 'pairs')).toMatchObject({ status: 'ok' });
    expect(checkOf(report, 'anna', 'inbound').summary).toMatch(
      /The controller reaches it at 127\.0\.0\.1:\d+/,
    );
    const { stdout, code } = await runCovey(controller, ['links']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^anna +late +direct +[\d.]+ ms +[\d.]+ [KMG]iB\/s/m);
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  });

  it('on a worker tells of that machine, also of its clock against the controller', async () => {
    const { stdout } = await runCovey(anna, ['doctor']);
    expect(stdout).toMatch(/^anna\n/);
    expect(stdout).toMatch(/^ {2}ok +Controller +Connected to hall at 127\.0\.0\.1:\d+/m);
    expect(stdout).toMatch(/^ {2}ok +Clock +The clock agrees with the controller's within/m);
    expect(stdout).toMatch(/^ {2}ok +Port \d+ .* ours\./m);
    for (const line of stdout.split('\n'))
      if (!line.includes('/')) expect(line.length).toBeLessThanOrEqual(80);
  });

  it.skipIf(process.platform === 'win32')('finds modes that others could read by', async () => {
    const key = path.join(controller.dataDirectory, 'identity', 'key.pem');
    await chmod(key, 0o644);
    await chmod(controller.dataDirectory, 0o755);
    try {
      const report = await controller.client.call('doctor', { timeoutMs: 120_000 });
      expect(checkOf(report, 'hall', 'data-directory')).toMatchObject({
        status: 'fail',
        summary: expect.stringContaining(`${key} (mode 644)`),
        action: expect.stringContaining(`chmod -R go= '${controller.dataDirectory}'`),
      });
    } finally {
      await chmod(key, 0o600);
      await chmod(controller.dataDirectory, 0o700);
    }
    const report = await controller.client.call('doctor', { timeoutMs: 120_000 });
    expect(checkOf(report, 'hall', 'data-directory').status).toBe('ok');
  });

  it('names a machine that does not answer any more', async () => {
    await late.crash();
    await waitFor(
      'its session to end',
      async () => !(await controller.client.call('node', { params: { node: 'late' } })).connected,
      20_000,
    );
    const report = await controller.client.call('doctor', { timeoutMs: 120_000 });
    expect(checkOf(report, 'late', 'connection')).toMatchObject({
      status: 'fail',
      summary: expect.stringContaining('late has not answered for'),
    });
    expect(report.nodes.find(({ name }) => name === 'late')?.error?.code).toBe('node_not_ready');
    expect(checkOf(report, 'anna', 'inbound').status).toBe('ok');
  });
});

describe('a controller that lends its own machine', () => {
  const cluster = useCluster();

  it('measures from and to itself, too', async () => {
    const controller = await cluster.current.startController({ name: 'hall', args: ['--lend'] });
    await cluster.current.startWorker({ name: 'anna', join: await controller.invite() });
    await waitFor(
      'both to be ready',
      async () => {
        const { nodes } = await controller.client.call('nodes');
        return nodes.length === 2 && nodes.every(({ eligible }) => eligible);
      },
      20_000,
    );
    const report = await controller.client.call('doctor', { timeoutMs: 120_000 });
    expect(report.nodes.map(({ name }) => name)).toEqual(['hall', 'anna']);
    expect(report.pairs.map(({ fromName, toName, error }) => [fromName, toName, error])).toEqual([
      ['hall', 'anna', null],
      ['anna', 'hall', null],
    ]);
    expect(checkOf(report, 'hall', 'graphics').status).not.toBe('fail');
  });
});

describe('a machine on which no node runs', () => {
  const cluster = useCluster();
  let kettle: ChildProcess | null = null;
  afterEach(() => {
    kettle?.kill('SIGKILL');
    kettle = null;
  });

  it('a start on a port that is taken names the program that has it', async () => {
    const port = await freePort();
    kettle = await startKettle(port);
    const start = cluster.current.startController({ cluster: `127.0.0.1:${port}` });
    await expect(start).rejects.toThrow(NodeEnded);
    await expect(start).rejects.toThrow(
      new RegExp(`Port ${port} .* is in use by \\\\?"tea-kettle\\\\?" \\(pid ${kettle.pid}\\)`),
    );
  });

  it('is checked from its data directory: a config that does not read, and who says so', async () => {
    const dataDirectory = path.join(cluster.current.directory, 'idle');
    await mkdir(dataDirectory, { mode: 0o700 });
    await writeFile(path.join(dataDirectory, 'config.json'), '{"discovery":{"enabled":"yes"}}', {
      mode: 0o600,
    });
    const { code, stdout } = await runCovey({ dataDirectory }, ['doctor', '--json']);
    expect(code).toBe(1);
    const report = JSON.parse(stdout);
    expect(report.note).toContain('No covey runs on');
    const settings = report.nodes[0].checks.find((check: DoctorCheck) => check.id === 'settings');
    expect(settings).toMatchObject({ status: 'fail', summary: expect.stringContaining('discovery.enabled') });
  });
});

const missing = netnsMissing();
describe.skipIf(missing)(`a machine of its own${missing ? ` (${missing})` : ''}`, () => {
  const cluster = useCluster();
  let network: Network;
  let kettle: ChildProcess | null = null;
  beforeAll(() => removeLeftoverNetworks());
  afterEach(async () => {
    kettle?.kill('SIGKILL');
    kettle = null;
    await cluster.current.close().catch(() => undefined);
    await network.destroy();
  });
  afterAll(() => removeLeftoverNetworks());

  const hostOf = (name: string) => {
    const found = network.hosts[name];
    if (!found) throw new Error(`no host ${name}`);
    return found;
  };
  const doctorOn = (name: string, dataDirectory: string): { code: number; report: DoctorReport } => {
    const argv = [process.execPath, coveyCommand, 'doctor', '--json', '--data', dataDirectory];
    const { code, stdout } = hostOf(name).run(argv, 120_000);
    return { code, report: JSON.parse(stdout) as DoctorReport };
  };
  const localCheck = ({ nodes }: DoctorReport, id: string): DoctorCheck => {
    const found = nodes[0]?.checks.find((check) => check.id === id);
    if (!found) throw new Error(`no check ${id}`);
    return found;
  };

  it('port 7879 taken by a known program, multicast dropped, and a disk that is full', async () => {
    network = createNetwork(['desk', 'hall']);
    const desk = hostOf('desk');
    const dataDirectory = path.join(cluster.current.directory, 'small');
    await mkdir(dataDirectory, { mode: 0o700 });
    expect(localCheck(doctorOn('desk', dataDirectory).report, 'multicast').status).toBe('ok');

    kettle = await startKettle(7879, desk.prefix);
    desk.firewall(['input ip protocol udp drop']);
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k,mode=0700', 'tmpfs', dataDirectory]);
    try {
      await writeFile(path.join(dataDirectory, 'filler'), Buffer.alloc(128 * 1024), { mode: 0o600 }).catch(
        () => undefined,
      );
      const { code, report } = doctorOn('desk', dataDirectory);
      expect(code).toBe(1);
      expect(localCheck(report, 'port-cluster')).toMatchObject({
        status: 'fail',
        summary: expect.stringMatching(
          /Port 7879, the default for the other machines, is taken by "tea-kettle" \(pid \d+\)/,
        ),
      });
      expect(localCheck(report, 'port-api').status).toBe('ok');
      expect(localCheck(report, 'multicast')).toMatchObject({
        status: 'warn',
        summary: expect.stringContaining('not heard back on eth0'),
      });
      if (mounted.status === 0) {
        expect(localCheck(report, 'disk')).toMatchObject({
          status: 'fail',
          summary: expect.stringContaining('is full'),
        });
      }
    } finally {
      if (mounted.status === 0) spawnSync('umount', [dataDirectory]);
    }
  });

  it('a worker whose firewall lets nobody in is told how to open it, and is reached all the same', async () => {
    network = createNetwork(['hall', 'desk', 'attic']);
    const controller = await cluster.current.startController({ name: 'hall', host: hostOf('hall') });
    hostOf('desk').firewall(['input tcp dport 7879 drop']);
    for (const name of ['desk', 'attic']) {
      await cluster.current.startWorker({ name, host: hostOf(name), join: await controller.invite() });
    }
    await waitFor(
      'both to be connected',
      async () => {
        const { nodes } = await controller.client.call('nodes');
        return nodes.length === 2 && nodes.every(({ connected }) => connected);
      },
      20_000,
    );
    const report = await controller.client.call('doctor', { timeoutMs: 120_000 });
    expect(checkOf(report, 'desk', 'inbound')).toMatchObject({
      status: 'warn',
      summary: expect.stringMatching(/cannot dial desk on 7879.*outbound only, it works through reverse/),
      action: expect.stringContaining('sudo ufw allow 7879/tcp'),
    });
    expect(checkOf(report, 'attic', 'inbound').status).toBe('ok');
    expect(
      report.pairs.map(({ fromName, toName, path: way, error }) => [fromName, toName, way, error]),
    ).toEqual([
      ['desk', 'attic', 'direct', null],
      ['attic', 'desk', 'reverse', null],
    ]);

    hostOf('attic').firewall(['input tcp dport 7879 drop']);
    const closed = await controller.client.call('doctor', { timeoutMs: 120_000 });
    expect(closed.pairs.map(({ fromName, path: way, error }) => [fromName, way, error])).toEqual([
      ['desk', 'relay', null],
      ['attic', 'relay', null],
    ]);
    expect(checkOf(closed, 'hall', 'pairs')).toMatchObject({
      status: 'warn',
      summary: expect.stringContaining('goes through this controller'),
    });
    const { stdout } = await runCovey(controller, ['links']);
    expect(stdout).toMatch(/^desk to attic, not directly: 10\.77\.0\.\d:7879 /m);
    expect((await runCovey(controller, ['events'])).stdout).toContain(
      'attic reaches desk by a relay connection now, before it was reverse.',
    );
  });
});
