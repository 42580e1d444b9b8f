import { fork, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { createSelfSigned } from '../../src-main/nodejs/identity/self-signed.ts';
import type { RunningController, RunningNode } from '../support/cluster.ts';
import { listeningPorts, processInfo } from '../support/processes.ts';
import { withDeadline } from '../support/wait.ts';
import type { LoadReport, LoadRequest } from './gateway-load.ts';

/** One way to the engine, as the load sees it. */
export interface Side {
  readonly name: string;
  readonly port: number;
  readonly authorization: string | null;
  /** The processes whose CPU time this way costs; the engine and the load are not among them. */
  readonly pids: readonly number[];
}

const startMs = 10_000;
const loadMs = 300_000;

/** The engine itself, past everything of ours. */
export function directSide(node: RunningNode): Side & { readonly apiKey: string } {
  const engine = node.engines('llama-server')[0];
  const port = engine && listeningPorts([engine.pid])[0]?.port;
  const environment = engine ? readFileSync(`/proc/${engine.pid}/environ`, 'utf8') : '';
  const apiKey = /(?:^|\0)LLAMA_API_KEY=([^\0]*)/.exec(environment)?.[1];
  if (port === undefined || apiKey === undefined) throw new Error('the engine of the bench cannot be found');
  return { name: 'direct', port, authorization: `Bearer ${apiKey}`, pids: [], apiKey };
}

/** Covey as users reach it. `nodes`: those whose processes of ours, engines aside, are on the way. */
export function coveySide(name: string, controller: RunningController, nodes: readonly RunningNode[]): Side {
  const ours = nodes.flatMap((node) => {
    const engines = new Set(node.engines().map((engine) => engine.pid));
    return node.processes().filter((one) => !engines.has(one.pid));
  });
  const port = Number(new URL(controller.api).port);
  return { name, port, authorization: null, pids: ours.map((one) => one.pid) };
}

/** Child processes of the bench, ended with it. */
export class BenchChildren {
  readonly #children: ChildProcess[] = [];

  async pipeSide(direct: { readonly port: number; readonly apiKey: string }): Promise<Side> {
    const child = this.#start('gateway-pipe.ts', [String(direct.port), direct.apiKey]);
    return { name: 'pipe', port: await portOf(child), authorization: null, pids: pidsOf([child]) };
  }

  async tlsPipeSide(direct: Side): Promise<Side> {
    const key = await createSelfSigned(Date.now());
    const far = this.#start('gateway-tls.ts', ['far', String(direct.port)]);
    far.send(key);
    const near = this.#start('gateway-tls.ts', ['near', String(await portOf(far))]);
    near.send(key);
    const port = await portOf(near);
    return { name: 'tls-pipe', port, authorization: direct.authorization, pids: pidsOf([far, near]) };
  }

  /** A process that makes load, one run at a time. */
  load(): (request: LoadRequest) => Promise<LoadReport> {
    const child = this.#start('gateway-load.ts', []);
    return (request) => {
      const report = new Promise<LoadReport>((resolve) =>
        child.once('message', (message) => resolve(message as LoadReport)),
      );
      child.send(request);
      return withDeadline('a run of the load', report, loadMs);
    };
  }

  close(): void {
    for (const child of this.#children) child.kill('SIGKILL');
  }

  #start(file: string, args: readonly string[]): ChildProcess {
    const child = fork(path.join(import.meta.dirname, file), args, {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    this.#children.push(child);
    return child;
  }
}

/** CPU time so far of processes, with all their threads. */
export function cpuMsOf(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + (processInfo(pid)?.cpuMs ?? 0), 0);
}

function pidsOf(children: readonly ChildProcess[]): number[] {
  return children.flatMap((child) => child.pid ?? []);
}

function portOf(child: ChildProcess): Promise<number> {
  const told = new Promise<number>((resolve, reject) => {
    child.once('message', (message: { port: number }) => resolve(message.port));
    child.once('exit', (code) => reject(new Error(`a child of the bench ended with ${code}`)));
  });
  return withDeadline('a child of the bench to listen', told, startMs);
}
