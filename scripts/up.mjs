import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { bootstrap } from './lib/bootstrap.mjs';
import { ensureBuild } from './lib/build.mjs';
import { ScriptError, runScript, say } from './lib/console.mjs';
import { inRoot } from './lib/paths.mjs';
import { startNode } from './lib/up-processes.mjs';
import { summary } from './lib/up-summary.mjs';

const usage = `Usage: npm run up [-- OPTIONS]

Starts a controller and two workers on this machine, loads a model split over
both workers, and runs until Ctrl-C.

  --model PATH|hf:OWNER/REPO/FILE.gguf   the model (default: a tiny one)
  --api PORT|HOST:PORT                   where the API is (default: 7878, or the
                                         next free port)
  --cluster HOST:PORT                    where other machines reach the
                                         controller (default: 127.0.0.1, any
                                         port: only this machine)
  --data DIR                             data and logs (default: build/up)`;

const defaultModel = 'hf:ggml-org/test-model-stories260K';
/** The default model is a convenience: without a network nobody should wait for it. */
const defaultModelMs = 10_000;
const workersReadyMs = 60_000;
const answerMs = 120_000;
const workers = ['worker-1', 'worker-2'];

await runScript(async () => {
  const options = parseArguments();
  await bootstrap();
  await ensureBuild();
  const { prepareEngine } = await import('./lib/engine.mjs');
  await prepareEngine();
  return await up(options);
});

