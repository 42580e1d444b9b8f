import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { EngineHostInit } from '#shared/host/engine-host.ts';
import { workerFrame, type WorkerFrame } from '#shared/protocol/session.ts';
import { createSessionPair } from '../src-main/nodejs/transport/memory-session.ts';
import type { Grant, Link, Member, PeerSession, Transport } from '../src-main/nodejs/transport/transport.ts';
import { llama, nodeId, rpc } from './agent/fixtures.ts';
import { playedProcessHost, type PlayedHost } from './engines/fixtures.ts';
import { createModelHandlers } from './models/handlers.ts';
import { collectingLogger, fixedWays, handlers, unconcerned } from './runtime/fixtures.ts';
import { testArtifacts } from './artifacts/fixtures.ts';
import { createWorker, type Worker } from './worker.ts';

const controllerId = nodeId('c');
const workerId = nodeId('a');

/** Everything around a worker, played by the test. */
class Stage {
  readonly dataDirectory = mkdtempSync(join(tmpdir(), 'covey-worker-'));
  readonly frames: WorkerFrame[] = [];
  readonly grants = new Map<string, Grant>();
  readonly links: { port: number; lose: (message: string) => void }[] = [];
  readonly played = playedProcessHost();
  readonly log = collectingLogger();
  members: readonly Member[] = [];
  peer: PeerSession | null = null;
  dials = 0;

  readonly transport = {
    clusterAddress: { host: '127.0.0.1', port: 7879 },
    rssBytes: 1_000,
    setMembers: (members: readonly Member[]) => (this.members = members),
    addGrant: (grant: Grant) => this.grants.set(grant.engineId, grant),
    removeGrants: (engineId: string) => this.grants.delete(engineId),
    renewGrants: () => undefined,
    onDialRequest: () => undefined,
    openLink: async (request: { stageEngineId: Link['stageEngineId'] }): Promise<Link> => {
      const port = 5_000 + this.links.length;
      const entry = { port, lose: (_message: string): void => undefined };
      this.links.push(entry);
      return {
        stageEngineId: request.stageEngineId,
        port,
        observe: () => ({
          stageEngineId: request.stageEngineId,
          path: 'direct',
          connected: true,
          sentBytes: 100_000,
          receivedBytes: 0,
          idleMs: 1,
          lastSender: 'leader',
          rttMs: 1,
          bytesPerS: null,
        }),
        onLost: (listener) => {
          entry.lose = (message) =>
            listener(
              Object.assign(new Error(message), { toBody: () => ({ code: 'stage_lost', message }) }) as never,
            );
        },
        close: () => undefined,
      };
    },
    dialSession: async (): Promise<PeerSession> => {
      this.dials += 1;
      const pair = createSessionPair(controllerId, workerId);
      this.peer = pair.atController;
      pair.atController.onMessage((text) => {
        const frame = workerFrame.parse(JSON.parse(text));
        this.frames.push(frame);
        if (frame.type === 'hello') {
          this.say({
            type: 'welcome',
            protocol: 1,
            controllerName: 'hub',
            name: 'alpha',
            heartbeatMs: 50,
            silenceMs: 5_000,
            leaseMs: 900_000,
            at: 0,
          });
        }
        if (frame.type === 'heartbeat') this.say({ type: 'ack', seq: frame.seq, at: 0 });
      });
      return pair.atWorker;
    },
  } as unknown as Transport;

  say(frame: unknown): void {
    this.peer?.send(JSON.stringify(frame));
  }
  assign(generation: number, engines: unknown[], keep: string[] = []): void {
    this.say({ type: 'assignments', generation, engines, keep });
  }
  host(index: number): Promise<PlayedHost> {
    return vi.waitFor(() => {
      // Another host looks at what kernels there are.
      const host = this.played.hosts.filter(({ label }) => label !== 'kernels')[index];
      if (!host) throw new Error(`no host ${index}`);
      return host;
    });
  }
  /** The engine's phase in the newest report. */
  phase(engineId: string): string | undefined {
    return this.observed(engineId)?.phase;
  }
  observed(engineId: string) {
    const report = this.frames.findLast((frame) => frame.type === 'observed');
    return report?.engines.find((engine) => engine.engineId === engineId);
  }
}

let stage: Stage;
let worker: Worker | null = null;
beforeEach(() => {
  stage = new Stage();
});
afterEach(async () => {
  const closing = worker?.close();
  for (const host of stage.played.hosts) host.exit('exited with code 0');
  await closing;
  worker = null;
  rmSync(stage.dataDirectory, { recursive: true, force: true });
});

