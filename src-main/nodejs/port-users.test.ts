import { spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { portUses, portUserText } from './port-users.ts';
import { runCommand, type RunCommand } from './run-command.ts';

const scripted =
  (answers: Readonly<Record<string, string>>): RunCommand =>
  async (file, args) => {
    const stdout = answers[[file, ...args].join(' ')];
    return stdout === undefined
      ? { ok: false, reason: `there is no "${file}" here` }
      : { ok: true, code: 0, stdout, stderr: '' };
  };

describe('who uses a port', () => {
  it.runIf(process.platform === 'linux')('finds programs of this machine by name and pid', async () => {
    const script =
      "process.title='tea-kettle';process.stdin.on('end',()=>process.exit()).resume();require('net').createServer().listen(0,'127.0.0.1',function(){console.log(this.address().port)})";
    const child = spawn(process.execPath, ['-e', script], { stdio: ['pipe', 'pipe', 'inherit'] });
    const server = createServer();
    const socket = createSocket('udp4');
    try {
      const ready = [
        once(child.stdout.setEncoding('utf8'), 'data'),
        once(server, 'listening'),
        once(socket, 'listening'),
      ];
      server.listen(0, '::');
      socket.bind(0, '127.0.0.1');
      const [[line]] = (await Promise.all(ready)) as [[string], unknown, unknown];
      const own = (server.address() as AddressInfo).port;
      const [tea, here, udp, nobody] = await portUses([
        { protocol: 'tcp', port: Number(line) },
        { protocol: 'tcp', port: own },
        { protocol: 'udp', port: socket.address().port },
        { protocol: 'udp', port: own === 9 ? 10 : 9 },
      ]);
      expect(tea).toEqual({ known: true, users: [{ name: 'tea-kettle', pid: child.pid }] });
      expect(here).toMatchObject({ known: true, users: [{ pid: process.pid }] });
      expect(udp).toMatchObject({ known: true, users: [{ pid: process.pid }] });
      expect(nobody).toEqual({ known: true, users: [] });
    } finally {
      child.kill('SIGKILL');
      server.close();
      socket.close();
    }
  });

  it('reads lsof on macOS', async () => {
    const run = scripted({
      'lsof -nP -iTCP:7879 -sTCP:LISTEN -Fpc': 'p501\ncControlCe\nf9\nf10\np77\ncGoogle Chrome\nf3\n',
      'lsof -nP -iUDP:5353 -Fpc': '',
    });
    const asked = [
      { protocol: 'tcp', port: 7879 },
      { protocol: 'udp', port: 5353 },
      { protocol: 'tcp', port: 1 },
    ] as const;
    expect(await portUses(asked, { platform: 'darwin', run })).toEqual([
      {
        known: true,
        users: [
          { name: 'ControlCe', pid: 501 },
          { name: 'Google Chrome', pid: 77 },
        ],
      },
      { known: true, users: [] },
      { known: false, reason: 'there is no "lsof" here' },
    ]);
  });

  it('reads netstat and tasklist on Windows in any language', async () => {
    const run = scripted({
      'netstat -ano': [
        '  Proto  Lokale Adresse   Remoteadresse   Status   PID',
        '  TCP    0.0.0.0:7879     0.0.0.0:0       ABHÖREN  1234',
        '  TCP    [::]:7879        [::]:0          ABHÖREN  1234',
        '  TCP    192.0.2.1:7879   192.0.2.2:50000 HERGESTELLT  99',
        '  TCP    0.0.0.0:17879    0.0.0.0:0       ABHÖREN  5',
        '  UDP    0.0.0.0:5353     *:*                      8',
      ].join('\r\n'),
      'tasklist /FI PID eq 1234 /FO CSV /NH': '\r\n"backup.exe","1234","Services","0","10.000 K"\r\n',
    });
    const asked = [
      { protocol: 'tcp', port: 7879 },
      { protocol: 'udp', port: 5353 },
    ] as const;
    expect(await portUses(asked, { platform: 'win32', run })).toEqual([
      { known: true, users: [{ name: 'backup.exe', pid: 1234 }] },
      { known: true, users: [{ name: null, pid: 8 }] },
    ]);
    expect(await portUses(asked, { platform: 'win32', run: scripted({}) })).toMatchObject([
      { known: false },
      { known: false },
    ]);
  });

  it('says so on a system that has no way', async () => {
    expect(await portUses([{ protocol: 'tcp', port: 1 }], { platform: 'sunos' })).toEqual([
      { known: false, reason: 'there is no way to ask on sunos' },
    ]);
    expect([
      portUserText({ name: 'x', pid: 1 }),
      portUserText({ name: null, pid: 1 }),
      portUserText({ name: null, pid: null }),
    ]).toEqual(['"x" (pid 1)', 'process 1', 'a program of another user']);
  });
});

describe.runIf(process.platform !== 'win32')('commands of the system', () => {
  it('give output and code, also when the code says no', async () => {
    expect(await runCommand('sh', ['-c', 'echo out; echo err >&2; exit 3'])).toEqual({
      ok: true,
      code: 3,
      stdout: 'out\n',
      stderr: 'err\n',
    });
    expect(await runCommand('no-such-command-here', [])).toEqual({
      ok: false,
      reason: 'there is no "no-such-command-here" here',
    });
  });

  it('are cut off in time, with what they started, and in size', async () => {
    const begun = performance.now();
    expect(await runCommand('sh', ['-c', 'sleep 5 & sleep 5'], 200)).toEqual({
      ok: false,
      reason: '"sh" gave no answer within 0.2 s',
    });
    expect(performance.now() - begun).toBeLessThan(2_000);
    expect(await runCommand('sh', ['-c', 'yes | head -c 2000000'])).toEqual({
      ok: false,
      reason: '"sh" printed too much',
    });
  });

  it('get no secrets of our environment', async () => {
    process.env['COVEY_TEST_SECRET'] = 'x';
    try {
      const outcome = await runCommand('env', []);
      expect(outcome.ok && outcome.stdout).not.toContain('COVEY_TEST_SECRET');
    } finally {
      delete process.env['COVEY_TEST_SECRET'];
    }
  });
});
