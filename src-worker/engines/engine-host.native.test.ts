import { fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { EngineHostInit } from '#shared/host/engine-host.ts';
import { engineId, type DeploymentId, type EngineId } from '#shared/lib/ids.ts';
import type { ErrorBody } from '#shared/errors.ts';
import { entries } from '../../src-main/nodejs/entries.ts';
import { createChildProcessHost } from '../../src-main/nodejs/process-host/child-process-host.ts';
import type { HostProcess, ProcessHost } from '../../src-main/nodejs/process-host/process-host.ts';
import { recordPath } from '../journal/engine-record.ts';
import { identifyProcess } from '../journal/process-identity.ts';
import { collectingLogger } from '../runtime/fixtures.ts';
import type { WorkerEngine } from '../worker-engine.ts';
import { createEngineSupervisor, type EngineSupervisor, type ToldEvent } from './engine-supervisor.ts';
import { loopbackRequest } from './llama/loopback-http.ts';
import { generatePredictableModel, predictText } from '../models/predictable.ts';
import { testEngine } from './test-engine.ts';

const deploymentId = 'd-00000001' as DeploymentId;
const leader = engineId(deploymentId, 1, 0);
const apiKey = randomBytes(32).toString('hex');
let engine: Extract<WorkerEngine, { directory: string }>;
let models: string;
let model: string;
beforeAll(async () => {
  engine = await testEngine();
  models = mkdtempSync(join(tmpdir(), 'covey-model-'));
  model = join(models, 'story.gguf');
  await generatePredictableModel({ path: model });
});
afterAll(() => rmSync(models, { recursive: true, force: true }));

/** The hosts of one test with everything they said. */
class Machine {
  readonly directory = mkdtempSync(join(tmpdir(), 'covey-engines-'));
  readonly journal = join(this.directory, 'journal');
  readonly told = new Map<EngineId, ToldEvent[]>();
  readonly ended = new Map<EngineId, ErrorBody | null>();
  readonly hosts: HostProcess[] = [];
  readonly log = collectingLogger();
  private readonly proxies: Proxy[] = [];
  readonly supervisor: EngineSupervisor;

  constructor() {
    const real = createChildProcessHost(entries);
    const processHost: ProcessHost = {
      fork: (entry, options) => {
        const host = real.fork(entry, options);
        this.hosts.push(host);
        return host;
      },
    };
    this.supervisor = createEngineSupervisor({
      processHost,
      logger: this.log.logger,
      journalDirectory: this.journal,
      onEvent: (event) => {
        if (event.type === 'ended') this.ended.set(event.engineId, event.error);
        else this.told.set(event.engineId, [...(this.told.get(event.engineId) ?? []), event.event]);
      },
    });
  }

  start(id: EngineId, program: EngineHostInit['program']): void {
    this.supervisor.start({
      type: 'init',
      engineId: id,
      deploymentId,
      engineDirectory: engine.directory,
      rpcProtocol: engine.rpcProtocol,
      journalDirectory: this.journal,
      program,
    });
  }

  async startStage(index: number): Promise<{ id: EngineId; port: number; pid: number }> {
    const id = engineId(deploymentId, 1, index);
    this.start(id, { kind: 'rpc', device: 'CPU', threads: 1, startMs: 30_000 });
    await this.until(id, 'ready');
    const listening = this.find(id, 'listening');
    if (!listening) throw new Error('ready without a port');
    return { id, port: listening.port, pid: listening.pid };
  }

  startLeader(options: Partial<Extract<EngineHostInit['program'], { kind: 'llama' }>> = {}): void {
    const stages = options.rpcEndpoints?.length ?? 0;
    this.start(leader, {
      kind: 'llama',
      modelPath: model,
      modelName: 'tiny',
      modelBytes: statSync(model).size,
      apiKey,
      contextPerRequest: 256,
      parallel: 2,
      gpuLayers: stages > 0 ? 99 : 0,
      localDevices: [],
      tensorSplit: Array.from({ length: stages }, () => 1),
      rpcEndpoints: [],
      threads: 1,
      poll: 0,
      batch: 512,
      loadStallMs: 30_000,
      canaryMs: 30_000,
      ...options,
    });
  }

  find<T extends ToldEvent['type']>(id: EngineId, type: T): Extract<ToldEvent, { type: T }> | undefined {
    return this.told
      .get(id)
      ?.findLast((event): event is Extract<ToldEvent, { type: T }> => event.type === type);
  }

  /** Waits for a phase; an end before it is an error that says why. */
  async until(id: EngineId, phase: 'loading' | 'ready' | 'ended', timeout = 30_000): Promise<void> {
    await vi.waitFor(
      () => {
        const end = this.ended.get(id);
        if (phase === 'ended') {
          if (end === undefined) throw new Error('still running');
          return;
        }
        if (end !== undefined) throw new Error(`ended: ${JSON.stringify(end)}`);
        const reached = this.told.get(id)?.some((event) => event.type === 'phase' && event.phase === phase);
        if (!reached) throw new Error(`not ${phase} yet`);
      },
      { timeout, interval: 20 },
    );
  }

  /** A plain loopback link to a port, as tunnels are on the leader's side. */
  async link(port: number): Promise<Proxy> {
    const proxy = await openProxy(port);
    this.proxies.push(proxy);
    return proxy;
  }

  complete(prompt: string, tokens: number): Promise<{ content: string }> {
    const port = this.find(leader, 'listening')?.port ?? 0;
    return loopbackRequest({
      port,
      path: '/completion',
      apiKey,
      body: { prompt, n_predict: tokens, temperature: 0, cache_prompt: false },
      timeoutMs: 30_000,
    }).then((answer) => JSON.parse(answer.text) as { content: string });
  }

  async close(): Promise<void> {
    await this.supervisor.close(2_000);
    for (const proxy of this.proxies) proxy.close();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

interface Proxy {
  readonly endpoint: string;
  /** Bytes that went to the stage. */
  sentBytes(): number;
  /** Passes on nothing more, and keeps the connections. */
  stall(): void;
  close(): void;
}

async function openProxy(target: number): Promise<Proxy> {
  const sockets = new Set<Socket>();
  let sent = 0;
  let stalled = false;
  const server: Server = createServer((client) => {
    const stage = connect({ host: '127.0.0.1', port: target });
    for (const socket of [client, stage]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => undefined);
    }
    client.on('data', (chunk) => {
      if (stalled) return;
      sent += chunk.byteLength;
      stage.write(chunk);
    });
    stage.on('data', (chunk) => client.write(chunk));
    client.on('close', () => stage.destroy());
    stage.on('close', () => client.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    endpoint: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    sentBytes: () => sent,
    stall: () => (stalled = true),
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

const gone = (pid: number, timeout: number): Promise<void> =>
  vi.waitFor(async () => expect(await identifyProcess(pid)).toBeNull(), { timeout, interval: 20 });

let machine: Machine;
beforeEach(() => {
  machine = new Machine();
});
afterEach(() => machine.close());

describe('a stage', () => {
  it('answers the greeting, is journalled, and leaves nothing behind when it is stopped', async () => {
    const stage = await machine.startStage(1);
    const record = JSON.parse(readFileSync(recordPath(machine.journal, stage.id), 'utf8')) as object;
    expect(record).toMatchObject((await identifyProcess(stage.pid)) ?? { missing: true });
    machine.supervisor.stop(stage.id, 2_000);
    await machine.until(stage.id, 'ended', 3_000);
    expect(machine.ended.get(stage.id)).toBeNull();
    await gone(stage.pid, 100);
    expect(existsSync(recordPath(machine.journal, stage.id))).toBe(false);
    await expect(openAndClose(stage.port)).rejects.toThrow();
  });

  it('on a device that does not exist fails and says so', async () => {
    const id = engineId(deploymentId, 1, 1);
    machine.start(id, { kind: 'rpc', device: 'CUDA7', threads: 1, startMs: 30_000 });
    await machine.until(id, 'ended');
    expect(machine.ended.get(id)).toMatchObject({ code: 'engine_start_failed' });
    expect(machine.ended.get(id)?.message).toContain('CUDA7');
  });

  it('that is killed is reported as crashed', async () => {
    const stage = await machine.startStage(1);
    process.kill(stage.pid, 'SIGKILL');
    await machine.until(stage.id, 'ended', 2_000);
    expect(machine.ended.get(stage.id)).toMatchObject({ code: 'engine_crashed' });
  });

  it('that is stopped by a signal shows as suspended, and can still be ended', async () => {
    const stage = await machine.startStage(1);
    process.kill(stage.pid, 'SIGSTOP');
    await vi.waitFor(() => expect(machine.find(stage.id, 'beat')?.suspended).toBe(true), { timeout: 5_000 });
    machine.supervisor.stop(stage.id, 1_000);
    await machine.until(stage.id, 'ended', 4_000);
    await gone(stage.pid, 100);
  });

  it('goes within a second when its host is killed', async () => {
    const first = await machine.startStage(1);
    process.kill(machine.hosts[0]?.pid ?? 0, 'SIGKILL');
    await gone(first.pid, 1_000);
    await machine.until(first.id, 'ended', 2_000);
    expect(machine.ended.get(first.id)).toMatchObject({ code: 'engine_crashed' });
    expect(existsSync(recordPath(machine.journal, first.id))).toBe(false);
  });
});

it('a host whose parent has gone ends its engine and itself', async () => {
  const host = fork(entries['engine-host'], ['orphan'], {
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const listening = new Promise<number>((resolve) =>
    host.on('message', (message: ToldEvent) => {
      if (message.type === 'listening') resolve(message.pid);
    }),
  );
  const exited = new Promise((resolve) => host.once('exit', resolve));
  host.send({
    type: 'init',
    engineId: engineId(deploymentId, 1, 1),
    deploymentId,
    engineDirectory: engine.directory,
    rpcProtocol: engine.rpcProtocol,
    journalDirectory: machine.journal,
    program: { kind: 'rpc', device: 'CPU', threads: 1, startMs: 30_000 },
  } satisfies EngineHostInit);
  const pid = await listening;
  host.disconnect();
  await gone(pid, 1_000);
  await exited;
});

const openAndClose = (port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port }, () => {
      socket.destroy();
      resolve();
    });
    socket.on('error', reject);
  });

describe('a leader', () => {
  it('split over two stages answers as one process alone does, and reports its load in order', async () => {
    machine.startLeader();
    await machine.until(leader, 'ready');
    const alone = machine.find(leader, 'canary');
    await machine.close();

    machine = new Machine();
    const [first, second] = [await machine.startStage(1), await machine.startStage(2)];
    const links = [await machine.link(first.port), await machine.link(second.port)];
    machine.startLeader({ rpcEndpoints: links.map((link) => link.endpoint), tensorSplit: [2, 1] });
    await machine.until(leader, 'ready');
    const prompt = 'Ben came';
    expect(await machine.complete(prompt, 60)).toMatchObject({ content: predictText(prompt, 60) });
    expect(machine.find(leader, 'canary')?.tokenIds).toEqual(alone?.tokenIds);
    expect(machine.find(leader, 'canary')?.tokenIds).toHaveLength(8);
    expect(machine.find(leader, 'canary')?.firstMargin).toBeGreaterThan(0);
    // Both stages got weights, in the order and share that was asked for.
    expect(links[0]?.sentBytes()).toBeGreaterThan((links[1]?.sentBytes() ?? 0) * 1.1);
    expect(links[1]?.sentBytes()).toBeGreaterThan(100_000);

    const events = machine.told.get(leader) ?? [];
    const phases = events.flatMap((event) => (event.type === 'phase' ? [event.phase] : []));
    expect(phases).toEqual(['loading', 'canary', 'ready']);
    const percents = events.flatMap((event) =>
      event.type === 'progress' ? [event.progress.percent ?? -1] : [],
    );
    expect(percents.at(-1)).toBe(100);
    expect(percents).toEqual([...percents].sort((a, b) => a - b));

    machine.supervisor.stop(leader, 5_000);
    await machine.until(leader, 'ended', 3_000);
    expect(machine.ended.get(leader)).toBeNull();
  });

  it('is not reached without its key, nor is the key seen in its arguments', async () => {
    machine.startLeader();
    await machine.until(leader, 'ready');
    const { port, pid } = machine.find(leader, 'listening') ?? { port: 0, pid: 0 };
    const refused = await loopbackRequest({ port, path: '/v1/models/x', apiKey: 'wrong', timeoutMs: 2_000 });
    expect(refused.status).toBe(401);
    if (process.platform === 'linux') {
      expect(readFileSync(`/proc/${pid}/cmdline`, 'latin1')).not.toContain(apiKey);
    }
    expect(machine.log.lines.join('\n')).not.toContain(apiKey);
  });

  it('counts the slots that compute', async () => {
    machine.startLeader({ contextPerRequest: 2_048 });
    await machine.until(leader, 'ready');
    await vi.waitFor(
      () => expect(machine.find(leader, 'beat')).toMatchObject({ busySlots: 0, suspended: false }),
      {
        timeout: 5_000,
      },
    );
    const answers = [machine.complete('Lily', 1_900), machine.complete('Tom', 1_900)];
    await vi.waitFor(
      () =>
        expect(
          machine.told.get(leader)?.some((event) => event.type === 'beat' && event.busySlots === 2),
        ).toBe(true),
      { timeout: 20_000, interval: 50 },
    );
    await Promise.all(answers);
    await vi.waitFor(() => expect(machine.find(leader, 'beat')?.busySlots).toBe(0), { timeout: 5_000 });
    expect(machine.find(leader, 'beat')?.cpuMs).toBeGreaterThan(0);
  });

  it('whose stage is killed ends, and says that a stage broke off', async () => {
    const stage = await machine.startStage(1);
    const link = await machine.link(stage.port);
    machine.startLeader({ rpcEndpoints: [link.endpoint], contextPerRequest: 2_048 });
    await machine.until(leader, 'ready');
    const cut = machine.complete('Lily', 1_900).catch(() => 'cut');
    await vi.waitFor(() => expect(machine.find(leader, 'beat')?.busySlots).toBe(1), {
      timeout: 5_000,
      interval: 20,
    });
    process.kill(stage.pid, 'SIGKILL');
    await machine.until(leader, 'ended', 3_000);
    expect(machine.ended.get(leader)).toMatchObject({ code: 'stage_lost' });
    expect(await cut).toBe('cut');
  });

  it('whose host is killed while it loads is gone within a second', async () => {
    const stage = await machine.startStage(1);
    const link = await machine.link(stage.port);
    link.stall();
    machine.startLeader({ rpcEndpoints: [link.endpoint] });
    await machine.until(leader, 'loading');
    const pid = await vi.waitFor(() => {
      const beat = machine.find(leader, 'beat');
      if (!beat) throw new Error('no beat yet');
      return beat.pid;
    }, 5_000);
    process.kill(machine.hosts[1]?.pid ?? 0, 'SIGKILL');
    await gone(pid, 1_000);
  });

  it('told to stop while it loads ends at once', async () => {
    const stage = await machine.startStage(1);
    const link = await machine.link(stage.port);
    link.stall();
    machine.startLeader({ rpcEndpoints: [link.endpoint] });
    await machine.until(leader, 'loading');
    machine.supervisor.stop(leader, 5_000);
    await machine.until(leader, 'ended', 2_000);
    expect(machine.ended.get(leader)).toBeNull();
  });

  it('whose load stands still is ended with that reason', async () => {
    const stage = await machine.startStage(1);
    const link = await machine.link(stage.port);
    link.stall();
    machine.startLeader({ rpcEndpoints: [link.endpoint], loadStallMs: 2_000 });
    await machine.until(leader, 'ended', 10_000);
    expect(machine.ended.get(leader)).toMatchObject({ code: 'engine_timeout' });
    expect(machine.ended.get(leader)?.message).toContain('no progress for 2 s');
  });

  it.each([
    [
      'cut in its weights',
      (bytes: Buffer) => bytes.subarray(0, 3_000_000),
      'engine_load_failed',
      'damaged or incomplete',
    ],
    [
      'cut in its header',
      (bytes: Buffer) => bytes.subarray(0, 3_000),
      'engine_load_failed',
      'damaged or incomplete',
    ],
    [
      'that is text',
      () => Buffer.from('These are not the weights.'),
      'engine_load_failed',
      'damaged or incomplete',
    ],
    ['that is empty', () => Buffer.alloc(0), 'engine_load_failed', 'damaged or incomplete'],
    ['that is not there', null, 'engine_load_failed', 'could not be opened'],
  ])('with a model %s fails with that reason in one sentence', async (_case, change, code, words) => {
    const path = join(machine.directory, 'model.gguf');
    if (change) writeFileSync(path, change(readFileSync(model)));
    machine.startLeader({ modelPath: path });
    await machine.until(leader, 'ended', 10_000);
    expect(machine.ended.get(leader)).toMatchObject({ code });
    expect(machine.ended.get(leader)?.message).toContain(words);
    expect(machine.ended.get(leader)?.message).not.toContain('\n');
  });

  it('with a context that no memory can hold says so', async () => {
    const stage = await machine.startStage(1);
    machine.startLeader({
      rpcEndpoints: [`127.0.0.1:${stage.port}`],
      contextPerRequest: 100_000_000,
      parallel: 1,
    });
    await machine.until(leader, 'ended', 60_000);
    expect(machine.ended.get(leader)).toMatchObject({ code: 'engine_out_of_memory' });
  });

  it('from a directory without programs fails to start', async () => {
    const id = engineId(deploymentId, 2, 0);
    machine.supervisor.start({
      type: 'init',
      engineId: id,
      deploymentId,
      engineDirectory: machine.directory,
      rpcProtocol: engine.rpcProtocol,
      journalDirectory: machine.journal,
      program: { kind: 'rpc', device: 'CPU', threads: 1, startMs: 30_000 },
    });
    await machine.until(id, 'ended', 5_000);
    expect(machine.ended.get(id)).toMatchObject({ code: 'engine_start_failed' });
  });
});
