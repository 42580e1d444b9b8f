import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { createApiClient, type ApiClient } from '../../src-main/cli/api-client.ts';
import { coveyCommand, engineDirectory } from './checkout.ts';
import { startProcess, type ManagedProcess, type ProcessExit } from './managed-process.ts';
import type { Host } from './netns.ts';
import {
  descendantsOf,
  killTree,
  listProcesses,
  listeningPorts,
  stillRuns,
  type ListeningPort,
  type ProcessInfo,
} from './processes.ts';
import { waitFor } from './wait.ts';

/** What `covey controller` and `covey worker` report when they are up. */
const readyReport = z.object({
  role: z.enum(['controller', 'worker']),
  pid: z.number(),
  nodeId: z.string(),
  name: z.string(),
  apiAddress: z.string().nullable(),
  clusterAddress: z.string().nullable(),
});
export type ReadyReport = z.infer<typeof readyReport>;

export interface NodeOptions {
  /** Default: a new one, removed with the cluster. Give one to start a node again. */
  readonly dataDirectory?: string;
  readonly name?: string;
  /** `HOST:PORT`; default: loopback and any port, or all addresses and 7879 on a host of a network. */
  readonly cluster?: string;
  /** `HOST:PORT`; default: loopback and any port. Workers may have `none`, and do by default. */
  readonly api?: string;
  /** Runs it on this host of a network instead of the machine's own. */
  readonly host?: Host;
  /** Whether it announces itself and listens for others; default: no, tests share one machine. */
  readonly discovery?: boolean;
  /** Put before its command line. */
  readonly prefix?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  /** How long it may take to be ready; default 30 s. */
  readonly readyMs?: number;
}

export interface WorkerOptions extends NodeOptions {
  /** From an invitation; a worker that has joined before needs none. */
  readonly join?: string;
}

/** A running controller or worker. */
export interface RunningNode {
  readonly process: ManagedProcess;
  readonly report: ReadyReport;
  readonly dataDirectory: string;
  readonly name: string;
  /** Where the test reaches its API, null when it has none. On another host this is a relay. */
  readonly api: string | null;
  /** The node's local token, null when it serves no API. */
  readonly token: string | null;
  /** A client of its API with the local token. Throws when it has none. */
  readonly client: ApiClient;
  /** Our own children and engines of this node, wherever they hang in the tree now. */
  processes(): ProcessInfo[];
  /** Native engine programs: `llama-server` and `ggml-rpc-server`. */
  engines(program?: 'llama-server' | 'ggml-rpc-server'): ProcessInfo[];
  ports(): ListeningPort[];
  stop(): Promise<ProcessExit>;
  crash(): Promise<ProcessExit>;
}

export interface RunningController extends RunningNode {
  readonly api: string;
  readonly token: string;
  invite(): Promise<string>;
}

export interface Cluster {
  readonly directory: string;
  startController(options?: NodeOptions): Promise<RunningController>;
  startWorker(options: WorkerOptions): Promise<RunningNode>;
  /** Everything that was ever started here and runs still. */
  processes(): ProcessInfo[];
  /** What the nodes printed, newest last, cut to a readable length. */
  logs(maxCharactersPerNode?: number): string;
  /** Stops all nodes in order (workers first), removes the directories, and throws if a process is left. */
  close(): Promise<void>;
}