function parseArguments() {
  /** @type {{ model?: string, api?: string, cluster?: string, data?: string, help?: boolean }} */
  let values;
  try {
    ({ values } = parseArgs({
      options: {
        model: { type: 'string' },
        api: { type: 'string' },
        cluster: { type: 'string' },
        data: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    }));
  } catch (error) {
    throw new ScriptError(`${error instanceof Error ? error.message.split('. ')[0] : error}.`, usage, 2);
  }
  if (values.help) {
    console.log(usage);
    process.exit(0);
  }
  const { model } = values;
  if (model !== undefined && !model.startsWith('hf:') && !isFile(path.resolve(model))) {
    throw new ScriptError(`There is no file ${path.resolve(model)}.`, 'Check --model.', 2);
  }
  if (values.api !== undefined && !/^([^\s:]+:|\[[0-9a-f:.]+\]:)?\d{1,5}$/i.test(values.api)) {
    throw new ScriptError(`--api must be PORT or HOST:PORT, got "${values.api}".`, '', 2);
  }
  if (values.cluster !== undefined && !/^([^\s:]+|\[[0-9a-f:.]+\]):\d{1,5}$/i.test(values.cluster)) {
    throw new ScriptError(`--cluster must be HOST:PORT, got "${values.cluster}".`, '', 2);
  }
  return { ...values, data: path.resolve(values.data ?? inRoot('build', 'up')) };
}

function isFile(file) {
  return existsSync(file) && statSync(file).isFile();
}

/** Runs until it is stopped or something that it started ends; resolves to the exit code. */
async function up(options) {
  /** @type {(() => Promise<void>)[]} */
  const stops = [];
  const stopped = new AbortController();
  listenForStop(stopped);
  try {
    const running = await startAll(options, stops, stopped.signal);
    if (running === null) return 0;
    const first = await Promise.race([
      aborted(stopped.signal).then(() => null),
      ...running.map((one) => one.exited.then(() => one)),
    ]);
    if (first === null) return 0;
    throw new ScriptError(`The ${first.name} process has ended by itself.`, first.lastWords());
  } catch (error) {
    if (stopped.signal.aborted) return 0; // Whatever broke, it broke because we were told to stop.
    throw error;
  } finally {
    say('Stopping ...');
    // Workers say goodbye to a controller that is still there.
    const [controller, ...rest] = stops;
    await Promise.all(rest.map((stop) => stop()));
    await controller?.();
    say('Stopped.');
  }
}

async function startAll(options, stops, signal) {
  const onStarted = (stop) => stops.push(stop);
  const directory = options.data;
  const api = await chooseApi(options.api);
  const cluster = options.cluster ?? '127.0.0.1:0';
  const clusterHost = cluster.slice(0, cluster.lastIndexOf(':'));
  // What only this machine can reach need not be found by others.
  const open = !/^(127\.|localhost|\[?::1)/.test(clusterHost);
  const quiet = open ? [] : ['--no-discovery'];

  say('Starting a controller and two workers ...');
  const controller = await startNode({
    name: 'controller',
    args: ['controller', '--api', api, '--cluster', cluster, ...quiet],
    directory,
    onStarted,
  });
  if (signal.aborted) return null;
  const baseUrl = controller.report.apiAddress ?? `http://${api}`;
  const { createApiClient } = await import('../src-main/cli/api-client.ts');
  const controllerData = path.join(directory, controller.name);
  const { token } = JSON.parse(readFileSync(path.join(controllerData, 'api-access.json'), 'utf8'));
  const client = createApiClient(baseUrl, { token });
  const nodes = [controller];
  for (const name of workers) {
    const { joinString } = await client.call('invite');
    nodes.push(
      await startNode({
        name,
        args: ['worker', '--join', '-', '--api', 'none', '--cluster', `${clusterHost}:0`, ...quiet],
        directory,
        input: joinString,
        onStarted,
      }),
    );
    if (signal.aborted) return null;
  }
  await waitForWorkers(client, signal);

  const model = await chooseModel(options, client, controllerData, signal);
  await unloadOthers(client, model.source, signal);
  const deployment = await load(controllerData, model.source, signal);
  const answer = await complete(baseUrl, deployment.model, model.prompt, signal);
  const invitation = open ? (await client.call('invite')).joinString : null;
  const signIn = await client.call('signInCode');
  client.close();
  if (signal.aborted) return null;
  process.stdout.write(
    summary({
      api: baseUrl,
      deployment,
      about: model.about,
      prompt: model.prompt,
      answer,
      invitation,
      link: `${baseUrl}/#code=${signIn.code}`,
      linkMinutes: Math.round(signIn.lifeMs / 60_000),
      directory,
      controllerData,
    }),
  );
  return nodes;
}

/** The API address asked for, else port 7878 or the next free one that means nothing else to Covey. */
async function chooseApi(wanted) {
  if (wanted !== undefined) return /^\d+$/.test(wanted) ? `127.0.0.1:${wanted}` : wanted;
  for (const port of [7878, 7888, 7898, 7908, 7918]) {
    if (!(await isFree(port))) continue;
    if (port !== 7878) say(`Port 7878 is in use; the API is on ${port}.`);
    return `127.0.0.1:${port}`;
  }
  say('Port 7878 and its neighbours are in use; the API is on any free port.');
  return '127.0.0.1:0';
}

function isFree(port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

async function waitForWorkers(client, signal) {
  const deadline = Date.now() + workersReadyMs;
  for (;;) {
    const { nodes } = await client.call('nodes');
    const ours = nodes.filter((node) => workers.includes(node.name));
    if (ours.length === workers.length && ours.every((node) => node.eligible)) return;
    if (signal.aborted) throw new Error('stopped');
    if (Date.now() > deadline) {
      const why = ours.map((node) => `${node.name}: ${node.ineligibleReasons.join('; ') || node.status}`);
      throw new ScriptError(
        `The workers were not ready after ${workersReadyMs / 1000} s.`,
        why.join('\n') || 'None of them has joined.',
      );
    }
    await pause(100, signal);
  }
}

/**
 * A model by its name in the library of the first worker, which the dashboard shows and loads from.
 *
 * 1. The model asked for.
 * 2. The tiny public one, from the library of an earlier run or downloaded within a few seconds.
 * 3. One made here.
 */
async function chooseModel(options, client, controllerData, signal) {
  const prompt = 'Once upon a time';
  const wanted = options.model;
  if (wanted !== undefined && !wanted.startsWith('hf:')) {
    const source = await addToLibrary(controllerData, path.resolve(wanted), signal);
    return { source, about: path.basename(wanted), prompt };
  }
  const source = wanted ?? defaultModel;
  const { models } = await client.call('models');
  const kept = models.find((model) => model.source === source && model.nodeName === workers[0]);
  if (kept) return { source: kept.name, about: source, prompt };
  const limit =
    wanted === undefined ? AbortSignal.any([signal, AbortSignal.timeout(defaultModelMs)]) : signal;
  const pulled = await runCommand(
    controllerData,
    ['pull', source, '--node', workers[0]],
    limit,
    wanted === undefined,
  );
  if (pulled !== null) return { source: pulled.model, about: source, prompt };
  if (wanted !== undefined || signal.aborted) throw new ScriptError(`${source} could not be downloaded.`);

  say(`${defaultModel} could not be downloaded; making a model instead.`);
  const { generatePredictableModel } = await import('../src-worker/models/predictable.ts');
  const file = path.join(options.data, 'made-up-story.gguf');
  mkdirSync(options.data, { recursive: true });
  await generatePredictableModel({ path: file, signal });
  const made = await addToLibrary(controllerData, file, signal);
  return { source: made, about: 'made here: tells one story for ever', prompt: 'Every morning' };
}

/** The model's name there; the path itself when it does not get in: a disk may have no room for a second copy. */
async function addToLibrary(controllerData, file, signal) {
  const imported = await runCommand(controllerData, ['import', file, '--node', workers[0]], signal, false);
  if (imported !== null) return imported.model;
  if (signal.aborted) throw new Error('stopped');
  say('It is not in the library, so it is loaded from where it is.');
  return file;
}

/** An earlier run may have left another model: this one shows one. */
async function unloadOthers(client, source, signal) {
  for (;;) {
    const { deployments } = await client.call('deployments');
    const others = deployments.filter((one) => one.source !== source || one.status === 'failed');
    if (others.length === 0) return;
    for (const one of others)
      if (one.status !== 'unloading') await client.call('unload', { params: { id: one.id } });
    if (signal.aborted) throw new Error('stopped');
    await pause(200, signal);
  }
}

async function load(controllerData, source, signal) {
  const [one, two] = workers;
  const args = [
    'load',
    source,
    '--leader',
    one,
    '--nodes',
    workers.join(','),
    '--split',
    `${one}=50,${two}=50`,
  ];
  const deployment = await runCommand(controllerData, args, signal, false);
  if (deployment === null) throw new ScriptError('The model could not be loaded.', 'The reason is above.');
  return deployment;
}

/**
 * Runs one `covey` command in this process, with its progress; resolves to what it prints with --json, null when
 * it failed or was stopped by the signal.
 */
async function runCommand(controllerData, args, signal, quiet) {
  const { runCli } = await import('../src-main/cli/main.ts');
  const { processIo } = await import('../src-main/cli/process-io.ts');
  const io = processIo(() => Promise.reject(new Error('No command that runs here copies a database.')));
  let output = '';
  const code = await runCli(['--data', controllerData, '--json', ...args], {
    ...io,
    out: (text) => {
      output += text;
    },
    err: (text) => {
      if (!quiet || text.startsWith('\r')) io.err(text);
    },
    onInterrupt(listener) {
      if (signal.aborted) setImmediate(listener);
      signal.addEventListener('abort', listener);
      return () => signal.removeEventListener('abort', listener);
    },
  });
  return code === 0 ? JSON.parse(output) : null;
}

/** The proof that it works: the beginning of an answer. */
async function complete(baseUrl, model, prompt, signal) {
  /** @type {any} whatever came: it is looked at with care */
  let answer;
  try {
    const response = await fetch(`${baseUrl}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model, prompt, temperature: 0, max_tokens: 24 }),
      signal: AbortSignal.any([signal, AbortSignal.timeout(answerMs)]),
    });
    answer = await response.json();
  } catch (error) {
    throw new ScriptError(
      `The model is loaded, but ${baseUrl}/v1/completions gave no answer: ${error instanceof Error ? error.message : error}.`,
    );
  }
  const text = answer?.choices?.[0]?.text;
  if (typeof text === 'string') return text;
  throw new ScriptError(
    `The model is loaded, but does not answer: ${answer?.error?.message ?? JSON.stringify(answer)}`,
  );
}

/** Ctrl-C may come twice for one key press (from the terminal and through npm); a later one means hurry. */
function listenForStop(stopped) {
  let firstAt = 0;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      if (!stopped.signal.aborted) {
        firstAt = Date.now();
        stopped.abort();
      } else if (Date.now() - firstAt > 1_000) {
        // The pipes close with us, and the nodes end by themselves.
        process.exit(130);
      }
    });
  }
}

function aborted(signal) {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener('abort', () => resolve(undefined));
  });
}

function pause(ms, signal) {
  return Promise.race([new Promise((resolve) => setTimeout(resolve, ms)), aborted(signal)]);
}
