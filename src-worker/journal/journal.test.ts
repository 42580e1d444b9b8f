import { spawn, type ChildProcess } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { EngineId } from '#shared/lib/ids.ts';
import { collectingLogger } from '../runtime/fixtures.ts';
import { openCanaryRecords } from './canary-records.ts';
import { forgetEngine, recordEngine, recordPath } from './engine-record.ts';
import { journalledHosts } from './journalled-hosts.ts';
import { identifyProcess } from './process-identity.ts';
import { sweepEngines } from './sweep.ts';

const engineId = 'd-00000001.1.0' as EngineId;
let journal: string;
const children: ChildProcess[] = [];
beforeEach(() => {
  journal = join(mkdtempSync(join(tmpdir(), 'covey-journal-')), 'journal');
});
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  rmSync(join(journal, '..'), { recursive: true, force: true });
});

async function sleeper(): Promise<ChildProcess & { pid: number }> {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000); console.log(1)'], {
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  });
  children.push(child);
  await new Promise((resolve) => child.stdout.once('data', resolve));
  return child as unknown as ChildProcess & { pid: number };
}

const gone = (child: ChildProcess): Promise<void> =>
  new Promise((resolve) =>
    child.exitCode === null && child.signalCode === null ? child.once('exit', () => resolve()) : resolve(),
  );

describe.runIf(process.platform === 'linux')('the journal of engines', () => {
  it('ends what outlived its run, and forgets it', async () => {
    const child = await sleeper();
    await recordEngine(journal, engineId, { pid: child.pid, executable: process.execPath });
    expect(statSync(recordPath(journal, engineId)).mode & 0o777).toBe(0o600);
    const ended = gone(child);
    const { logger, lines } = collectingLogger();
    await sweepEngines(journal, logger);
    await ended;
    expect(child.signalCode).toBe('SIGKILL');
    expect(existsSync(recordPath(journal, engineId))).toBe(false);
    expect(lines.join('\n')).toContain(engineId);
  });

  it('leaves alone what was noted in the journal that this is a copy of', async () => {
    const child = await sleeper();
    await recordEngine(journal, engineId, { pid: child.pid, executable: process.execPath });
    const copy = join(journal, '..', 'copy');
    cpSync(journal, copy, { recursive: true });
    await sweepEngines(copy, collectingLogger().logger);
    expect(existsSync(recordPath(copy, engineId))).toBe(false);
    expect(child.signalCode).toBeNull();
    const ended = gone(child);
    await sweepEngines(journal, collectingLogger().logger);
    await ended;
  });

  it('has processes in which tasks run while they are there', async () => {
    const child = await sleeper();
    const exited: (() => void)[] = [];
    const hosts = journalledHosts(
      {
        fork: () => ({
          pid: child.pid,
          send: () => undefined,
          onMessage: () => undefined,
          onExit: (listener) => exited.push(() => listener({ code: 0, signal: null, detail: '' })),
          kill: () => undefined,
        }),
      },
      journal,
    );
    hosts.fork('task-runner', { label: 'tasks' });
    const path = recordPath(journal, `task-runner-${child.pid}`);
    await vi.waitFor(() => expect(readFileSync(path, 'utf8')).toContain(String(child.pid)));
    child.kill('SIGSTOP');
    const ended = gone(child);
    await sweepEngines(journal, collectingLogger().logger);
    await ended;
    hosts.fork('task-runner', { label: 'tasks' });
    for (const exit of exited) exit();
    await vi.waitFor(() => expect(existsSync(path)).toBe(false));
  });

  it('has processes whose number is known only when they run', async () => {
    const child = await sleeper();
    const known: { pid?: number } = {};
    const messages: ((message: unknown) => void)[] = [];
    const hosts = journalledHosts(
      {
        fork: () => ({
          get pid() {
            return known.pid;
          },
          send: () => undefined,
          onMessage: (listener) => messages.push(listener),
          onExit: () => undefined,
          kill: () => undefined,
        }),
      },
      journal,
    );
    hosts.fork('transport-host', { label: 'transport' });
    known.pid = child.pid;
    for (const say of [...messages, ...messages]) say({ type: 'ready' });
    const path = recordPath(journal, `transport-host-${child.pid}`);
    await vi.waitFor(() => expect(readFileSync(path, 'utf8')).toContain(process.execPath));
  });

  it.each([
    ['started at another time', { startedAt: '1' }],
    ['of another program', { executable: '/usr/bin/other' }],
  ])('leaves a process alone that has the number but was %s', async (_case, change) => {
    const child = await sleeper();
    await recordEngine(journal, engineId, { pid: child.pid, executable: process.execPath });
    const path = recordPath(journal, engineId);
    writeFileSync(path, JSON.stringify({ ...(JSON.parse(readFileSync(path, 'utf8')) as object), ...change }));
    await sweepEngines(journal, collectingLogger().logger);
    expect(await identifyProcess(child.pid)).not.toBeNull();
    expect(existsSync(path)).toBe(false);
  });

  it('bears missing, damaged and outdated records', async () => {
    await sweepEngines(journal, collectingLogger().logger);
    mkdirSync(join(journal, 'engines'), { recursive: true });
    writeFileSync(join(journal, 'engines', 'd-00000001.1.0.json'), '{"pid":');
    writeFileSync(
      join(journal, 'engines', 'd-00000001.1.1.json'),
      '{"pid":-1,"startedAt":"1","executable":"x"}',
    );
    await sweepEngines(journal, collectingLogger().logger);
    expect(existsSync(join(journal, 'engines', 'd-00000001.1.0.json'))).toBe(false);
    forgetEngine(journal, engineId);
  });

  it('knows who runs and who does not', async () => {
    expect(await identifyProcess(process.pid)).toMatchObject({ executable: process.execPath });
    expect(await identifyProcess(2 ** 22 + 1)).toBeNull();
  });
});

describe('canary records', () => {
  it('survive a restart, and a damaged file counts as empty', () => {
    const first = openCanaryRecords(journal);
    expect(first.get('h')).toBeNull();
    first.set('h', { token: 5, margin: 1.5 });
    expect(openCanaryRecords(journal).get('h')).toEqual({ token: 5, margin: 1.5 });
    writeFileSync(join(journal, 'canary.json'), '{"version":1,"records":[["h"');
    expect(openCanaryRecords(journal).get('h')).toBeNull();
  });

  it('stay bounded', () => {
    const records = openCanaryRecords(journal);
    for (let index = 0; index < 520; index += 1) records.set(`h${index}`, { token: index, margin: 1 });
    const again = openCanaryRecords(journal);
    expect(again.get('h0')).toBeNull();
    expect(again.get('h519')).toEqual({ token: 519, margin: 1 });
  });
});