/** A place for nodes of one test or test file. Whoever makes one closes it. */
export function createCluster(): Cluster {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'covey-cluster-'));
  mkdirSync(path.join(directory, 'home'));
  const started: ManagedProcess[] = [];
  const controllers = new Set<ManagedProcess>();
  const clients: ApiClient[] = [];
  let count = 0;

  /** By session (orphans keep it); the launcher's children have sessions of their own, but our directories. */
  const processesOf = (owners: readonly ManagedProcess[]): ProcessInfo[] => {
    const all = listProcesses();
    const sessions = new Set(owners.map((owner) => owner.info.sessionId));
    const found = new Map<number, ProcessInfo>();
    for (const info of all) if (sessions.has(info.sessionId)) found.set(info.pid, info);
    for (const owner of owners) for (const info of descendantsOf(owner.pid, all)) found.set(info.pid, info);
    return [...found.values()];
  };

  async function start(
    role: 'controller' | 'worker',
    options: NodeOptions,
    input: string | undefined,
    extra: readonly string[],
  ): Promise<RunningNode> {
    count += 1;
    const name = options.name ?? `${role}-${count}`;
    const dataDirectory = options.dataDirectory ?? path.join(directory, `${name}-${count}`);
    const readyFile = path.join(directory, `ready-${count}.json`);
    const process_ = startProcess({
      label: name,
      argv: [
        ...(options.host?.prefix ?? []),
        ...(options.prefix ?? []),
        process.execPath,
        coveyCommand,
        role,
        ...['--data', dataDirectory],
        ...['--name', name],
        ...['--engine', engineDirectory()],
        ...['--api', options.api ?? (role === 'controller' ? '127.0.0.1:0' : 'none')],
        ...['--cluster', options.cluster ?? (options.host ? '0.0.0.0:7879' : '127.0.0.1:0')],
        ...['--ready-file', readyFile],
        '--json',
        '--exit-with-parent',
        ...(options.discovery === true ? [] : ['--no-discovery']),
        ...extra,
        ...(options.args ?? []),
      ] as [string, ...string[]],
      env: { PATH: process.env['PATH'], HOME: path.join(directory, 'home'), LANG: 'C.UTF-8', ...options.env },
      ...(input === undefined ? {} : { input }),
      logFile: path.join(directory, `${name}-${count}.log`),
    });
    started.push(process_);
    if (role === 'controller') controllers.add(process_);
    const report = await waitFor(
      `${name} to be ready`,
      () => {
        if (process_.hasExited) throw new NodeEnded(name, process_.output());
        return readReport(readyFile);
      },
      options.readyMs ?? 30_000,
      10,
      NodeEnded,
    );
    const api = await reachApi(report.apiAddress, options.host);
    const token = api === null ? null : readToken(dataDirectory);
    let client: ApiClient | null = null;
    return {
      process: process_,
      report,
      dataDirectory,
      name,
      api,
      token,
      get client() {
        if (api === null || token === null) throw new Error(`${name} serves no API`);
        if (!client) clients.push((client = createApiClient(api, { token })));
        return client;
      },
      processes: () => processesOf([process_]),
      engines: (program) =>
        processesOf([process_]).filter((info) =>
          new RegExp(`/${program ?? '(llama-server|ggml-rpc-server)'}$`).test(info.executable ?? ''),
        ),
      ports: () => listeningPorts(processesOf([process_]).map((info) => info.pid)),
      stop: () => process_.stop(),
      crash: () => process_.crash(),
    };
  }

  return {
    directory,
    async startController(options = {}) {
      const node = await start('controller', options, undefined, []);
      const { api, token, client } = node;
      if (api === null || token === null) throw new Error('the controller reported no API address');
      return { ...node, api, token, client, invite: async () => (await client.call('invite')).joinString };
    },
    startWorker: ({ join, ...options }) =>
      join === undefined
        ? start('worker', options, undefined, [])
        : start('worker', options, `${join}\n`, ['--join', '-']),
    processes: () => processesOf(started),
    logs: (maxCharacters = 8_000) =>
      started
        .map((one) => `=== ${one.label} (pid ${one.pid})\n${one.output().slice(-maxCharacters)}`)
        .join('\n'),
    async close() {
      for (const client of clients) client.close();
      const before = processesOf(started);
      const failures: string[] = [];
      for (const part of [started.filter((one) => !controllers.has(one)), [...controllers]]) {
        const running = part.filter((one) => !one.hasExited);
        const stopping = running.map((one) =>
          one.stop().catch((error: unknown) => failures.push(String(error))),
        );
        await Promise.all(stopping);
      }
      // What was seen before the end and what is seen now: an orphan may have left the tree.
      const leftovers = (): ProcessInfo[] =>
        [...before.filter(stillRuns), ...processesOf(started)].filter(stillRuns);
      await waitFor('all processes to end', () => leftovers().length === 0, 5_000).catch(() => {
        const left = leftovers();
        failures.push(...left.map((info) => `left running: ${info.pid} ${info.command}`));
        for (const info of left) killTree(info.pid);
      });
      rmSync(directory, { recursive: true, force: true });
      if (failures.length > 0) throw new Error(`the cluster did not end cleanly:\n${failures.join('\n')}`);
    },
  };
}

/** The node exited before it was ready; the message has what it printed. */
export class NodeEnded extends Error {
  readonly output: string;

  constructor(name: string, output: string) {
    super(`${name} ended before it was ready:\n${output.slice(-4_000)}`);
    this.name = 'NodeEnded';
    this.output = output;
  }
}

function readReport(file: string): ReadyReport | null {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    return null;
  }
  return readyReport.parse(JSON.parse(text));
}

/** As `covey` itself finds it. */
function readToken(dataDirectory: string): string {
  const text = readFileSync(path.join(dataDirectory, 'api-access.json'), 'utf8');
  return z.object({ token: z.string() }).parse(JSON.parse(text)).token;
}

async function reachApi(address: string | null, host: Host | undefined): Promise<string | null> {
  if (address === null || host === undefined) return address;
  await host.reach(Number(new URL(address).port));
  return address;
}