async function start(
  engine: 'present' | 'missing' = 'present',
  changes: Partial<Parameters<typeof createWorker>[0]> = {},
): Promise<Worker> {
  worker = await createWorker({
    dataDirectory: stage.dataDirectory,
    name: 'alpha',
    version: '0.1.0',
    engine:
      engine === 'present'
        ? { directory: '/no/such/engine', buildId: 'build-1', rpcProtocol: '6.0.0' }
        : { directory: null, reason: 'the engine was not built' },
    processHost: stage.played.processHost,
    transport: stage.transport,
    controller: { kind: 'remote', nodeId: controllerId, ways: fixedWays({ host: '127.0.0.1', port: 1 }) },
    artifacts: await testArtifacts(stage.dataDirectory),
    handlers: handlers({ 'model.list': async () => ({ models: [] }) }),
    ...unconcerned,
    logger: stage.log.logger,
    clock: { now: () => Date.now() },
    ...changes,
  });
  await vi.waitFor(() => expect(worker?.status().connected).toBe(true), { timeout: 15_000 });
  return worker;
}

const ready = (host: PlayedHost, port: number): void => {
  host.say({ type: 'hello' });
  host.say({ type: 'listening', port, pid: 42 });
  host.say({ type: 'phase', phase: 'ready', error: null });
};

