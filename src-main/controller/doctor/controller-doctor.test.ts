import { describe, expect, it } from 'vitest';
import { doctorReportSchema, type PairCheck } from '#shared/api/self.ts';
import type { AddressAttempt } from '#shared/domain/network.ts';
import type { DoctorCheck } from '#shared/domain/doctor.ts';
import { CoveyError } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { finishCheck } from '../../nodejs/doctor/check.ts';
import { skewFinding } from '../../nodejs/doctor/checks/clock.ts';
import { exampleContext, fakeSystem, runningNode } from '../../nodejs/doctor/fixtures.ts';
import type { ControllerEvent } from '../state/events.ts';
import { connected, facts, joined, nodeId } from '../state/fixtures.ts';
import { createControllerDoctor } from './controller-doctor.ts';
import { scriptedSessions, stateOnly, type WorkerAnswer } from './fixtures.ts';

const hall = nodeId('c');
const [a, b] = [nodeId('a'), nodeId('b')];
const at = Date.UTC(2026, 10, 30, 12, 0, 0);
const address = { host: '192.0.2.1', port: 7879 };
const fine = [finishCheck('clock', 'Clock', { status: 'ok', summary: 'Right' })];
const never = new AbortController().signal;

interface Options {
  readonly events?: readonly ControllerEvent[];
  readonly answer?: WorkerAnswer;
  readonly identify?: (addresses: readonly unknown[]) => AddressAttempt[];
  readonly measure?: (from: NodeId, to: NodeId) => Partial<PairCheck>;
}

function setUp(options: Options = {}) {
  const asked: string[] = [];
  const doctor = createControllerDoctor({
    self: { nodeId: hall, name: 'hall', version: '0.1.0' },
    runtime: stateOnly(
      ...(options.events ?? [joined('a', 'anna'), joined('b', 'ben'), connected('a'), connected('b')]),
    ),
    sessions: scriptedSessions((id, method, params, request) => {
      asked.push(`${id[0]} ${method} ${request.deadlineMs}`);
      return options.answer ? options.answer(id, method, params, request) : { checks: fine, at };
    }),
    transport: {
      identify: async (addresses) =>
        options.identify?.(addresses) ?? [
          { address, nodeId: a, connectMs: 1.25, problem: null },
          { address, nodeId: b, connectMs: 1.25, problem: null },
        ],
    },
    links: {
      latest: () => null,
      measure: async ([from, to]) => {
        const base = { from, fromName: from[0] ?? '', to, toName: to[0] ?? '', measuredAt: at, attempts: [] };
        return {
          ...base,
          path: 'direct',
          rttMs: 1,
          bytesPerS: 1e6,
          error: null,
          ...options.measure?.(from, to),
        };
      },
    },
    context: async () =>
      exampleContext({ node: runningNode({ role: 'controller', lends: false, controller: null }) }),
    clock: { now: () => at },
    system: fakeSystem(),
  });
  const run = async () => {
    const report = doctorReportSchema.parse(await doctor(never));
    const check = (name: string, id: string): DoctorCheck | undefined =>
      report.nodes.find((node) => node.name === name)?.checks.find((one) => one.id === id);
    return { report, check };
  };
  return { doctor, run, asked };
}

