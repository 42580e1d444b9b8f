import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { doctorCheckSchema, type DoctorCheck } from '#shared/domain/doctor.ts';
import { workerRequests } from '#shared/protocol/requests.ts';
import { clause, finishCheck, listing, sentence } from './check.ts';
import { runDoctor } from './doctor.ts';
import { dataDirectory, exampleContext, fakeSystem, runningNode, unreachable } from './fixtures.ts';

function expectFit(checks: readonly DoctorCheck[]): void {
  expect(workerRequests['doctor.run'].result.shape.checks.parse(checks)).toEqual(checks);
  expect(new Set(checks.map(({ id }) => id)).size).toBe(checks.length);
  for (const { id, status, summary, action } of checks) {
    for (const text of action === null ? [summary] : [summary, action]) {
      expect(text, id).toMatch(/[.!?…]["')\]]*$/u);
      expect(text, id).not.toMatch(/[.!?]["')\]]*\s+["'([]?\p{Lu}/u);
      expect(text.length, id).toBeLessThanOrEqual(500);
    }
    if (status === 'fail' || status === 'warn') expect(action, `${id}: ${summary}`).not.toBeNull();
    if (status === 'ok') expect(action, id).toBeNull();
  }
}

describe('the doctor of one machine', () => {
  it('finds nothing wrong on a machine where all is well', async () => {
    const checks = await runDoctor(exampleContext(), fakeSystem());
    expectFit(checks);
    expect(checks.filter(({ status }) => status === 'fail' || status === 'warn')).toEqual([]);
    expect(checks.map(({ id, status }) => `${id} ${status}`)).toEqual([
      'program ok',
      'engine ok',
      'settings ok',
      'clock ok',
      'port-api ok',
      'port-cluster ok',
      'port-mdns ok',
      'interfaces ok',
      'multicast ok',
      'controller ok',
      'inbound skipped',
      'firewall ok',
      'names ok',
      'data-directory ok',
      'disk ok',
      'graphics skipped',
      'compute skipped',
      'sleep skipped',
      'identity ok',
      'lan-certificate skipped',
    ]);
  });

  it('turns whatever fails within a check into a reason, and gives all the others', async () => {
    const broken = fakeSystem(
      {},
      {
        ports: async () => Promise.reject(new Error('EMFILE: too many open files. Sorry.')),
        multicast: () => {
          throw new Error('no sockets');
        },
        space: async () => Promise.reject(new Error('statfs went wrong')),
      },
    );
    const checks = await runDoctor(exampleContext(), broken);
    expectFit(checks);
    const skipped = Object.fromEntries(checks.map(({ id, status, summary }) => [id, [status, summary]]));
    expect(skipped['ports']).toEqual(['skipped', expect.stringContaining('EMFILE')]);
    expect(skipped['multicast']).toEqual(['skipped', 'This could not be checked: no sockets.']);
    expect(skipped['disk']).toEqual(['skipped', expect.stringContaining('statfs went wrong')]);
    expect(skipped['clock']?.[0]).toBe('ok');
  });

  it('works on the real machine without a node, within its time', async () => {
    const context = exampleContext({ dataDirectory: '/no/such/directory', node: null });
    const begun = performance.now();
    const checks = await runDoctor(context);
    expect(performance.now() - begun).toBeLessThan(9_000);
    expectFit(checks);
  }, 15_000);

  it('says everything in one bounded sentence, whatever the system answers', async () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 700 });
    const address = fc.constantFrom('192.0.2.10', '169.254.1.1', 'fe80::1', '10.0.0.1');
    await fc.assert(
      fc.asyncProperty(text, text, fc.boolean(), address, fc.integer(), async (one, two, flag, host, ms) => {
        const system = fakeSystem(
          { names: { desk: [host] }, texts: { '/etc/ufw/ufw.conf': one } },
          {
            platform: flag ? 'linux' : 'darwin',
            run: async () => ({ ok: true, code: ms, stdout: one, stderr: two }),
            list: async () => [one, two],
            readText: async () => two,
            tryWriting: async () => (flag ? one : null),
            hostname: () => one,
            dial: async () => two,
            look: async (path) => ({
              path: path + one,
              kind: flag ? 'file' : 'directory',
              mode: 0o644,
              uid: 1,
              modifiedAt: ms,
            }),
            ports: async (questions) =>
              questions.map(() => ({
                known: true,
                users: [
                  { name: one, pid: 7 },
                  { name: two, pid: null },
                ],
              })),
            multicast: async () => ({
              bindProblem: null,
              interfaces: [
                { name: one, address: host, virtual: flag, problem: two, heardSelf: false, heardOthers: 0 },
              ],
            }),
          },
        );
        const notice = { ...unreachable, message: one };
        const node = runningNode({
          notices: flag ? [notice] : [],
          controller: {
            name: one,
            connected: false,
            addresses: [{ host, port: 1 }],
            trouble: notice,
            clockAheadMs: ms,
            addressChangedAt: null,
          },
        });
        expectFit(await runDoctor(exampleContext({ node, engine: { buildId: null, reason: two } }), system));
      }),
      { numRuns: 60 },
    );
  });
});

describe('sentences', () => {
  it('are one each, end, and carry nothing that a terminal would obey', () => {
    expect(sentence('It is so. Do that')).toBe('It is so; Do that.');
    expect(sentence('a\u001b[31mb\nc\u202e d ')).toBe('a [31mb c d.');
    expect(sentence('Why? "Because." Yes!')).toBe('Why; "Because"; Yes!');
    expect(sentence('')).toBe('Nothing is known.');
    expect(sentence('x'.repeat(9_999))).toHaveLength(480);
    expect(clause('It failed. Try again.')).toBe('It failed');
    expect(clause('port 1.5 is odd')).toBe('port 1.5 is odd');
    expect(clause('. ')).toBe('no reason was given');
    expect(listing(['a'])).toBe('a');
    expect(listing(['a', 'b', 'c'])).toBe('a, b and c');
    expect(listing(['a', 'b', 'c', 'd', 'e', 'f'])).toBe('a, b, c, d and 2 more');
    expect(doctorCheckSchema.parse(finishCheck('x', 'X', { status: 'ok', summary: dataDirectory }))).toEqual({
      id: 'x',
      title: 'X',
      status: 'ok',
      summary: `${dataDirectory}.`,
      action: null,
    });
  });
});
