import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { doctorCheckSchema } from '#shared/domain/doctor.ts';
import type { DoctorReport, PairCheck } from '#shared/api/self.ts';
import { CoveyError } from '#shared/errors.ts';
import { scriptedIo } from '../../e2e/support/cli-io.ts';
import { startScriptedApi, type RouteScript, type ScriptedApi } from '../../e2e/support/scripted-api.ts';
import { at, nodeIdOf } from '../../e2e/support/views.ts';
import type { ApiRoute } from '#shared/api/schema.ts';
import { finishCheck } from '../nodejs/doctor/check.ts';
import { runCli } from './main.ts';

let api: ScriptedApi | null = null;
afterEach(async () => {
  await api?.close();
  api = null;
});

async function covey(
  words: string,
  scripts: Partial<Record<ApiRoute, RouteScript>>,
  io = scriptedIo(),
): Promise<{ code: number; stdout: string; stderr: string }> {
  api = await startScriptedApi(scripts);
  const code = await runCli(['--data', api.dataDirectory, ...words.split(' ')], io);
  return { code, stdout: io.stdout(), stderr: io.stderr() };
}

function pair(changes: Partial<PairCheck> = {}): PairCheck {
  return {
    from: nodeIdOf('a'),
    fromName: 'desk',
    to: nodeIdOf('b'),
    toName: 'attic',
    path: 'direct',
    rttMs: 0.42,
    bytesPerS: 117e6,
    measuredAt: at - 1_000,
    attempts: [],
    error: null,
    ...changes,
  };
}

const relayed = pair({
  ...{ from: nodeIdOf('b'), fromName: 'attic', to: nodeIdOf('a'), toName: 'desk', path: 'relay' },
  ...{ rttMs: 12, measuredAt: at - 7_200_000 },
  attempts: [
    {
      address: { host: '192.0.2.10', port: 7879 },
      nodeId: null,
      connectMs: null,
      problem: 'does not answer',
    },
    {
      address: { host: 'fd00::2', port: 7879 },
      nodeId: null,
      connectMs: null,
      problem: 'refuses connections',
    },
  ],
});
const broken = pair({
  ...{ to: nodeIdOf('c'), toName: 'hall', path: null, rttMs: null, bytesPerS: null },
  error: { code: 'stage_unreachable', message: 'There is no way to hall.' },
});

const report = (withFailure: boolean): DoctorReport => ({
  nodes: [
    {
      nodeId: nodeIdOf('c'),
      name: 'hall',
      error: null,
      checks: [
        finishCheck('program', 'Program', { status: 'ok', summary: 'Covey 0.1.0 on Node.js 24.21.0' }),
        finishCheck('sleep', 'Sleep', {
          status: 'warn',
          summary: 'This machine goes to sleep after 20 minutes without use (pmset), and its work stops then',
          action: 'Keep it awake while plugged in with "sudo pmset -c sleep 0"',
        }),
        finishCheck('lan-certificate', 'LAN access', {
          status: 'skipped',
          summary: 'LAN access to the API is off',
        }),
      ],
    },
    {
      nodeId: nodeIdOf('a'),
      name: 'desk',
      error: null,
      checks: [
        finishCheck('port-cluster', 'Port 7879', {
          status: withFailure ? 'fail' : 'ok',
          summary: 'Port 7879 for the other machines is taken by "nc\u001b[31m" (pid 123)',
          action: withFailure ? 'End that program, or choose another port with --cluster HOST:PORT' : null,
        }),
      ],
    },
  ],
  pairs: [pair(), relayed],
});

function expectWidth(text: string): void {
  for (const line of text.split('\n')) expect(line.length, line).toBeLessThanOrEqual(80);
}

