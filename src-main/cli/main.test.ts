import { describe, expect, it } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import { scriptedIo } from '../../e2e/support/cli-io.ts';
import type { RouteScript } from '../../e2e/support/scripted-api.ts';
import {
  at,
  exampleDeployment,
  exampleId,
  exampleModel,
  exampleNode,
  exampleStage,
  exampleStatus,
  exampleTransfer,
  nodeIdOf,
} from '../../e2e/support/views.ts';
import { useCovey } from '../../e2e/support/use-covey.ts';

const { covey } = useCovey();

const drained = exampleNode({
  id: nodeIdOf('b'),
  name: 'attic',
  status: 'draining',
  eligible: false,
  ineligibleReasons: ['it is draining'],
  drain: { startedAt: at - 1, deadlineAt: at + 90_000, completedAt: null },
  telemetry: null,
});

function expectLines(text: string, width: number): void {
  for (const line of text.split('\n')) expect(line.length, line).toBeLessThanOrEqual(width);
}

describe('what people read, at 80 columns', () => {
  it('status', async () => {
    const { stdout } = await covey('status', { status: () => exampleStatus });
    expect(stdout).toMatchInlineSnapshot(`
      "Controller:   hall (cccccccccccc), covey 0.1.0
      Up for:       60 min
      API:          http://127.0.0.1:7878/v1 (OpenAI), http://127.0.0.1:7878/api
      Cluster port: 0.0.0.0:7879
      Engine:       v0.4.0-rpc6-linux-x64
      Machines:     1 of 2 may get work
      Models:       1 of 1 ready
      Requests:     3 running
      "
    `);
    expectLines(stdout, 80);
  });

  it('nodes, and workers is the same word', async () => {
    const nodes = () => ({ nodes: [exampleNode({ deployments: [exampleId] }), drained] });
    const { stdout } = await covey('nodes', { nodes });
    expect(stdout).toMatchInlineSnapshot(`
      "NAME   STATUS    CORES  LOAD  RAM FREE  DEVICES  LOADED  ID
      desk   ready        16   12%  20.5 GiB  CPU           1  aaaaaaaaaaaa
      attic  draining     16                  CPU           0  bbbbbbbbbbbb

      attic gets no work: it is draining, requests may run for 90 s more
      "
    `);
    expectLines(stdout, 80);
    expect((await covey('workers list', { nodes })).stdout).toBe(stdout);
  });

  it('one that is drained is called so', async () => {
    const over = { ...drained, drain: { startedAt: at - 2, deadlineAt: at + 90_000, completedAt: at - 1 } };
    const { stdout } = await covey('nodes', { nodes: () => ({ nodes: [over] }) });
    expect(stdout).toMatch(/^attic +drained /m);
    expect(stdout).toContain('attic gets no work: nothing runs there, until it is resumed\n');
    const info = await covey('nodes info attic', { node: () => over });
    expect(info.stdout).toMatch(/^Status: +drained, nothing runs there, until it is resumed$/m);
  });

  it('long names are cut, ids never', async () => {
    const name = 'a-machine-with-a-name-that-is-as-long-as-the-rules-allow-for-sure';
    const { stdout } = await covey('nodes', { nodes: () => ({ nodes: [exampleNode({ name })] }) });
    expectLines(stdout, 80);
    expect(stdout).toContain('…');
    expect(stdout).toContain('a'.repeat(12));
  });

  it('one node', async () => {
    const { stdout, api } = await covey('nodes info desk', { node: () => exampleNode() });
    expect(api.requests[0]?.params).toEqual({ node: 'desk' });
    expect(stdout).toMatchInlineSnapshot(`
      "Name:          desk
      Id:            aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
      Status:        ready, may get work
      Address:       192.0.2.10
      Last heard of: 1.0 s ago
      Joined:        2026-11-29T12:00:00.000Z
      Covey:         0.1.0
      Engine:        v0.4.0-rpc6-linux-x64
      System:        linux x64, Debian 12
      CPU:           Example CPU 9000, 8 cores, 16 threads
      CPU load:      12%
      RAM:           20.5 GiB free of 32.0 GiB
      Disk:          400 GiB free of 900 GiB at /home
      GPUs:          unknown: the probe timed out
      Deployments:   none

      DEVICE  KIND      FREE     TOTAL  NAME
      CPU     cpu   20.0 GiB  32.0 GiB  Example CPU 9000
      "
    `);
    expectLines(stdout, 80);
  });

  it('deployments, with the reason of one that failed', async () => {
    const failed = exampleDeployment({
      model: 'big',
      status: 'failed',
      stages: [],
      reason: { code: 'engine_out_of_memory', message: 'attic has no memory left for it.' },
    });
    const { stdout } = await covey('deployments', {
      deployments: () => ({ deployments: [exampleDeployment(), failed] }),
    });
    expect(stdout).toMatchInlineSnapshot(`
      "MODEL        STATUS  MACHINES              CONTEXT  RUNNING  ID
      stories260K  ready   desk 50% + attic 50%     2048      1/4  d-1a2b3c4d
      big          failed                           2048      1/4  d-1a2b3c4d

      big: attic has no memory left for it.
      "
    `);
    expectLines(stdout, 80);
  });

  it('one deployment', async () => {
    const { stdout } = await covey(`deployments info ${exampleId}`, {
      deployment: () => exampleDeployment(),
    });
    expect(stdout).toMatchInlineSnapshot(`
      "Model:     stories260K
      Id:        d-1a2b3c4d
      Status:    ready
      Source:    /models/stories260K.gguf
      File:      llama, F32, 1.1 MiB, 5 layers
      Context:   2048 tokens for each of 4 requests at once
      Running:   1 request
      Ready for: 5.0 s

      MACHINE  ROLE    DEVICE  LAYERS  SHARE  PHASE    MEMORY  LINK
      desk     leader  CPU     3 of 6    50%  ready  49.6 MiB
      attic    stage   CPU     3 of 6    50%  ready  39.1 MiB  direct 0.4 ms
      "
    `);
    expectLines(stdout, 80);
  });

  it('models', async () => {
    const { stdout } = await covey('models', { models: () => ({ models: [exampleModel] }) });
    expect(stdout).toMatchInlineSnapshot(`
      "NAME            SIZE  KIND   TYPE  LAYERS  CONTEXT  MACHINE
      stories260K  1.1 MiB  llama  F32        5     2048  desk
      "
    `);
    expectLines(stdout, 80);
  });

  it.each([
    ['nodes', { nodes: () => ({ nodes: [] }) }, 'covey invite'],
    ['deployments', { deployments: () => ({ deployments: [] }) }, 'covey load'],
    ['models', { models: () => ({ models: [] }) }, 'covey pull'],
  ] as const)('empty %s say what to do next', async (words, scripts, next) => {
    const { code, stdout } = await covey(words, scripts);
    expect(code).toBe(0);
    expect(stdout).toContain(next);
    expectLines(stdout, 80);
  });

  it('help', async () => {
    const { code, stdout } = await covey('help');
    expect(code).toBe(0);
    expectLines(stdout, 80);
    for (const command of ['status', 'nodes|workers', 'load <model>', 'controller', 'worker']) {
      expect(stdout).toContain(command);
    }
  });
});

