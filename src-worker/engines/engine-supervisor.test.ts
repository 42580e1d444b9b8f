import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { EngineHostInit } from '#shared/host/engine-host.ts';
import type { DeploymentId, EngineId } from '#shared/lib/ids.ts';
import type { ProcessHost } from '../../src-main/nodejs/process-host/process-host.ts';
import { collectingLogger } from '../runtime/fixtures.ts';
import { playedProcessHost, type PlayedHost } from './fixtures.ts';
import { createEngineSupervisor, type EngineSupervisor, type SupervisedEvent } from './engine-supervisor.ts';

const engineId = 'd-00000001.1.1' as EngineId;
let journalDirectory: string;
let supervisor: EngineSupervisor;
let events: SupervisedEvent[];
let children: PlayedHost[];
let processHost: ProcessHost;
let lines: string[];

const init = (): EngineHostInit => ({
  type: 'init',
  engineId,
  deploymentId: 'd-00000001' as DeploymentId,
  engineDirectory: '/engine',
  rpcProtocol: '6.0.0',
  journalDirectory,
  program: { kind: 'rpc', device: 'CPU', threads: 1, startMs: 30_000 },
});

beforeEach(() => {
  journalDirectory = mkdtempSync(join(tmpdir(), 'covey-supervisor-'));
  events = [];
  const played = playedProcessHost();
  processHost = played.processHost;
  children = played.hosts;
  const collected = collectingLogger();
  lines = collected.lines;
  supervisor = createEngineSupervisor({
    processHost,
    logger: collected.logger,
    journalDirectory,
    onEvent: (event) => events.push(event),
  });
});
afterEach(async () => {
  await supervisor.close(0);
  vi.useRealTimers();
  rmSync(journalDirectory, { recursive: true, force: true });
});

const child = (): PlayedHost => children[0] as PlayedHost;

describe('engine supervisor', () => {
  it('starts a host once, passes its messages on, and keeps its chatter to the log', () => {
    supervisor.start(init());
    supervisor.start(init());
    expect(children).toHaveLength(1);
    expect(child().sent).toEqual([init()]);
    child().say({ type: 'hello' });
    child().say({ type: 'log', level: 'info', message: 'loading' });
    child().say({ type: 'listening', port: 5, pid: 6 });
    child().say({ type: 'phase', phase: 'nonsense', error: null });
    expect(events).toEqual([{ type: 'told', engineId, event: { type: 'listening', port: 5, pid: 6 } }]);
    expect(lines.some((line) => line.startsWith('debug loading'))).toBe(true);
    expect(lines.some((line) => line.startsWith('warn the engine host sent something unexpected'))).toBe(
      true,
    );
  });

  it('reports the end with the reason that the host gave', async () => {
    supervisor.start(init());
    const error = { code: 'engine_load_failed', message: 'damaged' };
    child().say({ type: 'phase', phase: 'failed', error });
    expect(events).toEqual([]);
    child().exit('exited with code 0');
    await vi.waitFor(() => expect(events).toEqual([{ type: 'ended', engineId, error }]));
  });

  it('takes a host that vanishes for a crash, unless it was told to stop', async () => {
    supervisor.start(init());
    child().exit('killed by SIGSEGV');
    await vi.waitFor(() => expect(events).toHaveLength(1));
    expect(events[0]).toMatchObject({
      error: { code: 'engine_crashed', message: 'the engine host killed by SIGSEGV' },
    });

    supervisor.start(init());
    supervisor.stop(engineId, 100);
    children[1]?.exit('exited with code 0');
    await vi.waitFor(() => expect(events).toHaveLength(2));
    expect(events[1]).toMatchObject({ error: null });
  });

  it('ends a host that does not stop in time, and one that fell silent', async () => {
    vi.useFakeTimers();
    supervisor = createEngineSupervisor({
      processHost,
      logger: collectingLogger().logger,
      journalDirectory,
      onEvent: (event) => events.push(event),
    });
    supervisor.start(init());
    supervisor.stop(engineId, 1_000);
    expect(child().sent.at(-1)).toEqual({ type: 'stop', graceMs: 1_000 });
    await vi.advanceTimersByTimeAsync(2_900);
    expect(child().killed).toBe(false);
    await vi.advanceTimersByTimeAsync(200);
    expect(child().killed).toBe(true);

    supervisor.start(init());
    const hanging = children[1] as PlayedHost;
    await vi.advanceTimersByTimeAsync(20_000);
    hanging.say({ type: 'beat', pid: 1, rssBytes: 1, cpuMs: 1, suspended: false, busySlots: null });
    await vi.advanceTimersByTimeAsync(20_000);
    expect(hanging.killed).toBe(false);
    await vi.advanceTimersByTimeAsync(15_000);
    expect(hanging.killed).toBe(true);
    expect(events.at(-1)).toMatchObject({ type: 'ended', error: { code: 'engine_crashed' } });
  });

  it('reports a host that cannot be forked', () => {
    const broken = createEngineSupervisor({
      processHost: {
        fork: () => {
          throw new Error('EAGAIN');
        },
      },
      logger: collectingLogger().logger,
      journalDirectory,
      onEvent: (event) => events.push(event),
    });
    broken.start(init());
    expect(events).toMatchObject([{ type: 'ended', error: { code: 'engine_start_failed' } }]);
  });

  it('close ends every host', async () => {
    supervisor.start(init());
    const closed = supervisor.close(10);
    expect(child().sent.at(-1)).toEqual({ type: 'stop', graceMs: 10 });
    child().exit('exited with code 0');
    await closed;
    expect(events).toMatchObject([{ type: 'ended', error: null }]);
  });
});