describe('covey doctor, at 80 columns', () => {
  it('shows each machine, each pair, and fails when a check does', async () => {
    const { code, stdout } = await covey('doctor', { doctor: () => report(true) });
    expect(stdout).toMatchInlineSnapshot(`
      "hall
        ok    Program         Covey 0.1.0 on Node.js 24.21.0.
        warn  Sleep           This machine goes to sleep after 20 minutes without use
                              (pmset), and its work stops then.
                              -> Keep it awake while plugged in with "sudo pmset -c
                                 sleep 0".
        skip  LAN access      LAN access to the API is off.

      desk
        FAIL  Port 7879       Port 7879 for the other machines is taken by "nc [31m"
                              (pid 123).
                              -> End that program, or choose another port with
                                 --cluster HOST:PORT.

      FROM   TO     PATH    ROUND TRIP  BANDWIDTH  MEASURED
      desk   attic  direct      0.4 ms  112 MiB/s       now
      attic  desk   relay        12 ms  112 MiB/s   2 h ago

      attic to desk, not directly: 192.0.2.10:7879 does not answer; [fd00::2]:7879
      refuses connections

      1 failed, 1 warning: 4 checks on 2 machines, 1 skipped.
      "
    `);
    expect(code).toBe(1);
    expectWidth(stdout);
  });

  it('warnings alone are no failure, and JSON is the report as it is', async () => {
    expect((await covey('doctor', { doctor: () => report(false) })).code).toBe(0);
    await api?.close();
    const { code, stdout, stderr } = await covey('--json doctor', { doctor: () => report(true) });
    expect([code, stderr]).toEqual([1, '']);
    expect(JSON.parse(stdout)).toEqual(report(true));
  });

  it('colours words on a terminal, and says that it asks', async () => {
    const io = scriptedIo({ outIsTty: true, errIsTty: true });
    const { stdout, stderr } = await covey('doctor', { doctor: () => report(true) }, io);
    expect(stdout).toContain('\u001b[31mFAIL\u001b[0m');
    expect(stdout).toContain('\u001b[33mwarn\u001b[0m');
    expect(stderr).toContain('Asking');
  });

  it('says why a node refuses, without looking elsewhere', async () => {
    const refuse = () => {
      throw new CoveyError('token_missing', 'A token is needed.');
    };
    const { code, stdout, stderr } = await covey('doctor', { doctor: refuse });
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain('A token is needed.');
  });

  it('checks this machine alone when no node answers', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'cvy-'));
    try {
      await mkdir(join(directory, 'identity'));
      await writeFile(join(directory, 'identity', 'key.pem'), 'x', { mode: 0o644 });
      await writeFile(join(directory, 'config.json'), '{"lan": {"port": 0}}', { mode: 0o600 });
      await chmod(join(directory, 'identity', 'key.pem'), 0o644);
      await chmod(directory, 0o755);
      const io = scriptedIo();
      const words = ['--data', directory, 'doctor'];
      const code = await runCli(words, io);
      expect(code).toBe(1);
      expect(io.stdout().replace(/\s+/g, ' ')).toMatch(/^No covey runs on \S+ These are the/);
      expect(io.stdout().replace(/\s+/g, ' ')).toMatch(/FAIL Settings .*lan\.port/);
      if (process.platform !== 'win32') {
        expect(io.stdout().replace(/\s+/g, ' ')).toMatch(/FAIL Data directory .*key\.pem \(mode 644\)/);
      }
      const json = scriptedIo();
      expect(await runCli([...words, '--json'], json)).toBe(1);
      const parsed = JSON.parse(json.stdout());
      expect(parsed.note).toContain('No covey runs');
      expect(parsed.nodes[0].nodeId).toBeNull();
      expect(doctorCheckSchema.array().parse(parsed.nodes[0].checks).length).toBeGreaterThan(10);
    } finally {
      await rm(directory, { recursive: true });
    }
  }, 20_000);
});

describe('covey links, at 80 columns', () => {
  it('shows both directions, and why one is not direct', async () => {
    const { code, stdout } = await covey('links', { links: () => ({ links: [relayed, pair(), broken] }) });
    expect(stdout).toMatchInlineSnapshot(`
      "FROM   TO     PATH    ROUND TRIP  BANDWIDTH  MEASURED
      attic  desk   relay        12 ms  112 MiB/s   2 h ago
      desk   attic  direct      0.4 ms  112 MiB/s       now
      desk   hall   none                                now

      attic to desk, not directly: 192.0.2.10:7879 does not answer; [fd00::2]:7879
      refuses connections
      desk to hall: There is no way to hall.
      "
    `);
    expect(code).toBe(0);
    expectWidth(stdout);
  });

  it('says what to do when nothing is measured', async () => {
    const { code, stdout } = await covey('links', { links: () => ({ links: [] }) });
    expect([code, stdout]).toEqual([0, expect.stringContaining('"covey doctor" measures at once')]);
  });
});
