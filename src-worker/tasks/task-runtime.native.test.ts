import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { connect } from 'node:net';
import { getPriority, networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { lendRulesSchema, type LendRules, type LendState } from '#shared/domain/lend.ts';
import type { TaskAssignment, TaskReport, Work } from '#shared/domain/task.ts';
import type { JobId, NodeId } from '#shared/lib/ids.ts';
import { engineDirectory } from '../../e2e/support/checkout.ts';
import { entries } from '../../src-main/nodejs/entries.ts';
import { createChildProcessHost } from '../../src-main/nodejs/process-host/child-process-host.ts';
import type { HostProcess } from '../../src-main/nodejs/process-host/process-host.ts';
import { assignment, commandWork, id, jobId } from '../agent/tasks/fixtures.ts';
import { collectingLogger } from '../runtime/fixtures.ts';
import { plainCache, type PlainCache } from './fixtures.ts';
import { createTaskRuntime, type TaskRuntime } from './task-runtime.ts';

let directory: string;
let cache: PlainCache;
let reports: TaskReport[];
let rules: LendRules;
let lendState: LendState;
let tellLend: () => void;
let runtime: TaskRuntime;
let children: { entry: string; process: HostProcess }[];
let gateway: Server;
let answers: (body: Record<string, unknown>) => { status: number; body: unknown };

const allowed = lendRulesSchema.parse({ kinds: { commands: true } });

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'covey-tasks-'));
  cache = plainCache(join(directory, 'artifacts'));
  reports = [];
  children = [];
  rules = allowed;
  lendState = { lending: true, since: 0, heldBackBy: [], unavailable: [] };
  answers = () => ({ status: 200, body: {} });
  gateway = createServer((request, response) => {
    let text = '';
    request.on('data', (piece: Buffer) => (text += piece.toString()));
    request.on('end', () => {
      const answer = answers(JSON.parse(text) as Record<string, unknown>);
      response.writeHead(answer.status).end(JSON.stringify(answer.body));
    });
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => gateway.once('listening', resolve));
  runtime = await start();
});
afterEach(async () => {
  await runtime.close();
  gateway.closeAllConnections();
  gateway.close();
  expect(cache.held).toBe(0);
  rmSync(directory, { recursive: true, force: true });
});

async function start(): Promise<TaskRuntime> {
  const host = createChildProcessHost(entries);
  const { logger } = collectingLogger();
  const made = await createTaskRuntime({
    dataDirectory: directory,
    engineDirectory: engineDirectory(),
    isController: false,
    processHost: {
      fork(entry, options) {
        const process = host.fork(entry, options);
        children.push({ entry, process });
        return process;
      },
    },
    cache,
    dialGateway: async () => connect((gateway.address() as { port: number }).port, '127.0.0.1'),
    lend: {
      state: () => lendState,
      rules: () => rules,
      onChange: (listener) => {
        tellLend = listener;
        return () => undefined;
      },
    },
    send: (more) => {
      reports.push(...more);
      return true;
    },
    onFacts: () => undefined,
    logger,
    clock: { now: Date.now },
    random: Math.random,
  });
  tellLend = () => made.lendChanged();
  made.welcome();
  return made;
}

const program = (change: object): Work => {
  const work = commandWork();
  return work.kind === 'command'
    ? {
        ...work,
        outputs: [],
        ...change,
        program: { ...work.program, ...('program' in change ? (change.program as object) : {}) },
      }
    : work;
};
function assign(work: Work, ...tasks: TaskAssignment[]): void {
  runtime.receive({ type: 'tasks', works: [{ jobId, work }], start: tasks, go: [], cancel: [], settled: [] });
}
function settle(...taskIds: TaskAssignment['taskId'][]): void {
  runtime.receive({ type: 'tasks', works: [], start: [], go: [], cancel: [], settled: taskIds });
}
async function endOf(index: number): Promise<Extract<TaskReport, { type: 'done' | 'failed' }>> {
  return vi.waitFor(
    () => {
      const found = reports.find(
        (report) => report.taskId === id(index) && (report.type === 'done' || report.type === 'failed'),
      );
      if (!found || (found.type !== 'done' && found.type !== 'failed')) throw new Error(`no end of ${index}`);
      return found;
    },
    { timeout: 20_000, interval: 10 },
  );
}

