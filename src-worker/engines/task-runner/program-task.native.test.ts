import { readFile, readdir, writeFile, mkdir } from 'node:fs/promises';
import { readFileSync, readdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { LimitMethod, Sandbox } from '#shared/host/task-runner.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { engineDirectory } from '../../../e2e/support/checkout.ts';
import { CoveyError } from '#shared/errors.ts';
import { openRoom, type Room } from './fixtures.ts';
import { createLimitGroup } from './limits/limit-group.ts';
import { probeLimits } from './limits/probe-limits.ts';
import { createOutputTail } from './output-tail.ts';
import { runProgram } from './run-program.ts';
import { probeSandbox } from './sandbox/probe-sandbox.ts';

const MiB = 1024 * 1024;
const found = await probeSandbox();
const best = probeLimits();

const ways: readonly [string, Sandbox, LimitMethod][] = [
  ...(found.sandbox.kind === 'bubblewrap'
    ? ([
        [`in bubblewrap, limits by ${best.limits.kind}`, found.sandbox, best.limits],
        ['in bubblewrap, limits by rlimits', found.sandbox, { kind: 'rlimits' }],
      ] as [string, Sandbox, LimitMethod][])
    : []),
  [`without a sandbox, limits by ${best.limits.kind}`, { kind: 'none' }, best.limits],
];

/** Whether a process whose command line has this text runs. */
function runs(mark: string): boolean {
  return readdirSync('/proc').some((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return false;
    try {
      return readFileSync(`/proc/${name}/cmdline`, 'latin1').includes(mark);
    } catch {
      return false;
    }
  });
}

const isClass = (name: string): boolean => readdirSync('/sys/class').includes(name);

const limits = { memoryBytes: 128 * MiB, processes: 32, outputBytes: 8 * MiB };

describe.runIf(process.platform === 'linux')('a program without a sandbox, limits by rlimits', () => {
  let room: Room;
  beforeAll(async () => {
    room = await openRoom(join(engineDirectory(), 'covey-launch'), { kind: 'none' }, { kind: 'rlimits' });
  });
  afterAll(() => room.close());

  it('is ended with what has left it', async () => {
    const time = `4000.${process.pid}`;
    const { failure, usage } = await room.run({ script: `setsid sleep ${time} & sleep 1; exit 0`, limits });
    expect(failure).toBeNull();
    expect(usage.peakBytes).toBeGreaterThan(0);
    await vi.waitFor(() => expect(runs(time)).toBe(false), 5_000);
  });

  it('whose records cannot be read from the disk is lost, and has failed where they are wrong', async () => {
    const read = async (error: Error) => {
      const tail = createOutputTail();
      const unread = async function* (): AsyncGenerator<Uint8Array> {
        yield Buffer.from('1\n');
        await Promise.reject(error);
      };
      const { exceeded } = await runProgram({
        launcher: join(engineDirectory(), 'covey-launch'),
        ...{ argv: ['/bin/cat'], environment: {}, options: null, sandboxed: false },
        ...{ workingDirectory: room.directory, watched: [], stdin: unread(), stdout: null, tail },
        group: createLimitGroup({ kind: 'rlimits' }, { ...limits, fileBytes: MiB, cpus: 1 }),
        budget: { limitBytes: MiB, printedBytes: 0, givenBytes: 0 },
        ...{ signal: new AbortController().signal, graceMs: () => 0, lowPriority: () => false },
      });
      return exceeded?.code;
    };
    expect(await read(new Error('EIO: i/o error, read'))).toBe('task_lost');
    expect(await read(new CoveyError('dataset_invalid', 'a quote is never closed'))).toBe('dataset_invalid');
  });

  it('is counted itself', async () => {
    const { usage } = await room.run({
      command: ['python3', '-c', 'import time; x = bytearray(60 << 20); time.sleep(1.2)'],
      limits,
    });
    expect(usage.peakBytes).toBeGreaterThan(60 * MiB);
  });
});

describe.runIf(process.platform === 'linux').each(ways)('a program %s', (_name, sandbox, method) => {
  let room: Room;
  beforeAll(async () => {
    room = await openRoom(join(engineDirectory(), 'covey-launch'), sandbox, method);
  });
  afterAll(() => room.close());
  const sh = (script: string, change: object = {}) => ({ script, limits, ...change });

  it('gets its variables, its files, and nothing of our environment', async () => {
    process.env['COVEY_TEST_SECRET'] = 'ours';
    const { failure, output, usage } = await room.run({
      command: [
        '/bin/sh',
        '-c',
        'echo "$0 $1 $GREETING"; cat "$TOKEN_FILE"; echo; env; pwd',
        '{index}/{count}',
        '{cpus}',
      ],
      env: { GREETING: 'hello {attempt}' },
      secrets: { TOKEN: 'hush' },
      limits,
    });
    delete process.env['COVEY_TEST_SECRET'];
    expect(failure).toBeNull();
    expect(output).toContain('7/100 1 hello 1\nhush\n');
    expect(output).not.toContain('ours');
    expect(output).toMatch(/^COVEY_INDEX=7$/m);
    expect(output).toMatch(/\/work$/m);
    expect(usage.cpuMs === null || usage.cpuMs < 5_000).toBe(true);
  });

  it('tells its exit code, and its death by a signal', async () => {
    const no = await room.run(sh('echo no >&2; exit 3'));
    expect(no.failure).toMatchObject({ outcome: 'failed', exitCode: 3, code: 'task_failed' });
    expect(no.output).toBe('no\n');
    const crash = await room.run(sh('kill -SEGV $$'));
    expect(crash.failure).toMatchObject({ outcome: 'crashed', code: 'task_crashed' });
    expect(crash.failure?.message).toContain('SIGSEGV');
  });

  it('that is not there is told from one that says so itself', async () => {
    for (const name of ['/no/such/program', './program', 'nosuchprogram']) {
      const { failure } = await room.run({ command: [name, 'x'], limits });
      expect(failure, name).toMatchObject({ outcome: 'refused', code: 'program_not_found', exitCode: null });
      expect(failure?.message).toBe(`there is no program "${name}" here (is it one of the inputs?)`);
    }
    const words = 'echo "bwrap: execvp x: No such file or directory" >&2';
    for (const code of [1, 70, 126, 127]) {
      const { failure } = await room.run(sh(`${words}; exit ${code}`));
      expect(failure, String(code)).toMatchObject({ outcome: 'failed', code: 'task_failed', exitCode: code });
    }
  });

  if (sandbox.kind === 'bubblewrap') {
    it('whose sandbox cannot be made has not failed', async () => {
      const mounts = [{ source: '/no/such/input', path: 'input' }];
      const { failure } = await room.run(sh('exit 0'), { mounts });
      expect(failure).toMatchObject({ outcome: 'lost', code: 'task_lost', exitCode: null });
      expect(failure?.message).toContain('its sandbox could not be made: bwrap: ');
    });
  }

  it('leaves outputs, and those that are missing are named', async () => {
    const made = await room.run(
      sh('mkdir -p $COVEY_OUTPUT/d/e; echo 1 > $COVEY_OUTPUT/f; echo 2 > $COVEY_OUTPUT/d/e/g'),
      {
        outputs: [
          { path: 'f', optional: false },
          { path: 'd', optional: false },
          { path: 'x', optional: true },
        ],
      },
    );
    expect(made.made.map(({ name, kind }) => [name, kind])).toEqual([
      ['f', 'file'],
      ['d', 'tree'],
    ]);
    expect(await readFile(made.made[0]?.path ?? '', 'utf8')).toBe('1\n');
    const missing = await room.run(sh('true'), { outputs: [{ path: 'x', optional: false }] });
    expect(missing.failure?.message).toContain('output x was not made');
  });

  it('cannot pass off links as outputs', async () => {
    for (const script of [
      'ln -s /etc/passwd $COVEY_OUTPUT/x',
      'mkdir $COVEY_OUTPUT/x; ln -s / $COVEY_OUTPUT/x/y',
      'mkfifo $COVEY_OUTPUT/x',
    ]) {
      const { failure } = await room.run(sh(script), { outputs: [{ path: 'x', optional: false }] });
      expect(failure?.message, script).toMatch(/is (a link|neither)/);
    }
    const through = await room.run(sh('ln -s /etc $COVEY_OUTPUT/x'), {
      outputs: [{ path: 'x/passwd', optional: false }],
    });
    expect(through.failure?.message).toContain('is a link');
  });

  it.each([
    ['prints', 'cat /dev/zero'],
    ['complains', 'cat /dev/zero >&2'],
    ['writes one file of', 'cat /dev/zero > $COVEY_OUTPUT/big'],
    ['writes many files of', 'i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero > f$i; done'],
    [
      'removes the files it has open of',
      `exec python3 -c '
import os, time
held = []
for i in range(20):
  held.append(open("f", "wb", 0)); os.remove("f"); held[-1].write(bytes(1000000))
time.sleep(1000)'`,
    ],
  ])('that %s a gigabyte is ended', async (_what, script) => {
    const { failure, wallMs } = await room.run(sh(script));
    expect(failure).toMatchObject({ code: 'task_output_too_large', outcome: 'failed' });
    expect(wallMs).toBeLessThan(8_000);
  });

  it('has as much for its output as it may, whatever lies there before', async () => {
    const directory = join(room.directory, 'given');
    await mkdir(join(directory, 'work'), { recursive: true });
    await writeFile(join(directory, 'work', 'input'), Buffer.alloc(limits.outputBytes + 1));
    const { failure } = await room.run(sh('echo made > $COVEY_OUTPUT/f'), { directory });
    expect(failure).toBeNull();
  });

  it('that takes all memory is ended, and named', async () => {
    const program = `python3 -c "x = []
while True: x.append(bytearray(1 << 20))"`;
    const { failure } = await room.run(sh(`${program} || exit $?`));
    // A process at its own limit may still say so itself.
    expect(['task_memory_exceeded', 'task_failed']).toContain(failure?.code);
    if (method.kind !== 'rlimits') expect(failure?.code).toBe('task_memory_exceeded');
  });

  // Nothing holds it where root has no control groups, so no program runs there (compute-facts.ts).
  if (method.kind !== 'rlimits' || process.getuid?.() !== 0) {
    it('that forks without end is contained, and nothing of it is left', async () => {
      const mark = `covey-bomb-${process.pid}-${Math.random()}`;
      const bomb = `b() { sleep 1000.${process.pid} & b & b; }; b; # ${mark}`;
      const stopping = new AbortController();
      const timer = setTimeout(() => stopping.abort(), 3_000);
      const { failure, wallMs } = await room.run(sh(bomb), { signal: stopping.signal });
      clearTimeout(timer);
      expect(failure).not.toBeNull();
      expect(wallMs).toBeLessThan(15_000);
      expect(runs(`1000.${process.pid}`)).toBe(false);
    });
  }

  it('that ignores SIGTERM is killed after its grace, with what it started', async () => {
    const stopping = new AbortController();
    setTimeout(() => stopping.abort(), 500);
    const { failure, wallMs } = await room.run(
      sh(`trap '' TERM; (trap '' TERM; sleep 2000.${process.pid}) & while :; do sleep 1; done`),
      { signal: stopping.signal, graceMs: 1_000 },
    );
    expect(failure).toMatchObject({ outcome: 'lost', code: 'cancelled' });
    expect(wallMs).toBeGreaterThan(1_400);
    expect(wallMs).toBeLessThan(5_000);
    expect(runs(`2000.${process.pid}`)).toBe(false);
  });

  it('that obeys SIGTERM ends by itself', async () => {
    const stopping = new AbortController();
    setTimeout(() => stopping.abort(), 500);
    const { output, wallMs } = await room.run(
      sh('trap "echo bye; exit 0" TERM; while :; do sleep 0.05; done'),
      { signal: stopping.signal, graceMs: 5_000 },
    );
    expect(output).toContain('bye');
    expect(wallMs).toBeLessThan(3_000);
  });

  it('steps back while the machine is not lent', async () => {
    const { output } = await room.run(sh('sleep 1.2; nice'), { lowPriority: true });
    expect(output).toBe('19\n');
  });

  it('that ends leaves nothing running behind', async () => {
    const { failure } = await room.run(sh(`setsid sleep 3000.${process.pid} & exit 0`));
    expect(failure).toBeNull();
    expect(runs(`3000.${process.pid}`)).toBe(false);
  });

  const inSandbox = (name: string, tests: () => void): void => {
    // No skips: there is nothing that should be tried.
    if (sandbox.kind === 'bubblewrap') describe(name, tests);
  };

  inSandbox('sees', () => {
    it('neither the homes, nor other directories, nor the processes of the machine', async () => {
      await mkdir(join(room.directory, 'private'), { recursive: true });
      await writeFile(join(room.directory, 'private', 'key'), 'secret');
      const { output } = await room.run(
        sh(
          `ls / /home /root /var ${room.directory} 2>&1; ls /proc | grep -c '^[0-9]'; id -u; touch /usr/x 2>&1; cat /etc/shadow 2>&1`,
        ),
      );
      expect(output).not.toContain('private');
      expect(output).toMatch(/\/root'?: No such file/);
      expect(output).toMatch(/^[1-9]$/m);
      expect(output).toMatch(/^1000$/m);
      expect(output).toContain('Read-only file system');
      expect(output).toMatch(/shadow: No such file/);
    });

    it('no network, loopback of the machine included', async () => {
      const server = createServer((socket) => socket.end('reached')).listen(0, '127.0.0.1');
      await new Promise((resolve) => server.once('listening', resolve));
      const { port } = server.address() as { port: number };
      const { output } = await room.run({
        command: [
          '/usr/bin/python3',
          '-c',
          `import socket
for host in ("127.0.0.1", "192.0.2.1"):
  try:
    print(socket.create_connection((host, ${port}), 2).recv(9))
  except OSError as error: print("no", error)`,
        ],
        limits,
      });
      server.close();
      expect(output).not.toContain('reached');
      expect(output.match(/^no /gm)).toHaveLength(2);
    });

    it('its inputs, read-only', async () => {
      const source = join(room.directory, 'input.txt');
      await writeFile(source, 'given', { mode: 0o644 });
      const stake = { id: 'a'.repeat(64) as ArtifactId, kind: 'file' as const, bytes: 5 };
      const { output } = await room.run(
        {
          command: ['/bin/sh', '-c', 'cat {input.data/in.txt}; cat data/in.txt; echo x > data/in.txt'],
          inputs: [{ artifact: stake, path: 'data/in.txt' }],
          limits,
        },
        { mounts: [{ source, path: 'data/in.txt' }] },
      );
      expect(output).toContain('givengiven');
      expect(await readFile(source, 'utf8')).toBe('given');
    });
  });

  inSandbox('is kept apart', () => {
    it('from what starts it: its variables are its own', async () => {
      const { output } = await room.run(
        sh('echo "$LD_DEBUG_OUTPUT"', {
          env: { LD_DEBUG: 'files', LD_DEBUG_OUTPUT: join(room.directory, 'outside') },
        }),
      );
      expect(output).toContain(join(room.directory, 'outside'));
      expect((await readdir(room.directory)).filter((name) => name.startsWith('outside'))).toEqual([]);
      const mark = '/covey/more';
      const value = `x\0--ro-bind\0/\0${mark}`;
      const more = await room.run(sh(`ls ${mark}`, { env: { EVIL: value } }));
      expect(more.failure).toMatchObject({ code: 'job_invalid', outcome: 'failed' });
      expect(more.failure?.message).toContain('EVIL');
    });

    it('from the settings of the kernel and from memory without a limit', async () => {
      const places = '/x /dev/x /etc/x /covey/x /usr/x /proc/sys/vm/swappiness /proc/self/oom_score_adj';
      const { output } = await room.run(
        sh(
          `set -- $(cat /proc/sys/vm/swappiness); for place in ${places}; do (echo $1 > $place) 2>/dev/null && echo "wrote $place"; done; echo tried; touch /tmp/x /dev/shm/x x $COVEY_OUTPUT/x && echo own`,
        ),
      );
      expect(output).toBe('tried\nown\n');
    });

    it('without rights, terminal, or a way to more of either', async () => {
      const { output } = await room.run(
        sh(
          'grep -E "^(NoNewPrivs|CapEff|CapBnd):" /proc/self/status; (: < /dev/tty) 2>/dev/null && echo terminal; unshare -U true 2>/dev/null && echo namespaces; cat /proc/keys /proc/kcore /proc/timer_list 2>/dev/null; ls /proc/acpi 2>/dev/null; tr "\\0" "\\n" < /proc/1/environ | grep -v ^PWD=',
        ),
      );
      expect(output).toMatch(/^CapEff:\s0+\nCapBnd:\s0+\nNoNewPrivs:\s1\n/m);
      expect(output.trim().split('\n')).toHaveLength(3);
    });

    it('with the network, of the machine it sees its interfaces and processors, not its parts', async () => {
      const { output } = await room.run(
        sh(
          'ls /sys /sys/class /sys/class/net; cat /sys/devices/system/cpu/online; ls -d /sys/firmware /sys/kernel /sys/block /sys/class/dmi /sys/devices/virtual/dmi 2>/dev/null; find /sys/devices -name "*serial*" -o -name vpd -readable',
          { network: 'lan' },
        ),
      );
      const names = readdirSync('/sys/class/net').sort();
      const online = readFileSync('/sys/devices/system/cpu/online', 'utf8').trim();
      expect(
        output
          .trim()
          .split('\n')
          .filter((line) => !line.endsWith(':') && line !== ''),
      ).toEqual([...['bus', 'class', 'devices', ...['infiniband', 'net'].filter(isClass)], ...names, online]);
    });
  });

  describe('fed with records', () => {
    const dataset = (format: 'csv' | 'text', path: string, per: 'chunk' | 'record') => ({
      dataset: {
        artifact: { id: 'a'.repeat(64) as ArtifactId, kind: 'file' as const, bytes: 1 },
        format,
        recordBytes: null,
        header: true,
      },
      path,
      seek: null,
      per,
    });

    it('gets the header and its share, in one piece or one by one', async () => {
      const path = join(room.directory, 'data.csv');
      await writeFile(path, 'a,b\n1,"x\ny"\n2,z\n3,"say ""hi\n"""\n4,w');
      const all = await room.run(
        { command: ['cat'], limits },
        { feed: dataset('csv', path, 'chunk'), range: { from: 1, to: 4 } },
      );
      expect(await readFile(all.made[0]?.path ?? '', 'utf8')).toBe('a,b\n2,z\n3,"say ""hi\n"""\n4,w');
      const each = await room.run(
        { command: ['/bin/sh', '-c', 'wc -l | tr -d " "'], limits },
        { feed: dataset('csv', path, 'record'), range: { from: 0, to: 3 } },
      );
      expect(await readFile(each.made[0]?.path ?? '', 'utf8')).toBe('3\n2\n3\n');
    });

    if (sandbox.kind === 'bubblewrap')
      it('begins each record anew, whatever links the last has left', async () => {
        const path = join(room.directory, 'two');
        await writeFile(path, '1\n2\n');
        const outside = join(room.directory, 'links-lead-here');
        await mkdir(outside);
        const source = join(room.directory, 'two-input');
        await writeFile(source, 'given\n');
        const stake = { id: 'a'.repeat(64) as ArtifactId, kind: 'file' as const, bytes: 6 };
        const { made, failure } = await room.run(
          {
            script: `cat data/in.txt; ls; mv data moved; ln -s /oldroot${outside} data`,
            inputs: [{ artifact: stake, path: 'data/in.txt' }],
            limits,
          },
          {
            mounts: [{ source, path: 'data/in.txt' }],
            feed: dataset('text', path, 'record'),
            range: { from: 0, to: 2 },
          },
        );
        expect(failure).toBeNull();
        expect(await readFile(made[0]?.path ?? '', 'utf8')).toBe('given\ndata\ngiven\ndata\n');
        expect(await readdir(outside)).toEqual([]);
      });

    it('may stop reading, and a failure names its record', async () => {
      const path = join(room.directory, 'lines');
      await writeFile(path, 'line\n'.repeat(500_000));
      const early = await room.run(
        { command: ['head', '-n', '1'], limits },
        { feed: dataset('text', path, 'chunk'), range: { from: 10, to: 500_000 } },
      );
      expect(early.failure).toBeNull();
      const failing = await room.run(
        { command: ['false'], limits },
        { feed: dataset('text', path, 'record'), range: { from: 10, to: 20 } },
      );
      expect(failing.failure?.message).toBe('record 10: the program ended with exit code 1');
      const beyond = await room.run(
        { command: ['cat'], limits },
        { feed: dataset('text', path, 'chunk'), range: { from: 10, to: 500_001 } },
      );
      expect(beyond.failure).toMatchObject({ code: 'dataset_invalid', outcome: 'failed' });
    });
  });

  it('whose output cannot be written, or whose dataset is not there, ends at once', async () => {
    const feed = (path: string) => ({
      feed: {
        dataset: {
          artifact: { id: 'a'.repeat(64) as ArtifactId, kind: 'file' as const, bytes: 1 },
          format: 'text' as const,
          recordBytes: null,
          header: false,
        },
        path,
        seek: null,
        per: 'chunk' as const,
      },
      range: { from: 0, to: 1 },
    });
    const path = join(room.directory, 'one-line');
    await writeFile(path, 'line\n');
    const directory = join(room.directory, 'unwritable');
    await mkdir(join(directory, 'stdout'), { recursive: true });
    const full = await room.run(sh('head -c 1000000 /dev/zero; sleep 1000'), { ...feed(path), directory });
    expect(full.failure).toMatchObject({ outcome: 'lost', code: 'task_lost' });
    expect(full.wallMs).toBeLessThan(5_000);
    const gone = await room.run(sh('true'), feed(join(room.directory, 'no-such-file')));
    expect(gone.failure).toMatchObject({ outcome: 'failed' });
  });

  it('leaves no control group behind', async () => {
    if (method.kind !== 'cgroup1' && method.kind !== 'cgroup2') return;
    const directories = method.kind === 'cgroup2' ? [method.directory] : Object.values(method.directories);
    for (const directory of directories) {
      expect((await readdir(directory)).filter((name) => name.startsWith(`covey-${process.pid}-`))).toEqual(
        [],
      );
    }
  });
});
