import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { scriptedIo, type ScriptedIo } from '../../../e2e/support/cli-io.ts';
import { at, exampleNode } from '../../../e2e/support/views.ts';
import { doneJob, exampleJob, failedJob } from '../../../e2e/support/job-views.ts';
import { startScriptedApi, type RouteScript, type ScriptedApi } from '../../../e2e/support/scripted-api.ts';
import type { ApiRoute } from '#shared/api/schema.ts';
import type { ArtifactView } from '#shared/domain/artifact.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { CoveyError } from '#shared/errors.ts';
import type * as Artifacts from './artifacts.ts';
import { Exit, exitCodes } from '../failure.ts';
import { runCli } from '../main.ts';

const exampleArtifact: ArtifactView = {
  ...{ id: 'a'.repeat(64) as ArtifactId, kind: 'file', name: 'data', bytes: 1, files: 1 },
  ...{ createdAt: at, lastUsedAt: at, pinned: true, jobs: [], holders: [], collectableAt: null },
};
const put: string[] = [];
// What putting a file asks of the API is the artifacts' own business, and their tests'.
vi.mock('./artifacts.ts', async (original) => ({
  ...(await original<typeof Artifacts>()),
  putPath: async (_context: unknown, path: string) => {
    put.push(path);
    if (path.endsWith('broken')) throw new Exit(exitCodes.interrupted);
    const id = String(put.length).repeat(64);
    return { artifact: { ...exampleArtifact, id }, wasKept: path.endsWith('known') };
  },
}));

let directory: string;
let api: ScriptedApi;
let io: ScriptedIo;
beforeEach(() => {
  put.length = 0;
  directory = mkdtempSync(join(tmpdir(), 'covey-run-'));
  io = scriptedIo({ workingDirectory: directory });
});
afterEach(async () => {
  await api.close();
  rmSync(directory, { recursive: true });
});

async function covey(
  words: readonly string[],
  scripts: Partial<Record<ApiRoute, RouteScript>> = { submitJob: () => exampleJob(), job: () => doneJob() },
): Promise<number> {
  api = await startScriptedApi(scripts);
  return runCli(['--data', api.dataDirectory, ...words], io);
}
const submitted = (): unknown => api.requests.find(({ route }) => route === 'submitJob')?.body;
const file = (name: string, text = 'x'): string => {
  writeFileSync(join(directory, name), text);
  return join(directory, name);
};

describe('a specification', () => {
  test('takes its files along, each once, from where it lies', async () => {
    mkdirSync(join(directory, 'jobs'));
    const data = file('data.f64', '12345678');
    file(
      'jobs/job.yaml',
      'kind: kernel\nkernel: dot_product\ntype: f64\ninput: ../data.f64\nsecond: ../data.f64\n',
    );
    expect(await covey(['run', 'jobs/job.yaml']), io.stderr()).toBe(0);
    expect(put).toEqual([data]);
    expect(submitted()).toMatchObject({
      name: 'job',
      kernel: 'dot_product',
      input: '1'.repeat(64),
      second: '1'.repeat(64),
    });
    expect(io.stdout()).toBe('9007199187632128\n');
  });

  test('names an artifact that is no path', async () => {
    file('job.json', '{"kind":"kernel","kernel":"sum","type":"i32","input":"numbers"}');
    expect(await covey(['run', 'job.json', '--detach'])).toBe(0);
    expect(put).toEqual([]);
    expect(submitted()).toMatchObject({ input: 'numbers' });
  });

  test('with a file that is not there is refused before anything is sent', async () => {
    file('job.yaml', 'kind: kernel\nkernel: sum\ntype: f64\ninput: ./none.f64\n');
    expect(await covey(['run', 'job.yaml'])).toBe(2);
    expect(io.stderr()).toContain('input: there is no ');
    expect(api.requests).toEqual([]);
  });

  test('from an editor that marks its files, as JSON too', async () => {
    file('job.json', '\ufeff{"kind":"kernel","kernel":"sum","type":"i32","input":"numbers"}');
    expect(await covey(['run', 'job.json', '--detach']), io.stderr()).toBe(0);
  });

  test('of somebody else cannot change the terminal with its words', async () => {
    file('job.yaml', 'kind: command\ncommand: [x]\n"\\e[31mred": 1\n');
    expect(await covey(['run', 'job.yaml'])).toBe(2);
    expect(io.stderr()).toContain('\\x1b[31mred');
    expect(io.stderr()).not.toContain('\u001b');
  });

  test('that is wrong names the field', async () => {
    file('job.yaml', 'kind: kernel\nkernel: sum\ntype: f64\n');
    expect(await covey(['run', 'job.yaml'])).toBe(2);
    expect(io.stderr()).toContain('error: job.yaml: input: ');
  });
});

