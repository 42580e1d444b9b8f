import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { llamaServerArguments, rpcServerArguments, type LlamaProgram } from './arguments.ts';
import { canaryRequest, checkCanary } from './canary.ts';
import { explainExit } from './engine-error.ts';
import { decodeHello, encodeHello, rpcCompatible, rpcHello } from './rpc-handshake.ts';
import { parseServerOutput } from './server-output.ts';

const program: LlamaProgram = {
  kind: 'llama',
  modelPath: '/models/a b.gguf',
  modelName: 'tiny',
  modelBytes: 1_000,
  apiKey: 'f'.repeat(64),
  contextPerRequest: 512,
  parallel: 4,
  gpuLayers: 17,
  localDevices: ['CUDA0'],
  tensorSplit: [3, 7, 7],
  rpcEndpoints: ['127.0.0.1:1', '127.0.0.1:2'],
  threads: 1,
  poll: 0,
  batch: 512,
  loadStallMs: 1,
  canaryMs: 1,
};

describe('arguments', () => {
  const value = (args: string[], name: string): string | undefined => args[args.indexOf(name) + 1];

  it('name devices in order, local ones first, after the RPC endpoints that make them', () => {
    const args = llamaServerArguments(program);
    expect(value(args, '--rpc')).toBe('127.0.0.1:1,127.0.0.1:2');
    expect(value(args, '--device')).toBe('CUDA0,RPC0,RPC1');
    expect(value(args, '--tensor-split')).toBe('3,7,7');
    expect(args.indexOf('--rpc')).toBeLessThan(args.indexOf('--device'));
    expect(value(args, '--n-gpu-layers')).toBe('17');
    expect(value(args, '--fit')).toBe('off');
  });

  it('give the engine the context of all requests together', () => {
    expect(value(llamaServerArguments(program), '--ctx-size')).toBe('2048');
  });

  it('without any device offload nothing and split nothing', () => {
    const args = llamaServerArguments({
      ...program,
      localDevices: [],
      rpcEndpoints: [],
      tensorSplit: [],
      gpuLayers: 0,
    });
    expect(value(args, '--device')).toBe('none');
    expect(args).not.toContain('--rpc');
    expect(args).not.toContain('--tensor-split');
  });

  it('carry no secret', () => {
    expect(llamaServerArguments(program).join(' ')).not.toContain(program.apiKey);
  });

  it('of a stage are explicit', () => {
    expect(rpcServerArguments({ kind: 'rpc', device: 'CPU', threads: 3, startMs: 30_000 }, 4001)).toEqual([
      '-H',
      '127.0.0.1',
      '-p',
      '4001',
      '-d',
      'CPU',
      '-t',
      '3',
    ]);
  });
});

describe('server output', () => {
  it.each([
    [
      'cmd_child_to_router:state:{"state":"loading","payload":{"stages":["text_model"],"current":"text_model","value":0.25}}',
      { kind: 'progress', stage: 'text_model', share: 0.25 },
    ],
    [
      'cmd_child_to_router:state:{"state":"ready","payload":{"id":"x","meta":{"n_vocab":512}}}',
      { kind: 'ready', vocabularySize: 512 },
    ],
    ['cmd_child_to_router:state:{"state":"ready","payload":null}', { kind: 'ready', vocabularySize: null }],
    [
      '0.01.234.567 I srv  llama_server: listening on http://127.0.0.1:41234',
      { kind: 'listening', port: 41234 },
    ],
    [
      '0.00.015.001 E llama_model_load: error loading model: x',
      { kind: 'log', level: 'error', message: 'llama_model_load: error loading model: x' },
    ],
    [
      'cmd_child_to_router:state:{broken',
      { kind: 'log', level: 'info', message: 'cmd_child_to_router:state:{broken' },
    ],
    [
      'cmd_child_to_router:state:{"state":"loading","payload":{"value":7}}',
      { kind: 'log', level: 'debug', message: 'state loading' },
    ],
  ])('%s', (line, expected) => {
    expect(parseServerOutput(line)).toEqual(expected);
  });
});