function commandLines(): string[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      return [readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()];
    } catch {
      return [];
    }
  });
}

it('runs a script with a file and a folder, and keeps what it makes', async () => {
  const tool = cache.put(
    '#!/bin/sh\ncat data/in.txt; mkdir -p "$COVEY_OUTPUT/d"; echo made > "$COVEY_OUTPUT/d/f"\n',
  );
  const input = cache.put('hello');
  assign(
    program({
      program: {
        command: ['./tool', '{input.data/in.txt}'],
        inputs: [
          { artifact: tool, path: 'tool' },
          { artifact: input, path: 'data/in.txt' },
        ],
      },
      outputs: [
        { path: 'd', optional: false },
        { path: 'd/f', optional: false },
      ],
    }),
    assignment(0),
    assignment(1),
  );
  for (const index of [0, 1]) {
    const end = await endOf(index);
    if (end.type !== 'done') throw new Error(JSON.stringify(end));
    expect(end.output).toBe('hello');
    expect(end.result.artifacts.map(({ name, kind }) => [name, kind])).toEqual([
      ['d', 'tree'],
      ['d/f', 'file'],
    ]);
    expect(cache.read(end.result.artifacts[1]?.id as never)).toBe('made\n');
  }
  await vi.waitFor(() => expect(readdirSync(join(directory, 'tasks', 'jobs'))).toEqual([]));
  expect(readdirSync(join(directory, 'tasks'))).toEqual(['jobs']);
});

it('refuses commands that the owner forbids, also while they run', async () => {
  assign(program({ program: { command: ['sleep', '100'] } }), assignment(0));
  await vi.waitFor(() => expect(reports.some(({ type }) => type === 'started')).toBe(true), 10_000);
  rules = lendRulesSchema.parse({});
  tellLend();
  expect(await endOf(0)).toMatchObject({ outcome: 'refused', error: { code: 'commands_forbidden' } });
  assign(program({}), assignment(1));
  expect(await endOf(1)).toMatchObject({ outcome: 'refused' });
  expect(runtime.facts().commands.allowed).toBe(false);
});

it('loses tasks with their runner, and starts others with another', async () => {
  const time = `5000.${process.pid}`;
  const command = ['/bin/sh', '-c', `setsid sleep ${time} & exec sleep ${time}`];
  assign(program({ program: { command, secrets: { KEY: 'hush' } } }), assignment(0));
  await vi.waitFor(() => expect(commandLines().filter((line) => line === `sleep ${time}`)).toHaveLength(2), {
    timeout: 10_000,
  });
  expect(await runtime.log(id(0))).toEqual({ output: '', truncated: false });
  children.find(({ entry }) => entry === 'task-runner')?.process.kill();
  expect(await endOf(0)).toMatchObject({ outcome: 'lost', error: { code: 'task_lost' } });
  expect(readdirSync(join(directory, 'tasks'))).toEqual(['jobs']);
  await vi.waitFor(() => expect(commandLines().some((line) => line.includes(time))).toBe(false), 5_000);
  assign(program({ program: { command: ['echo', 'again'] } }), assignment(1));
  expect(await endOf(1)).toMatchObject({ type: 'done', output: 'again\n' });
  expect(await runtime.log(id(1))).toEqual({ output: 'again\n', truncated: false });
  await expect(runtime.log(id(9))).rejects.toMatchObject({ code: 'task_not_found' });
});