describe('a submission', () => {
  test('that got no answer is asked for again with the same key', async () => {
    file('job.json', '{"kind":"kernel","kernel":"sum","type":"i32","input":"numbers"}');
    let calls = 0;
    const submitJob: RouteScript = (_request, response) => {
      calls += 1;
      if (calls === 1) return void response.destroy();
      if (calls === 2) throw new CoveyError('shutting_down', 'The controller ends.');
      return exampleJob();
    };
    expect(await covey(['run', 'job.json', '--detach'], { submitJob }), io.stderr()).toBe(0);
    const keys = api.requests.map(({ headers }) => headers['idempotency-key']);
    expect(keys).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/), keys[0], keys[0]]);
  });

  test('that was refused is not, nor one that nobody heard', async () => {
    file('job.json', '{"kind":"kernel","kernel":"sum","type":"i32","input":"numbers"}');
    const submitJob: RouteScript = () => {
      throw new CoveyError('too_many_requests', '1000 jobs are unfinished.');
    };
    expect(await covey(['run', 'job.json'], { submitJob })).toBe(1);
    expect(api.requests).toHaveLength(1);
    const before = io.now();
    expect(await runCli(['--data', directory, 'run', 'job.json'], io)).toBe(3);
    expect(io.now()).toBe(before);
  });

  test('that is interrupted says that it is not known', async () => {
    file('job.json', '{"kind":"kernel","kernel":"sum","type":"i32","input":"numbers"}');
    const submitJob: RouteScript = () => void io.interrupt();
    expect(await covey(['run', 'job.json'], { submitJob })).toBe(130);
    expect(io.stderr()).toContain('"covey jobs" shows it');
  });
});

describe('what is refused leaves nothing behind', () => {
  const refuse: RouteScript = () => {
    throw new CoveyError('commands_forbidden', 'No machine may run commands.');
  };
  const command = (...inputs: string[]): string[] => [
    ...['run', 'command', '--detach'],
    ...inputs.flatMap((input) => ['--input', input]),
    ...['--', 'true'],
  ];
  const routes = (): string[] =>
    api.requests.map(({ route, params }) => `${route} ${params['artifact'] ?? ''}`);
  const [first, third] = ['1'.repeat(64), '3'.repeat(64)];

  test('what was put for it is kept no longer, but what was kept before or is used by now', async () => {
    for (const name of ['one', 'known', 'used']) file(name);
    const artifact: RouteScript = ({ params }) => ({
      ...{ ...exampleArtifact, id: params['artifact'] as ArtifactId },
      jobs: params['artifact'] === third ? ['j-1a2b3c4d'] : [],
    });
    const scripts = { submitJob: refuse, artifact, removeArtifact: () => ({}) };
    expect(await covey(command('one', 'known', 'used'), scripts)).toBe(1);
    expect(routes()).toEqual([
      'submitJob ',
      `artifact ${first}`,
      `removeArtifact ${first}`,
      `artifact ${third}`,
    ]);
    expect(io.stderr()).toBe('What was put for it is not kept.\nerror: No machine may run commands.\n');
  });

  test('also where Ctrl-C ends the sending of a later one', async () => {
    for (const name of ['one', 'known', 'broken', 'never']) file(name);
    const scripts: Partial<Record<ApiRoute, RouteScript>> = {
      artifact: () => exampleArtifact,
      removeArtifact: () => ({}),
    };
    expect(await covey(command('one', 'known', 'broken', 'never'), scripts)).toBe(130);
    expect(put).toHaveLength(3);
    expect(routes()).toEqual([`artifact ${first}`, `removeArtifact ${first}`]);
    expect(io.stderr()).toBe('What was put for it is not kept.\n');
  });

  test('but not where there may be a job now', async () => {
    file('one');
    expect(await covey(command('one'), { submitJob: (_request, response) => void response.destroy() })).toBe(
      3,
    );
    expect(new Set(routes())).toEqual(new Set(['submitJob ']));
  });

  test.each([
    ['a machine that there is not', ['--nodes', 'dekc'], 'There is no machine "dekc". There are: desk.', 1],
    ['a share of one', ['--shares', 'dekc=1'], 'There is no machine "dekc". There are: desk.', 1],
    ['a length that is no whole number', ['--type', 'i64'], 'input: 12 bytes are no whole number of i64', 2],
  ])('%s is found before anything is sent', async (_name, words, message, code) => {
    file('data.i32', '123456789012');
    const scripts = { nodes: () => ({ nodes: [exampleNode()] }), submitJob: refuse };
    expect(await covey(['run', 'kernel', 'sum', 'data.i32', ...words], scripts)).toBe(code);
    expect(io.stderr()).toContain(message);
    expect(put).toEqual([]);
    expect(routes()).not.toContain('submitJob ');
  });

  test.each([
    ['./nothing', 'command.0: there is no program ./nothing, neither here nor among the inputs.'],
    ['./folder', 'command.0: ./folder is a folder, no program.'],
    ['./set/bin/nothing', 'command.0: there is no program ./set/bin/nothing, neither here'],
    ['./set/bin', 'command.0: ./set/bin is a folder, no program.'],
  ])('a program %s too', async (program, message) => {
    file('rows.txt');
    for (const folder of ['folder', 'set/bin']) mkdirSync(join(directory, folder), { recursive: true });
    file('set/bin/tool');
    file('windows.exe');
    const map = ['run', 'map', '--detach', '--dataset', 'rows.txt', '--input', 'set', '--input', 'known'];
    expect(await covey([...map, '--', program])).toBe(2);
    expect(io.stderr()).toContain(`error: ${message}`);
    expect([put, api.requests]).toEqual([[], []]);
    await api.close();
    for (const there of ['./set/bin/tool', './known/x', './{index}/x', './windows']) {
      const words = [...map, '--input', 'windows.exe', '--', there];
      expect(
        await covey(words, { artifact: () => exampleArtifact, submitJob: () => exampleJob() }),
        io.stderr(),
      ).toBe(0);
      await api.close();
    }
  });

  test('a program of a specification that is here but no input says what to add', async () => {
    file('tool');
    file('job.yaml', 'kind: command\ncommand: [./tool]\n');
    expect(await covey(['run', 'job.yaml'])).toBe(2);
    expect(io.stderr()).toContain(
      'error: command.0: ./tool is none of the inputs: add { artifact: ./tool, path: tool }.',
    );
    expect(api.requests).toEqual([]);
  });

  test('a model that nobody serves too', async () => {
    file('rows.jsonl', '{"prompt":"x"}');
    const scripts = { deployments: () => ({ deployments: [] }), submitJob: refuse };
    expect(await covey(['run', 'inference', 'huge', '--dataset', 'rows.jsonl'], scripts)).toBe(1);
    expect(io.stderr()).toContain('No model is served as "huge". Nothing is loaded.');
    expect(put).toEqual([]);
  });

  test('nor vectors of two lengths, nor a second one that is nowhere', async () => {
    file('a.i32', '12345678');
    file('b.i32', '1234');
    const artifact: RouteScript = () => {
      throw new CoveyError('artifact_not_found', 'There is no artifact "none.i32".');
    };
    expect(await covey(['run', 'kernel', 'dot_product', 'a.i32', 'b.i32'])).toBe(2);
    expect(io.stderr()).toContain('second: both vectors must have the same length; they have 8 and 4 bytes.');
    await api.close();
    expect(await covey(['run', 'kernel', 'dot_product', 'a.i32', 'none.i32'], { artifact })).toBe(1);
    expect(io.stderr()).toContain('error: second: "none.i32" is neither a file here nor an artifact.');
    expect(put).toEqual([]);
  });
});