describe('worker', () => {
  it('hears what it is called: in the welcome, and with the members when it is renamed', async () => {
    const names: string[] = [];
    await start('present', { onName: (name) => void names.push(name) });
    stage.say({ type: 'members', members: [] });
    stage.say({ type: 'members', name: 'attic', members: [] });
    await vi.waitFor(() => expect(names).toEqual(['alpha', 'attic']));
  });

  it('knows only its controller until it is told of members', async () => {
    await start();
    expect(stage.members.map((member) => [member.nodeId, member.role])).toEqual([
      [controllerId, 'controller'],
    ]);
    const beta = nodeId('b');
    stage.say({ type: 'members', members: [{ nodeId: beta, name: 'beta' }] });
    await vi.waitFor(() =>
      expect(stage.members.map((member) => [member.nodeId, member.role])).toEqual([
        [controllerId, 'controller'],
        [beta, 'worker'],
      ]),
    );
    const hello = stage.frames[0];
    expect(hello).toMatchObject({
      type: 'hello',
      name: 'alpha',
      engine: { buildId: 'build-1' },
      engines: [],
    });
    expect(hello).toMatchObject({ addresses: [{ host: '127.0.0.1', port: 7879 }] });
  });

  it('runs an assigned stage and reports it, grants it, and ends it when it is no longer named', async () => {
    await start();
    const assignment = rpc();
    stage.assign(1, [assignment]);
    const host = await stage.host(0);
    expect(host.sent[0]).toMatchObject({ type: 'init', engineId: assignment.engineId, rpcProtocol: '6.0.0' });
    ready(host, 4_000);
    await vi.waitFor(() => expect(stage.phase(assignment.engineId)).toBe('ready'));
    const endpoint = stage.observed(assignment.engineId)?.endpoint;
    expect(stage.grants.get(assignment.engineId)).toMatchObject({
      token: endpoint?.grant,
      port: 4_000,
      peers: [assignment.clientNodeId],
    });
    expect(stage.log.lines.join('\n')).not.toContain(endpoint?.grant);
    stage.assign(2, []);
    await vi.waitFor(() => expect(host.sent.at(-1)).toMatchObject({ type: 'stop' }));
    expect(stage.grants.size).toBe(0);
    host.say({ type: 'phase', phase: 'stopped', error: null });
    host.exit('exited with code 0');
    await vi.waitFor(() => expect(stage.observed(assignment.engineId)).toBeUndefined());
  });

  it('runs a leader over its links, records its canary, and names the stage that was lost', async () => {
    await start();
    const leader = llama({ stages: 2 });
    stage.assign(1, [leader]);
    const host = await stage.host(0);
    const init = host.sent[0] as EngineHostInit;
    expect(init.program).toMatchObject({ kind: 'llama', rpcEndpoints: ['127.0.0.1:5000', '127.0.0.1:5001'] });
    host.say({ type: 'phase', phase: 'loading', error: null });
    await vi.waitFor(
      () =>
        expect(stage.observed(leader.engineId)?.progress).toMatchObject({ doneBytes: 200_000, percent: 20 }),
      { timeout: 3_000 },
    );
    host.say({ type: 'listening', port: 6_000, pid: 43 });
    host.say({ type: 'phase', phase: 'canary', error: null });
    host.say({ type: 'canary', tokenIds: [7, 8], firstMargin: 1 });
    host.say({ type: 'phase', phase: 'ready', error: null });
    await vi.waitFor(() => expect(stage.phase(leader.engineId)).toBe('ready'));
    expect(stage.grants.get(leader.engineId)).toMatchObject({ alpn: 'http', peers: [controllerId] });
    expect(readFileSync(join(stage.dataDirectory, 'journal', 'canary.json'), 'utf8')).toContain(
      'hash-of-tiny',
    );
    stage.links[1]?.lose('the stage closed the stream');
    await vi.waitFor(() => expect(stage.phase(leader.engineId)).toBe('failed'));
    expect(stage.observed(leader.engineId)?.error).toMatchObject({ code: 'stage_lost' });
    expect(stage.observed(leader.engineId)?.error?.message).toContain('machine-2');
    expect(host.sent.at(-1)).toEqual({ type: 'stop', graceMs: 0 });
  });

  it('keeps its engines through a lost session and shows them in the next hello', async () => {
    const running = await start();
    const assignment = rpc();
    stage.assign(1, [assignment]);
    ready(await stage.host(0), 4_000);
    await vi.waitFor(() => expect(stage.phase(assignment.engineId)).toBe('ready'));
    stage.peer?.close();
    await vi.waitFor(() => expect(stage.dials).toBe(2), { timeout: 5_000 });
    await vi.waitFor(() => expect(running.status().connected).toBe(true));
    const hello = stage.frames.findLast((frame) => frame.type === 'hello');
    expect(hello?.engines).toMatchObject([{ engineId: assignment.engineId, phase: 'ready' }]);
    expect(stage.played.hosts.filter(({ label }) => label !== 'kernels')).toHaveLength(1);
    expect(stage.grants.size).toBe(1);
  });

  it('answers requests, sends telemetry with its problems, and forwards its log', async () => {
    await start('missing');
    stage.say({ type: 'request', id: 9, method: 'model.list', params: {}, deadlineMs: 1_000 });
    await vi.waitFor(() =>
      expect(stage.frames.find((frame) => frame.type === 'response')).toMatchObject({
        id: 9,
        result: { ok: true, value: { models: [] } },
      }),
    );
    const beat = await vi.waitFor(() => {
      const frame = stage.frames.findLast((candidate) => candidate.type === 'heartbeat');
      if (!frame) throw new Error('no heartbeat');
      return frame;
    });
    expect(beat.problems).toEqual(['the engine was not built']);
    expect(beat.telemetry.ownRssBytes).toBeGreaterThan(1_000);
    const assignment = rpc();
    stage.assign(1, [assignment]);
    await vi.waitFor(() => expect(stage.observed(assignment.engineId)).toMatchObject({ phase: 'failed' }));
    expect(stage.observed(assignment.engineId)?.error).toMatchObject({ code: 'engine_directory_missing' });
    await vi.waitFor(
      () => expect(stage.frames.some((frame) => frame.type === 'log' && frame.lines.length > 0)).toBe(true),
      { timeout: 3_000 },
    );
  });

  it('refuses a path as long as one may be in words that the session lets through', async () => {
    const { dataDirectory, log } = stage;
    const models = await createModelHandlers({ dataDirectory, logger: log.logger, environment: {} });
    await start('present', { handlers: handlers(models) });
    const path = `/${'b'.repeat(4_090)}.gguf`;
    const requests = { 'model.import': { path }, 'model.resolve': { model: path } };
    Object.entries(requests).forEach(([method, params], index) =>
      stage.say({ type: 'request', id: index + 1, method, params, deadlineMs: 5_000 }),
    );
    // The controller's side parses every frame.
    const answers = await vi.waitFor(() => {
      const found = stage.frames.filter((frame) => frame.type === 'response');
      expect(found).toHaveLength(2);
      return found;
    });
    for (const { result } of answers) {
      expect(result).toMatchObject({ ok: false, error: { code: expect.stringMatching(/^model_file_/) } });
    }
    expect([worker?.status().connected, stage.dials]).toEqual([true, 1]);
  });

  it('says goodbye and ends its engines when it closes', async () => {
    const running = await start();
    stage.assign(1, [rpc()]);
    const host = await stage.host(0);
    const closed = running.close();
    await vi.waitFor(() => expect(host.sent.at(-1)).toMatchObject({ type: 'stop', graceMs: 5_000 }));
    host.exit('exited with code 0');
    await closed;
    await vi.waitFor(() => expect(stage.frames.at(-1)).toMatchObject({ type: 'goodbye' }));
    expect(running.status()).toMatchObject({ connected: false, engines: [{ phase: 'stopped' }] });
  });
});