describe('load', () => {
  const loading = (percent: number, doneBytes: number) =>
    exampleDeployment({
      status: 'loading',
      readyAt: null,
      progress: { step: 'loading tensors', doneBytes, totalBytes: 500_000_000, percent },
      stages: [exampleStage({ phase: 'loading' }), exampleStage({ nodeName: 'attic', role: 'stage' })],
    });

  it('sends what was asked, shows the stages and ends when it is ready', async () => {
    const views = [loading(10, 50_000_000), loading(90, 450_000_000), exampleDeployment()];
    const { code, stdout, stderr, api } = await covey(
      'load /m.gguf --nodes desk,attic --split desk=60,attic=40% --leader desk --ctx 512 --parallel 2 --name n',
      { load: () => loading(0, 0), deployment: () => views.shift() },
    );
    expect(code).toBe(0);
    expect(api.requests[0]?.body).toEqual({
      model: '/m.gguf',
      nodes: ['desk', 'attic'],
      split: { desk: 60, attic: 40 },
      leader: 'desk',
      contextPerRequest: 512,
      parallel: 2,
      name: 'n',
    });
    expect(stderr).toMatchInlineSnapshot(`
      "stories260K: loading tensors 0 B of 477 MiB (desk loading, attic ready)
      "
    `);
    expect(stdout.replace(/http:[^/]*\/\/[^/]*/, 'URL')).toMatchInlineSnapshot(`
      "stories260K is ready after 750 ms (d-1a2b3c4d).

      MACHINE  ROLE    DEVICE  LAYERS  SHARE  PHASE    MEMORY  LINK
      desk     leader  CPU     3 of 6    50%  ready  49.6 MiB
      attic    stage   CPU     3 of 6    50%  ready  39.1 MiB  direct 0.4 ms

      Endpoint URL/v1, model name "stories260K".
      "
    `);
  });

  it('rewrites one line on a terminal and takes it away at the end', async () => {
    const io = scriptedIo({ errIsTty: true });
    const views = [loading(50, 250_000_000), exampleDeployment()];
    const { stderr } = await covey(
      'load m',
      { load: () => loading(0, 0), deployment: () => views.shift() },
      io,
    );
    expect(stderr).not.toContain('\n');
    expect(stderr.endsWith('\r\u001b[K')).toBe(true);
    expect(stderr).toContain('loading tensors 50%, 238 MiB of 477 MiB');
  });

  it('does not wait when told so', async () => {
    const { code, stdout, api } = await covey('load m --no-wait', { load: () => loading(0, 0) });
    expect(code).toBe(0);
    expect(stdout).toContain(`loads as ${exampleId}`);
    expect(api.requests.map((request) => request.route)).toEqual(['load']);
  });

  it('prints every reason of a refusal', async () => {
    const { code, stdout, stderr } = await covey('load m', {
      load: () => {
        throw new CoveyError('placement_refused', 'big does not fit.', {
          reasons: [
            {
              code: 'memory',
              message: 'desk lacks memory',
              neededBytes: 3 * 1024 ** 3,
              availableBytes: 1024 ** 3,
            },
            { code: 'offline', message: 'attic is offline' },
          ],
        });
      },
    });
    expect(code).toBe(1);
    expect(stdout).toBe('');
    expect(stderr).toBe(
      'error: big does not fit.\n  - desk lacks memory (needs 3.0 GiB, has 1.0 GiB)\n  - attic is offline\n',
    );
  });

  it("ends with the engine's reason when it fails", async () => {
    const failed = exampleDeployment({
      status: 'failed',
      reason: { code: 'engine_load_failed', message: 'The file is cut short.' },
    });
    const { code, stderr } = await covey('load m', { load: () => loading(0, 0), deployment: () => failed });
    expect(code).toBe(1);
    expect(stderr).toContain('error: stories260K could not be loaded: The file is cut short.');
  });

  it('gives up watching one that waits for machines', async () => {
    const waiting = exampleDeployment({
      status: 'waiting',
      stages: [],
      reason: { code: 'no_nodes', message: 'attic is away.' },
    });
    const { code, stderr } = await covey('load m', { load: () => waiting, deployment: () => waiting });
    expect(code).toBe(1);
    expect(stderr).toContain('still waits: attic is away.');
  });

  it('says so when it is unloaded meanwhile', async () => {
    const { code, stderr } = await covey('load m', {
      load: () => loading(0, 0),
      deployment: () => {
        throw new CoveyError('deployment_not_found', `There is no deployment "${exampleId}".`);
      },
    });
    expect(code).toBe(1);
    expect(stderr).toContain('was unloaded while it was being loaded');
  });

  it('goes on without the command after Ctrl-C', async () => {
    const io = scriptedIo();
    const { code, stderr } = await covey(
      'load m',
      {
        load: () => loading(0, 0),
        deployment: () => {
          io.interrupt();
          return loading(1, 1);
        },
      },
      io,
    );
    expect(code).toBe(130);
    expect(stderr).toContain(`"covey unload ${exampleId}" ends it`);
  });

  it('rides out a controller that restarts, and not one that stays away', async () => {
    const views = [exampleDeployment()];
    let calls = 0;
    const flaky: RouteScript = (_request, response) => {
      calls += 1;
      if (calls < 3) return void response.destroy();
      return views.shift();
    };
    expect((await covey('load m', { load: () => loading(0, 0), deployment: flaky })).code).toBe(0);
    const dead: RouteScript = (_request, response) => void response.destroy();
    expect((await covey('load m', { load: () => loading(0, 0), deployment: dead })).code).toBe(3);
  });

  it('downloads hf: models first', async () => {
    const transfers = [
      exampleTransfer({ doneBytes: 500_000, totalBytes: 1_000_000, bytesPerS: 250_000 }),
      exampleTransfer({ status: 'done', doneBytes: 1_000_000, totalBytes: 1_000_000, model: 'file' }),
    ];
    const { code, stderr, api } = await covey('load hf:owner/repo/file.gguf --leader desk', {
      pullModel: () => exampleTransfer(),
      transfer: () => transfers.shift(),
      load: () => exampleDeployment(),
    });
    expect(code).toBe(0);
    expect(api.requests[0]?.body).toEqual({ source: 'hf:owner/repo/file.gguf', node: 'desk' });
    expect(api.requests.at(-1)?.body).toMatchObject({ model: 'file' });
    expect(stderr).toContain('Downloading hf:owner/repo/file.gguf');
  });

  it('makes a relative path of a file here absolute', async () => {
    const io = scriptedIo({ fileExists: (path) => path === '/somewhere/m.gguf' });
    const { api } = await covey('load m.gguf', { load: () => exampleDeployment() }, io);
    expect(api.requests[0]?.body).toEqual({ model: '/somewhere/m.gguf' });
  });
});