describe("the controller's doctor", () => {
  it('has its own checks, those of each worker, and each pair in both directions', async () => {
    const { run, asked } = setUp();
    const { report, check } = await run();
    expect(asked.sort()).toEqual(['a doctor.run 10000', 'b doctor.run 10000']);
    expect(report.nodes.map(({ name, error }) => [name, error])).toEqual([
      ['hall', null],
      ['anna', null],
      ['ben', null],
    ]);
    expect(report.pairs.map(({ from, to }) => `${from[0]}${to[0]}`)).toEqual(['ab', 'ba']);
    const all = report.nodes.flatMap(({ checks }) => checks);
    expect(all.filter(({ status }) => status === 'fail' || status === 'warn')).toEqual([]);
    expect(check('hall', 'inbound')?.summary).toBe('Other machines reach this controller: anna and ben.');
    expect(check('hall', 'versions')?.summary).toBe('All machines run Covey 0.1.0.');
    expect(check('hall', 'engine-builds')?.summary).toBe('All engines are of build v0.4.0-test.');
    expect(check('hall', 'pairs')?.summary).toBe('2 ways between machines work, all of them directly.');
    expect(check('anna', 'inbound')?.summary).toBe('The controller reaches it at 192.0.2.1:7879 in 1.3 ms.');
  });

  it('names a clock that is off, whatever the worker thinks of it', async () => {
    const { run } = setUp({
      answer: (id) => ({ checks: fine, at: id === a ? at + 86_400_000 : at - 700 }),
    });
    const { check } = await run();
    expect(check('anna', 'clock')).toMatchObject({
      status: 'fail',
      summary: expect.stringContaining('1 day ahead of the controller'),
      action: expect.stringContaining('automatic time'),
    });
    expect(check('ben', 'clock')?.status).toBe('ok');
  });

  it('believes what it sees of a clock that was set right meanwhile, and not of one that is wrong anyway', async () => {
    const stale = finishCheck('clock', 'Clock', skewFinding(86_400_000));
    const back = finishCheck('clock', 'Clock', {
      status: 'fail',
      summary: 'The clock was set back',
      action: 'x',
    });
    const { run } = setUp({ answer: (id) => ({ checks: [id === a ? stale : back], at: at - 20 }) });
    const { check } = await run();
    expect(check('anna', 'clock')).toMatchObject({ status: 'ok', action: null });
    expect(check('ben', 'clock')).toEqual(back);
  });

  it('goes on when a worker does not answer, and says which', async () => {
    const { run } = setUp({
      answer(id) {
        if (id === a) throw new CoveyError('timeout', 'anna did not answer "doctor.run" within 10000 ms.');
        return { checks: fine, at };
      },
    });
    const { report, check } = await run();
    expect(report.nodes[1]).toMatchObject({ name: 'anna', error: { code: 'timeout' } });
    expect(check('anna', 'connection')).toMatchObject({
      status: 'fail',
      summary: expect.stringContaining('anna did not run its checks: anna did not answer'),
    });
    expect(check('anna', 'inbound')?.status).toBe('ok');
    expect(check('ben', 'clock')?.status).toBe('ok');
  });

  it('tells apart who is off, who is lost and who never came', async () => {
    const { run, asked } = setUp({
      events: [
        joined('a', 'anna'),
        connected('a', { at: at - 3_600_000 }),
        { type: 'session-closed', at: at - 600_000, nodeId: a, sessionId: 1, goodbye: true },
        joined('b', 'ben'),
        connected('b', { at: at - 3_600_000 }),
        { type: 'session-closed', at: at - 300_000, nodeId: b, sessionId: 1, goodbye: false },
        joined('d', 'dora'),
      ],
    });
    const { report, check } = await run();
    expect(asked).toEqual([]);
    expect(check('anna', 'connection')).toMatchObject({
      status: 'skipped',
      summary: expect.stringContaining('10 min ago'),
    });
    expect(check('ben', 'connection')).toMatchObject({
      status: 'fail',
      summary: 'ben has not answered for 5 min.',
    });
    expect(check('dora', 'connection')).toMatchObject({
      status: 'warn',
      summary: expect.stringContaining('never connected'),
    });
    expect(report.nodes.slice(1).every(({ error }) => error?.code === 'node_not_ready')).toBe(true);
    expect(check('hall', 'pairs')?.status).toBe('skipped');
    expect(check('hall', 'inbound')?.status).toBe('skipped');
  });

  it.each<[string, AddressAttempt[], DoctorCheck['status'], RegExp]>([
    [
      'nobody gets in',
      [{ address, nodeId: null, connectMs: null, problem: 'does not answer' }],
      'warn',
      /cannot dial anna on 7879 \(192\.0\.2\.1:7879 does not answer\): outbound only, it works through reverse.*sudo ufw allow 7879/,
    ],
    [
      'somebody else answers',
      [{ address, nodeId: hall, connectMs: 1, problem: null }],
      'fail',
      /another machine answers, with key cccccccccccc instead of aaaaaaaaaaaa/,
    ],
    ['it opens no port', [], 'warn', /opens no port.*--cluster/],
  ])('inbound: %s', async (_name, attempts, status, text) => {
    const { run } = setUp({ identify: () => attempts });
    const { check } = await run();
    const found = check('anna', 'inbound');
    expect([found?.status, `${found?.summary} ${found?.action}`]).toEqual([
      status,
      expect.stringMatching(text),
    ]);
  });

  it('finds other versions and builds, and who has no engine', async () => {
    const other = { ...facts, version: '0.0.9', engineBuildId: 'v0.3.9-old' };
    const events = [
      joined('a', 'anna'),
      joined('b', 'ben'),
      connected('a'),
      connected('b', { facts: other }),
    ];
    const { check } = await setUp({ events }).run();
    expect(check('hall', 'versions')).toMatchObject({
      status: 'warn',
      summary: expect.stringContaining('ben runs 0.0.9'),
    });
    expect(check('hall', 'engine-builds')).toMatchObject({
      status: 'fail',
      summary: expect.stringMatching(/v0\.4\.0-test on anna; v0\.3\.9-old on ben/),
      action: 'Install the build v0.4.0-test on ben.',
    });
    const none = { ...facts, engineBuildId: null, engineProblem: 'gone' };
    const { check: second } = await setUp({
      events: [joined('a', 'anna'), joined('b', 'ben'), connected('a'), connected('b', { facts: none })],
    }).run();
    expect(second('hall', 'engine-builds')).toMatchObject({
      status: 'warn',
      summary: expect.stringContaining('on ben'),
    });
  });

  it('judges the pairs', async () => {
    const error = { code: 'stage_unreachable', message: 'No way at all. Sorry.' } as const;
    const broken = await setUp({ measure: (from) => (from === a ? { path: null, error } : {}) }).run();
    expect(broken.check('hall', 'pairs')).toMatchObject({
      status: 'fail',
      summary: 'There is no way for a to b: No way at all.',
    });
    const relayed = await setUp({ measure: () => ({ path: 'relay' }) }).run();
    expect(relayed.check('hall', 'pairs')).toMatchObject({
      status: 'warn',
      summary: expect.stringContaining('a to b and b to a'),
    });
    const reverse = await setUp({ measure: (from) => (from === b ? { path: 'reverse' } : {}) }).run();
    expect(reverse.check('hall', 'pairs')).toMatchObject({
      status: 'ok',
      summary: expect.stringContaining('1 of them by reverse'),
    });
  });

  it('measures a part of a large covey and says so', async () => {
    const digits = '0123456789abdef'.split('');
    const ids = digits.flatMap((digit) => [digit, `${digit}c`]);
    const { run } = setUp({
      events: ids.flatMap((digit) => [joined(digit, `n${digit}`), connected(digit, { boot: '1' })]),
    });
    const { report, check } = await run();
    expect(report.nodes).toHaveLength(31);
    expect(report.pairs).toHaveLength(30 * 4);
    expect(check('hall', 'pairs')?.summary).toContain('of 30 machines each was measured with four others');
  });

  it('is made once for all who ask meanwhile, and ends with who asked', async () => {
    const { doctor, asked } = setUp();
    const [one, two] = await Promise.all([doctor(never), doctor(never)]);
    expect(two).toBe(one);
    expect(asked).toHaveLength(2);
    await expect(doctor(AbortSignal.abort())).rejects.toThrow();
    expect((await doctor(never)).nodes).toHaveLength(3);
  });
});
