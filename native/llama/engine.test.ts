import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, linkSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { checkout, engineDirectory } from '../../e2e/support/checkout.ts';
import { startProcess, type ManagedProcess } from '../../e2e/support/managed-process.ts';
import { freePort, isListening } from '../../e2e/support/ports.ts';
import { waitFor } from '../../e2e/support/wait.ts';
import {
  openEngineDirectory,
  verifyEngineDirectory,
  type EngineDirectory,
} from '../../src-main/nodejs/engine-directory.ts';

const story = ', there was a little girl named Lily.';
const startMs = 30_000;

let engine: EngineDirectory;
const started: ManagedProcess[] = [];

beforeAll(async () => {
  const opened = await openEngineDirectory(engineDirectory());
  if (!opened.ok) throw new Error(opened.error.message);
  engine = opened.value;
});
afterEach(async () => {
  await Promise.all(started.splice(0).map((process) => process.stop(2_000)));
});

/** Engines get an environment that is built up. */
function start(label: string, program: string, args: readonly string[]): ManagedProcess {
  const process_ = startProcess({
    label,
    argv: [engine.launcher, '--', program, ...args],
    cwd: engine.dir,
    env: { PATH: process.env['PATH'], LC_ALL: 'C', GGML_NO_BACKTRACE: '1' },
  });
  started.push(process_);
  return process_;
}

async function startRpcServer(): Promise<{ process: ManagedProcess; endpoint: string }> {
  const port = await freePort();
  const server = start('rpc server', engine.rpcServer, ['-p', String(port), '-d', 'CPU', '-t', '1']);
  // Not by its output, which stays in a buffer until somebody has connected.
  await waitFor('the RPC server', () => isListening(port), startMs);
  return { process: server, endpoint: `127.0.0.1:${port}` };
}

async function startLlamaServer(model: string, args: readonly string[]): Promise<string> {
  const port = await freePort();
  const server = start('llama-server', engine.llamaServer, [
    ...['--model', model, '--offline', '--host', '127.0.0.1', '--port', String(port), '--fit', 'off'],
    ...['--ctx-size', '512', '--parallel', '1', '--threads', '1', '--poll', '0', '--no-ui', '--no-warmup'],
    ...args,
  ]);
  await waitFor(
    'llama-server',
    () => {
      if (server.hasExited) throw new Error(server.output());
      return server.output().includes('model loaded');
    },
    startMs,
  );
  return `http://127.0.0.1:${port}`;
}

async function complete(address: string, tokens: number): Promise<string> {
  const answer = await fetch(`${address}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'Once upon a time', max_tokens: tokens, temperature: 0 }),
    signal: AbortSignal.timeout(startMs),
  });
  const body = (await answer.json()) as { choices: { text: string }[] };
  return body.choices[0]?.text ?? JSON.stringify(body);
}

describe('the engine directory', () => {
  it('is whole: every file has the content that was built, and none lies there that was not', async () => {
    expect(await verifyEngineDirectory(engine)).toEqual({ ok: true, value: undefined });
  });

  it('holds the backends of this platform beside the programs', () => {
    const names = engine.manifest.files.map((file) => file.name);
    const extension = process.platform === 'win32' ? 'dll' : 'so';
    expect(names.filter((name) => new RegExp(`ggml-rpc\\.${extension}$`).test(name))).toHaveLength(1);
    expect(names.some((name) => new RegExp(`ggml-cpu(-.*)?\\.${extension}$`).test(name))).toBe(true);
    for (const kind of ['cuda', 'vulkan']) {
      const module_ = join(
        ...[checkout, 'node_modules', '@node-llama-cpp', `${process.platform}-${process.arch}-${kind}`],
        ...['bins', `${process.platform}-${process.arch}-${kind}`, `libggml-${kind}.so`],
      );
      expect(names.includes(`libggml-${kind}.so`), kind).toBe(existsSync(module_));
    }
  });

  it('speaks the RPC protocol that its manifest promises', async () => {
    const { process: server } = await startRpcServer();
    const greeting = `Starting RPC server v${engine.rpcProtocolVersion}`;
    await waitFor(greeting, () => server.output().includes(greeting), startMs);
  });

  it('works wherever it is moved to, without any environment', () => {
    const elsewhere = mkdtempSync(join(tmpdir(), 'covey engine '));
    try {
      for (const name of readdirSync(engine.dir)) linkOrCopy(join(engine.dir, name), join(elsewhere, name));
      const run = (program: string, ...args: string[]): string => {
        const result = spawnSync(join(elsewhere, basename(program)), args, {
          ...{ encoding: 'utf8', env: {}, cwd: tmpdir(), timeout: startMs },
        });
        return result.stdout + result.stderr;
      };
      expect(run(engine.llamaServer, '--list-devices')).toContain('Available devices:');
      // It refuses the device, after it has loaded its backends.
      const output = run(engine.rpcServer, '--device', 'none');
      expect(output).toContain(`loaded RPC backend from ${elsewhere}`);
      expect(output).toContain(`loaded CPU backend from ${elsewhere}`);
    } finally {
      rmSync(elsewhere, { recursive: true, force: true });
    }
  });
});

function linkOrCopy(source: string, target: string): void {
  try {
    linkSync(source, target);
  } catch {
    copyFileSync(source, target);
  }
}

const model = process.env['COVEY_TEST_MODEL'] ?? join(checkout, '..', 'shared', 'models', 'stories260K.gguf');

describe('a model', () => {
  it("answers over RPC what one process answers: all layers, and split with the server's own", async (context) => {
    if (!existsSync(model)) context.skip(`there is no model file ${model}; set COVEY_TEST_MODEL`);
    const expected = await complete(await startLlamaServer(model, ['--device', 'none', '-ngl', '0']), 200);
    expect(expected.startsWith(story)).toBe(true);

    for (const layers of ['99', '3']) {
      const { process: server, endpoint } = await startRpcServer();
      const address = await startLlamaServer(model, [
        ...['--rpc', endpoint, '--device', 'RPC0', '--split-mode', 'layer', '-ts', '1', '-ngl', layers],
      ]);
      expect(await complete(address, 200)).toBe(expected);
      // It was really there: its connection is open and its process has worked.
      expect(server.output().trimEnd().endsWith('Accepted client connection')).toBe(true);
      await Promise.all(started.splice(0).map((process) => process.stop(2_000)));
    }
  });

  it('is split 2:1 over two RPC servers in the order that was given', async (context) => {
    if (!existsSync(model)) context.skip(`there is no model file ${model}; set COVEY_TEST_MODEL`);
    const [first, second] = [await startRpcServer(), await startRpcServer()];
    const address = await startLlamaServer(model, [
      ...['--rpc', `${first.endpoint},${second.endpoint}`, '--device', 'RPC0,RPC1'],
      ...['-ts', '2,1', '-ngl', '99', '--log-verbosity', '5'],
    ]);
    expect((await complete(address, 16)).slice(0, story.length)).toBe(story);
    const assigned = [
      ...(started
        .at(-1)
        ?.output()
        .matchAll(/layer +(\d+) assigned to device (\w+)/g) ?? []),
    ].map((match) => match[2]);
    // Five layers and the output count as six, two thirds of which are four.
    expect(assigned).toEqual(['RPC0', 'RPC0', 'RPC0', 'RPC0', 'RPC1', 'RPC1']);
  });
});