describe('machines and transfers', () => {
  it('drains with a deadline and resumes', async () => {
    const { stdout, api } = await covey('drain attic --deadline 90', { drain: () => drained });
    expect(api.requests[0]?.body).toEqual({ deadlineMs: 90_000 });
    expect(stdout).toContain('may finish within 90 s');
    await api.close();
    expect((await covey('resume desk', { resume: () => exampleNode() })).stdout).toBe(
      'desk takes work again.\n',
    );
  });

  it('asks before it removes a machine', async () => {
    const scripts = { node: () => exampleNode(), removeNode: () => ({}) };
    const yes = await covey('remove desk', scripts, scriptedIo({ answers: ['y'] }));
    expect([yes.code, yes.api.requests.length]).toEqual([0, 2]);
    const no = await covey('remove desk', scripts, scriptedIo({ answers: [''] }));
    expect([no.code, no.api.requests.length]).toEqual([1, 1]);
    const nobody = await covey('remove desk', scripts);
    expect([nobody.code, nobody.api.requests.length]).toEqual([2, 1]);
    expect(nobody.stderr).toContain('--yes');
    expect((await covey('remove desk --yes', scripts)).code).toBe(0);
  });

  it('prints only the join string on stdout', async () => {
    const { stdout, stderr } = await covey('invite', {
      invite: () => ({ joinString: 'covey1.abc', expiresAt: at + 3_600_000 }),
    });
    expect(stdout).toBe('covey1.abc\n');
    expect(stderr).toContain('60 min');
  });

  it('cancels a download on Ctrl-C', async () => {
    const io = scriptedIo();
    const { code, api } = await covey(
      'pull hf:owner/repo/file.gguf',
      {
        pullModel: () => {
          io.interrupt();
          return exampleTransfer();
        },
        transfer: () => {
          io.interrupt();
          return exampleTransfer();
        },
        cancelTransfer: () => exampleTransfer({ status: 'cancelled' }),
      },
      io,
    );
    expect(code).toBe(130);
    expect(api.requests.at(-1)?.route).toBe('cancelTransfer');
  });

  it("ends with a transfer's own error", async () => {
    const { code, stderr } = await covey('import /m.gguf --node desk', {
      importModel: () =>
        exampleTransfer({
          kind: 'import',
          status: 'failed',
          error: { code: 'model_not_gguf', message: '/m.gguf is not a GGUF file.' },
        }),
    });
    expect([code, stderr]).toEqual([1, 'error: /m.gguf is not a GGUF file.\n']);
  });
});