describe('why an engine ended', () => {
  const failed = { code: 1, signal: null };
  const aborted = { code: null, signal: 'SIGABRT' };

  it.each([
    [
      'memory before the lines that follow from it',
      [
        'E ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 1099511627776',
        'E llama_model_load: error loading model: unable to allocate CPU buffer',
        "E srv    load_model: failed to load model, '/m.gguf'",
      ],
      failed,
      'engine_out_of_memory',
      'not enough memory',
    ],
    [
      'an architecture nobody knows',
      [
        "E llama_model_load: error loading model: error loading model architecture: unknown model architecture: 'zeta'",
      ],
      failed,
      'engine_load_failed',
      '"zeta"',
    ],
    [
      'a damaged file',
      [
        "E gguf_init_from_file_impl: tensor 'blk.3.ffn_up.weight' data is not within the file bounds, model is corrupted or incomplete",
      ],
      failed,
      'engine_load_failed',
      'damaged or incomplete',
    ],
    [
      'a stage that broke off',
      ['Remote RPC server crashed or returned malformed response'],
      aborted,
      'stage_lost',
      'broke off',
    ],
    ['nothing but a signal', ['I all is well'], aborted, 'engine_crashed', 'SIGABRT'],
    ['a silent end', [], failed, 'engine_start_failed', 'code 1'],
    [
      'an argument of another version',
      ['error: invalid argument: --no-such-thing'],
      failed,
      'engine_start_failed',
      '--no-such-thing',
    ],
  ])('%s', (_case, lines, exit, code, words) => {
    const error = explainExit(
      lines.map((line) => (/^[IWE] /.test(line) ? `0.00.000.001 ${line}` : line)),
      exit,
      'load',
    );
    expect(error.code).toBe(code);
    expect(error.message).toContain(words);
    expect(error.message).not.toMatch(/llama_model_load|gguf_init|\n/);
  });

  it('while serving is not guessed from errors that it survived', () => {
    const lines = ['0.10.000.000 E srv  decode: failed to decode, error = 1'];
    expect(explainExit(lines, { code: null, signal: 'SIGKILL' }, 'run')).toMatchObject({
      code: 'engine_crashed',
    });
    expect(explainExit(lines, { code: null, signal: 'SIGKILL' }, 'run').message).toContain('SIGKILL');
  });
});

describe('canary', () => {
  const probability = (id: number, logprob: number | null, other = -3) => ({
    id,
    logprob,
    top_logprobs: [
      { id, logprob },
      { id: id + 1, logprob: other },
    ],
  });
  const answer = (body: unknown, status = 200) => ({
    status,
    text: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const good = { tokens: [5, 6], completion_probabilities: [probability(5, -0.5), probability(6, -1)] };

  it('gives the tokens and the lead of the first', () => {
    expect(checkCanary(answer(good), 32_000)).toEqual({ tokenIds: [5, 6], firstMargin: 2.5 });
    expect(canaryRequest.n_predict).toBe(8);
  });

  it.each([
    ['an HTTP error', answer({ error: { message: 'compute failed' } }, 500), 'HTTP 500'],
    ['no JSON', answer('<html>'), 'not JSON'],
    ['no tokens', answer({ ...good, tokens: [] }), 'no token'],
    ['an id outside the vocabulary', answer({ ...good, tokens: [40_000] }), '40000'],
    ['a NaN', answer({ ...good, completion_probabilities: [probability(5, null)] }), 'null'],
    [
      'an impossible probability',
      answer({ ...good, completion_probabilities: [probability(5, 3)] }),
      'log probability 3',
    ],
    ['no probabilities', answer({ tokens: [5] }), 'no probabilities'],
  ])('refuses %s', (_case, given, words) => {
    expect(() => checkCanary(given, 32_000)).toThrowError(words);
    try {
      checkCanary(given, 32_000);
    } catch (error) {
      expect(error).toMatchObject({ code: 'canary_failed' });
    }
  });
});

describe('RPC greeting', () => {
  let server: Server | null = null;
  afterEach(() => server?.close());

  const listen = (onConnection: (socket: Socket) => void): Promise<number> =>
    new Promise((resolve) => {
      server = createServer(onConnection).listen(0, '127.0.0.1', () =>
        resolve((server?.address() as AddressInfo).port),
      );
    });
  const reply = (bytes: number[]): Buffer => {
    const buffer = Buffer.alloc(36);
    buffer.writeBigUInt64LE(28n, 0);
    Buffer.from(bytes).copy(buffer, 8);
    return buffer;
  };

  it('is what ggml expects and reads what it answers, in pieces too', async () => {
    const got: Buffer[] = [];
    const port = await listen((socket) => {
      socket.on('data', (chunk) => {
        got.push(chunk);
        if (Buffer.concat(got).length < 33) return;
        const answer = reply([6, 1, 2, 0]);
        socket.write(answer.subarray(0, 10));
        setImmediate(() => socket.write(answer.subarray(10)));
      });
      socket.on('error', () => undefined);
    });
    await expect(rpcHello(port, 2_000)).resolves.toBe('6.1.2');
    expect(Buffer.concat(got)).toEqual(encodeHello());
    expect([...encodeHello().subarray(0, 9)]).toEqual([14, 24, 0, 0, 0, 0, 0, 0, 0]);
  });

  it('fails on something else, on silence, and where nobody listens', async () => {
    const stranger = await listen((socket) =>
      socket.end('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n'),
    );
    await expect(rpcHello(stranger, 2_000)).rejects.toThrow('does not speak');
    server?.close();
    const silent = await listen(() => undefined);
    await expect(rpcHello(silent, 50)).rejects.toThrow('no answer');
    server?.close();
    await expect(rpcHello(silent, 50)).rejects.toThrow();
  });

  it('decides on versions as the client does', () => {
    expect(decodeHello(reply([6, 0, 0, 0]))).toBe('6.0.0');
    expect(rpcCompatible('6.0.0', '6.0.3')).toBe(true);
    expect(rpcCompatible('6.1.0', '6.0.0')).toBe(true);
    expect(rpcCompatible('6.0.0', '6.1.0')).toBe(false);
    expect(rpcCompatible('6.0.0', '5.0.0')).toBe(false);
  });
});