it('gives way: what waits goes back, what runs steps back at once and is lost in time', async () => {
  const time = `6000.${process.pid}`;
  assign(program({ program: { command: ['sleep', time], cpus: 1_000 } }), assignment(0), assignment(1));
  const running = (): string | undefined =>
    readdirSync('/proc').find((name) => {
      try {
        return readFileSync(`/proc/${name}/cmdline`, 'utf8') === `sleep\0${time}\0`;
      } catch {
        return false;
      }
    });
  const pid = await vi.waitFor(() => running() ?? Promise.reject(new Error('not yet')), 10_000);
  lendState = {
    ...lendState,
    lending: false,
    // Most of its half minute is over.
    since: Date.now() - 27_000,
    heldBackBy: [{ rule: 'battery', message: 'It runs on battery.' }],
  };
  tellLend();
  const gaveWay = { code: 'node_gave_way', message: 'this machine is not lent now: It runs on battery.' };
  expect(await endOf(1)).toMatchObject({ outcome: 'lost', error: gaveWay });
  await vi.waitFor(() => expect(getPriority(Number(pid))).toBe(19), 2_500);
  expect(running()).toBe(pid);
  expect(await endOf(0)).toMatchObject({ outcome: 'lost', error: gaveWay });
  expect(running()).toBeUndefined();
});

it('says that its input cannot be had', async () => {
  const stake = { ...cache.put('x'), id: 'f'.repeat(64) as never };
  assign(program({ program: { inputs: [{ artifact: stake, path: 'x' }] } }), assignment(0));
  expect(await endOf(0)).toMatchObject({ outcome: 'lost', error: { code: 'artifact_unreachable' } });
});

it('indexes a dataset and maps its records', async () => {
  const lines = Array.from({ length: 5_000 }, (_value, index) => `${index},"line\n${index}"\n`);
  const artifact = cache.put(`number,text\n${lines.join('')}`);
  const dataset = { artifact, format: 'csv' as const, recordBytes: null, header: true };
  assign({ kind: 'index', dataset }, assignment(0, { range: null }));
  const indexed = await endOf(0);
  if (indexed.type !== 'done') throw new Error(JSON.stringify(indexed));
  const { records, seeks } = indexed.result.value as {
    records: number;
    seeks: { record: number; byte: number }[];
  };
  expect(records).toBe(5_000);
  expect(seeks.length).toBeGreaterThan(500);
  expect(JSON.stringify(indexed.result.value).length).toBeLessThan(65_536);
  settle(id(0));
  const seek = seeks.findLast(({ record }) => record <= 4_990) ?? null;
  const work = program({ program: { command: ['cat'] } });
  if (work.kind !== 'command') throw new Error();
  assign(
    { kind: 'map', program: work.program, dataset, per: 'chunk' },
    assignment(1, { range: { from: 4_990, to: 4_992 }, seek }),
  );
  const mapped = await endOf(1);
  if (mapped.type !== 'done') throw new Error(JSON.stringify(mapped));
  expect(cache.read(mapped.result.artifacts[0]?.id as never)).toBe(
    'number,text\n4990,"line\n4990"\n4991,"line\n4991"\n',
  );
});

it('asks a model about records, in their order, and again when it is busy', async () => {
  const artifact = cache.put('{"q":"one"}\n\n{"q":"two"}\nnot json\n{"q":"refused"}\n');
  let busy = true;
  answers = (body) => {
    const { content } = (body['messages'] as { content: string }[]).at(-1) ?? { content: '' };
    if (content === 'Say one' && busy) {
      busy = false;
      return { status: 503, body: { error: { message: 'busy', code: 'not_ready' } } };
    }
    if (content.includes('refused'))
      return { status: 400, body: { error: { message: 'no', code: 'invalid_request' } } };
    return { status: 200, body: { echo: content, model: body['model'], max: body['max_tokens'] } };
  };
  assign(
    {
      kind: 'inference',
      model: 'm',
      task: 'chat',
      dataset: { artifact, format: 'jsonl', recordBytes: null, header: false },
      prompt: 'Say {q}',
      system: 'Be brief',
      parameters: { max_tokens: 5 },
      concurrency: 2,
    },
    assignment(0, { range: { from: 0, to: 5 } }),
  );
  const end = await endOf(0);
  if (end.type !== 'done') throw new Error(JSON.stringify(end));
  const lines = cache
    .read(end.result.artifacts[0]?.id as never)
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as object);
  expect(lines).toMatchObject([
    { record: 0, response: { echo: 'Say one', model: 'm', max: 5 } },
    { record: 2, response: { echo: 'Say two' } },
    { record: 3, error: { code: 'dataset_invalid' } },
    { record: 4, error: { code: 'invalid_request', message: 'no' } },
  ]);
});