describe('a name that is nothing', () => {
  const submitJob: RouteScript = () => {
    const field = 'input';
    throw new CoveyError('artifact_not_found', 'input: There is no artifact "numbers.f64".', { field });
  };
  test('in a short form', async () => {
    expect(await covey(['run', 'kernel', 'sum', 'numbers.f64'], { submitJob })).toBe(1);
    expect(io.stderr()).toBe('error: input: "numbers.f64" is neither a file here nor an artifact.\n');
  });

  test('in a specification beside that file', async () => {
    file('numbers.f64');
    file('job.yaml', 'kind: kernel\nkernel: sum\ntype: f64\ninput: numbers.f64\n');
    expect(await covey(['run', 'job.yaml'], { submitJob })).toBe(1);
    expect(io.stderr()).toContain(
      'input: "numbers.f64" is no artifact; the file here is named "./numbers.f64".',
    );
  });
});

describe('short forms', () => {
  test('a kernel over a file: its type is in its name', async () => {
    const data = file('data.f32', '1234');
    expect(
      await covey(
        'run kernel histogram data.f32 --bins 4 --low -1 --high 1 --nodes a,b --memory 2GB'.split(' '),
      ),
      io.stderr(),
    ).toBe(0);
    expect(put).toEqual([data]);
    expect(submitted()).toMatchObject({
      name: 'histogram data.f32',
      ...{ kernel: 'histogram', type: 'f32', bins: 4, low: -1, high: 1 },
      requires: { nodes: ['a', 'b'], memoryBytes: 2 * 1024 ** 3 },
      partitions: 'auto',
    });
  });

  test('a command with its tool, inputs, secrets and outputs', async () => {
    const [tool, token] = [file('tool'), file('token', 's3cret')];
    mkdirSync(join(directory, 'set'));
    const words = [
      'run',
      'command',
      '--input',
      'set=data',
      '--input',
      'model',
      '--env',
      'A=1',
      '--env',
      'B={index}',
    ];
    const more = [
      '--secret',
      `KEY=${token}`,
      '--output',
      'out.txt',
      '--shares',
      'a=60,b=40',
      '--partitions',
      '4',
    ];
    expect(await covey([...words, ...more, '--', './tool', '-x', '{input.data}']), io.stderr()).toBe(0);
    expect(put).toEqual([join(directory, 'set'), tool]);
    expect(submitted()).toMatchObject({
      name: 'tool',
      command: ['./tool', '-x', '{input.data}'],
      inputs: [
        { artifact: '1'.repeat(64), path: 'data' },
        { artifact: 'model', path: 'model' },
        { artifact: '2'.repeat(64), path: 'tool' },
      ],
      env: { A: '1', B: '{index}' },
      secrets: { KEY: 's3cret' },
      outputs: [{ path: 'out.txt', optional: false }],
      partitions: 4,
      distribution: {
        mode: 'manual',
        shares: [
          { node: 'a', percent: 60 },
          { node: 'b', percent: 40 },
        ],
      },
    });
  });

  test('files of any name: the job has one that fits', async () => {
    const long = `${'x'.repeat(200)}.f64`;
    file(long, '12345678');
    expect(await covey(['run', 'kernel', 'sum', long, '--detach']), io.stderr()).toBe(0);
    expect(submitted()).toMatchObject({ name: `sum ${'x'.repeat(60)}` });
    await api.close();
    file('a=b');
    const words = ['run', 'command', '--detach', '--input', 'a=b', '--input', 'x=y=z', '--', 'tool'];
    expect(await covey(words), io.stderr()).toBe(0);
    expect(submitted()).toMatchObject({ inputs: [{ path: 'a=b' }, { artifact: 'x=y', path: 'z' }] });
  });

  test('a map over records, a model over prompts, a gang', async () => {
    file('rows.jsonl');
    expect(await covey('run map --dataset rows.jsonl --per record --detach -- wc'.split(' '))).toBe(0);
    expect(submitted()).toMatchObject({ kind: 'map', per: 'record', dataset: { format: 'jsonl' } });
    await api.close();
    expect(await covey('run inference tiny --dataset rows.jsonl --max-tokens 9 --detach'.split(' '))).toBe(0);
    expect(submitted()).toMatchObject({ kind: 'inference', task: 'chat', parameters: { max_tokens: 9 } });
    await api.close();
    expect(await covey('run gang --ranks 3 --per-node 1 --network lan --detach -- train'.split(' '))).toBe(0);
    expect(submitted()).toMatchObject({ kind: 'gang', ranks: 3, perNode: 1, network: 'lan' });
  });
});