describe('events and logs', () => {
  const event = (id: number, message: string) =>
    `id: ${id}\ndata: ${JSON.stringify({ id, at, kind: 'node-joined', level: 'info', message })}\n\n`;

  it('prints the kept events and ends', async () => {
    const { code, stdout, api } = await covey('events --json', {
      events: (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(`: hello\n\n${event(1, 'desk joined.')}${event(2, 'att').slice(0, 20)}`);
        setTimeout(() => response.write(event(2, 'att').slice(20)), 20);
      },
    });
    expect(code).toBe(0);
    expect(api.requests[0]?.headers['last-event-id']).toBe('0');
    expect(
      stdout
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { message: string }).message),
    ).toEqual(['desk joined.', 'att']);
  });

  it('follows until the stream ends', async () => {
    const { code, stdout } = await covey('events --follow', {
      events: (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.end(event(1, 'desk joined.'));
      },
    });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d {2}desk joined\.\n$/);
  });

  it('prints the events of one job in their order, and goes on with those of it', async () => {
    const ofJob = (id: number, message: string, jobId = 'j-00000001') => ({
      ...{ id, at, kind: 'job-done', level: 'info', message, jobId },
    });
    const { code, stdout, api } = await covey('events --job sum --follow', {
      eventHistory: ({ query }) =>
        query['before'] === undefined
          ? { events: [ofJob(9, 'third.'), ofJob(7, 'second.')], more: true }
          : { events: [ofJob(2, 'first.')], more: false },
      events: (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        const later = [ofJob(10, 'of another.', 'j-00000002'), ofJob(11, 'fourth.')];
        response.end(later.map((one) => `id: ${one.id}\ndata: ${JSON.stringify(one)}\n\n`).join(''));
      },
    });
    expect(code).toBe(0);
    expect(stdout.match(/\w+\.(?=\n)/g)).toEqual(['first.', 'second.', 'third.', 'fourth.']);
    expect(api.requests.map(({ query }) => query)).toEqual([
      { job: 'sum', limit: '1000' },
      { job: 'sum', limit: '1000', before: '7' },
      {},
    ]);
    expect(api.requests[2]?.headers['last-event-id']).toBe('9');
  });

  it('has an error for a job that there is not', async () => {
    const { code, stderr } = await covey('events --job j-0000000x', {
      eventHistory: () => ({ events: [], more: false }),
      job: () => {
        throw new CoveyError('job_not_found', 'There is no job "j-0000000x".');
      },
    });
    expect([code, stderr]).toEqual([1, 'error: There is no job "j-0000000x".\n']);
  });

  it('prints log lines', async () => {
    const { stdout, api } = await covey('logs --node desk --lines 5', {
      logs: () => ({
        lines: [
          { at, nodeId: nodeIdOf('a'), nodeName: 'desk', level: 'warn', source: 'engine', message: 'hot' },
        ],
      }),
    });
    expect(api.requests[0]?.query).toEqual({ limit: '5', node: 'desk' });
    expect(stdout).toMatch(/ {2}warn {3}desk engine: hot\n$/);
  });
});