it('brings the ranks of a gang together', async () => {
  const loopback = Object.entries(networkInterfaces()).find(([, addresses]) =>
    addresses?.some(({ internal }) => internal),
  );
  rules = lendRulesSchema.parse({
    kinds: { commands: true },
    network: { interface: loopback?.[0] ?? 'lo', ports: { from: 20_000, to: 40_000 } },
  });
  tellLend();
  const command = `if [ $COVEY_RANK = 0 ]; then
  python3 -c 'import os,socket
s=socket.create_server((os.environ["MASTER_ADDR"],int(os.environ["MASTER_PORT"])))
print(s.accept()[0].recv(99).decode())'
else
  python3 -c 'import os,socket,time
for i in range(100):
  try:
    s=socket.create_connection((os.environ["MASTER_ADDR"],int(os.environ["MASTER_PORT"]))); break
  except OSError: time.sleep(0.05)
s.sendall(("rank %s of %s" % (os.environ["RANK"], os.environ["WORLD_SIZE"])).encode())'
fi`;
  const work = program({ program: { command: ['/bin/sh', '-c', command], network: 'lan', cpus: 0.5 } });
  if (work.kind !== 'command') throw new Error();
  const ranks = [0, 1].map((rank) =>
    assignment(rank, { range: null, gang: { rank, worldSize: 2, start: 1 } }),
  );
  assign({ kind: 'gang', program: work.program, outputs: [], ports: 2 }, ...ranks);
  const places = await vi.waitFor(() => {
    const started = reports.filter((report) => report.type === 'started');
    if (started.length < 2) throw new Error('not all are there');
    return started;
  }, 10_000);
  expect(places.every(({ ports }) => ports?.length === 2)).toBe(true);
  const all = places.map(({ taskId, host, ports }) => ({
    rank: Number(taskId.split('.')[1]),
    nodeId: 'a'.repeat(64) as NodeId,
    host: host ?? '',
    ports: ports ?? [],
  }));
  runtime.receive({
    type: 'tasks',
    works: [],
    start: [],
    go: ranks.map(({ taskId }) => ({ taskId, ranks: all })),
    cancel: [],
    settled: [],
  });
  expect(await endOf(0)).toMatchObject({ type: 'done', output: 'rank 1 of 2\n' });
  expect(await endOf(1)).toMatchObject({ type: 'done' });
});

it('keeps unsettled ends over its own restart', async () => {
  assign(program({ program: { command: ['echo', 'kept'] } }), assignment(0), assignment(1));
  await endOf(0);
  await endOf(1);
  settle(id(1));
  await runtime.close();
  expect(existsSync(join(directory, 'journal', 'tasks.jsonl'))).toBe(true);
  reports = [];
  runtime = await start();
  expect(runtime.observed()).toEqual([{ taskId: id(0), epoch: 1, phase: 'ended' }]);
  expect(await endOf(0)).toMatchObject({ type: 'done', output: 'kept\n' });
  settle(id(0));
  await runtime.close();
  runtime = await start();
  expect(runtime.observed()).toEqual([]);
});

it('ends everything when it is closed', async () => {
  const other = 'j-00000002' as JobId;
  assign(program({ program: { command: ['/bin/sh', '-c', "trap '' TERM; sleep 100"] } }), assignment(0));
  assign(program({ program: { command: ['sleep', '100'] } }), assignment(1, { jobId: other }));
  await vi.waitFor(() => expect(reports.some(({ type }) => type === 'started')).toBe(true), 10_000);
  const startedAt = performance.now();
  await runtime.close();
  expect(performance.now() - startedAt).toBeLessThan(8_000);
  expect(existsSync(join(directory, 'tasks'))).toBe(false);
});