describe('waiting', () => {
  test('shows a bar on a terminal, and the failure with what to do', async () => {
    io = scriptedIo({ workingDirectory: directory, errIsTty: true });
    const views = [exampleJob(), failedJob()];
    const code = await covey(['run', 'command', '--', 'render'], {
      submitJob: () => exampleJob({ status: 'queued' }),
      job: () => views.shift(),
    });
    expect(code).toBe(1);
    expect(io.stderr()).toContain('running [############--------] 61%, on 2 machines');
    expect(io.stderr()).toContain('error: Partition 1 failed 3 times');
    expect(io.stderr()).toContain('covey jobs retry');
    expect(io.stdout()).toContain('0/frame.png');
  });

  test('Ctrl-C without an answer leaves the job alone', async () => {
    const code = await covey(['run', 'command', '--', 'x'], {
      submitJob: () => exampleJob(),
      job: () => {
        io.interrupt();
        return exampleJob();
      },
    });
    expect(code).toBe(130);
    expect(io.stderr()).toContain('covey jobs wait j-1a2b3c4d');
    expect(api.requests.map(({ route }) => route)).not.toContain('cancelJob');
  });

  test('Ctrl-C and yes ends it, and waits until it has ended', async () => {
    io = scriptedIo({ workingDirectory: directory, answers: ['y'] });
    const views = [exampleJob(), exampleJob({ status: 'cancelling' }), exampleJob({ status: 'cancelled' })];
    const code = await covey(['run', 'command', '--', 'x'], {
      submitJob: () => exampleJob(),
      job: () => {
        if (views.length === 3) io.interrupt();
        return views.shift();
      },
      cancelJob: () => exampleJob({ status: 'cancelling' }),
    });
    expect(code).toBe(1);
    expect(io.stderr()).toContain('was cancelled');
    expect(api.requests.map(({ route }) => route)).toContain('cancelJob');
  });

  test('rides out a controller that restarts', async () => {
    let calls = 0;
    const code = await covey(['run', 'command', '--', 'x'], {
      submitJob: () => exampleJob(),
      job: (_request, response) => {
        calls += 1;
        if (calls < 3) return void response.destroy();
        return doneJob();
      },
    });
    expect(code).toBe(0);
  });
});