describe('text from the cluster', () => {
  const evil = 'de\u001b]0;pwned\u0007sk\u202e\r\nfake';

  it('cannot drive the terminal, in tables, errors or progress', async () => {
    const shown = [
      await covey('nodes', {
        nodes: () => ({ nodes: [exampleNode({ name: evil }), { ...drained, name: evil }] }),
      }),
      await covey('nodes info x', { node: () => exampleNode({ name: evil, address: evil }) }),
      await covey('deployments', {
        deployments: () => ({ deployments: [exampleDeployment({ model: evil })] }),
      }),
      await covey('load m', {
        load: () => exampleDeployment({ status: 'loading', model: evil }),
        deployment: () =>
          exampleDeployment({ status: 'failed', reason: { code: 'engine_crashed', message: evil } }),
      }),
    ];
    for (const { stdout, stderr } of shown) {
      expect(stdout + stderr).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
      expect(stdout + stderr).toContain('\\x1b');
    }
  });

  it('is coloured on a terminal only, and not with NO_COLOR', async () => {
    const scripts = { nodes: () => ({ nodes: [exampleNode()] }) };
    const onTty = await covey('nodes', scripts, scriptedIo({ outIsTty: true }));
    expect(onTty.stdout).toContain('\u001b[32mready\u001b[0m');
    const no = await covey('nodes', scripts, scriptedIo({ outIsTty: true, env: { NO_COLOR: '1' } }));
    expect(no.stdout).not.toContain('\u001b');
  });
});
