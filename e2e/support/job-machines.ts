import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { z } from 'zod';
import type { ArtifactView } from '#shared/domain/artifact.ts';
import type { jobSpecSchema } from '#shared/domain/job-spec.ts';
import type { JobView, PartitionView, TaskView } from '#shared/domain/job.ts';
import { runCovey } from './cli.ts';
import type { Cluster, NodeOptions, RunningController, RunningNode } from './cluster.ts';
import { listProcesses, type ProcessInfo } from './processes.ts';
import { untilEligible } from './split-cluster.ts';
import { waitFor } from './wait.ts';

/** Processors that each machine lends, however many there are. */
export const lentCpus = 2;

type SpecInput = z.input<typeof jobSpecSchema>;

export interface JobMachinesOptions {
  /** What programs may see where their job asks for it; absent: nothing. `lo` where all machines are this one. */
  readonly network?: {
    readonly interface: string;
    readonly ports: { readonly from: number; readonly to: number };
  };
  readonly controller?: NodeOptions;
  readonly worker?: (name: string) => NodeOptions;
}

/**
 * A controller and workers whose owners let programs run, each with a place where it comes back after its end, as a
 * service manager would have it: same data, same addresses.
 */
export interface JobMachines {
  readonly names: readonly string[];
  /** The newest of its starts. */
  controller(): RunningController;
  worker(name: string): RunningNode;
  /** One more worker. */
  add(name: string): Promise<void>;
  /** Starts it again; whoever calls has ended it. */
  returnController(): Promise<void>;
  returnWorker(name: string): Promise<void>;

  submit(spec: SpecInput): Promise<JobView>;
  view(id: string): Promise<JobView>;
  partitions(id: string): Promise<PartitionView[]>;
  /** What the newest attempt at a partition has printed so far. */
  log(id: string, index: number): Promise<string>;
  /** Every attempt that is still known. */
  tasks(id: string): Promise<TaskView[]>;
  /** The job once it is over, however; the controller may be away meanwhile. */
  finished(id: string, timeoutMs?: number): Promise<JobView>;
  /** The job once `reached` says so. */
  until(what: string, id: string, reached: (view: JobView) => boolean, timeoutMs?: number): Promise<JobView>;
  /** Puts a file or folder; its artifact's id. */
  put(target: string): Promise<string>;
  content(artifact: string): Promise<string>;
  /**
   * Nothing is left of any job: every machine has all its processors free and no directory of a task, no process of ours
   * is without its node, and none that has `mark` in its command line runs. Waits for what takes a moment.
   */
  expectIdle(mark: string): Promise<void>;
}

/** Processes of a node beside its main one. */
export type HostProgram = 'kernel-host' | 'task-runner' | 'transport-host' | 'artifact-hasher';
export function hostsOf(node: RunningNode, program: HostProgram): ProcessInfo[] {
  const found = node.processes().filter(({ command }) => command.includes(`${program}.js`));
  // What a host has just forked still has its command line.
  return found.filter(({ parentPid }) => !found.some(({ pid }) => pid === parentPid));
}

export async function startJobMachines(
  cluster: Cluster,
  first: readonly string[],
  options: JobMachinesOptions = {},
): Promise<JobMachines> {
  let controller = await cluster.startController({ name: 'hub', ...options.controller });
  const workers = new Map<string, RunningNode>();
  const start = async (name: string): Promise<void> => {
    const dataDirectory = path.join(cluster.directory, name);
    mkdirSync(dataDirectory, { mode: 0o700 });
    const { network = null } = options;
    const lend = { kinds: { commands: true }, limits: { cpuThreads: lentCpus }, network };
    writeFileSync(path.join(dataDirectory, 'config.json'), JSON.stringify({ lend }), { mode: 0o600 });
    const join = await controller.invite();
    workers.set(name, await cluster.startWorker({ name, dataDirectory, join, ...options.worker?.(name) }));
  };
  for (const name of first) await start(name);
  await untilEligible(controller, first.length);

  const worker = (name: string): RunningNode => {
    const found = workers.get(name);
    if (!found) throw new Error(`there is no worker ${name}`);
    return found;
  };
  const machines: JobMachines = {
    get names() {
      return [...workers.keys()];
    },
    controller: () => controller,
    worker,
    async add(name) {
      await start(name);
      await untilEligible(controller, workers.size);
    },
    async returnController() {
      const { name, dataDirectory, report, api } = controller;
      controller = await cluster.startController({
        ...options.controller,
        ...{ name, dataDirectory },
        ...(report.clusterAddress === null ? {} : { cluster: report.clusterAddress }),
        api: new URL(api).host,
      });
    },
    async returnWorker(name) {
      const { dataDirectory } = worker(name);
      workers.set(name, await cluster.startWorker({ name, dataDirectory, ...options.worker?.(name) }));
    },
    submit: (spec) => controller.client.call('submitJob', { body: spec }),
    view: (id) => controller.client.call('job', { params: { job: id } }),
    async partitions(id) {
      const all: PartitionView[] = [];
      for (;;) {
        const query = { from: String(all.length), limit: '1000' };
        const page = await controller.client.call('jobPartitions', { params: { job: id }, query });
        all.push(...page.partitions);
        if (page.partitions.length === 0 || all.length >= page.total) return all;
      }
    },
    async log(id, index) {
      const query = { index: String(index) };
      return (await controller.client.call('jobLog', { params: { job: id }, query })).output;
    },
    tasks: async (id) => (await controller.client.call('tasks', { query: { job: id, limit: '1000' } })).tasks,
    finished: (id, timeoutMs) =>
      machines.until('to be over', id, ({ finishedAt }) => finishedAt !== null, timeoutMs),
    until: (what, id, reached, timeoutMs = 60_000) =>
      waitFor(
        `job ${id} ${what}`,
        async () => {
          const view = await machines.view(id);
          if (reached(view)) return view;
          throw new Error(JSON.stringify({ ...view, result: undefined }));
        },
        timeoutMs,
        100,
      ),
    async put(target) {
      const words = ['artifacts', 'put', target, '--json'];
      const outcome = await runCovey(controller, words, { timeoutMs: 300_000 });
      if (outcome.code !== 0) throw new Error(`covey ${words.join(' ')}: ${outcome.stderr}`);
      return (JSON.parse(outcome.stdout) as ArtifactView).id;
    },
    async content(artifact) {
      const response = await fetch(`${controller.api}/api/artifacts/${artifact}/content`, {
        headers: { authorization: `Bearer ${controller.token}` },
      });
      if (!response.ok) throw new Error(`artifact ${artifact}: ${response.status}`);
      return response.text();
    },
    async expectIdle(mark) {
      // A partition that takes a whole machine fits on each at once only where nothing is still counted as running.
      const { names } = machines;
      const { id } = await machines.submit({
        kind: 'command',
        name: 'is there room',
        command: ['true'],
        partitions: names.length,
        requires: { cpus: lentCpus },
        distribution: { mode: 'manual', shares: names.map((node) => ({ node, percent: 1 })) },
      });
      const view = await machines.finished(id, 30_000);
      if (view.status !== 'done') throw new Error(`there is no room: ${JSON.stringify(view)}`);
      await waitFor(
        'nothing to be left of any job',
        () => {
          const left = [...names.flatMap((name) => taskDirectories(worker(name))), ...strays(mark)];
          if (left.length > 0) throw new Error(left.join('; '));
          return true;
        },
        15_000,
      );
    },
  };
  const strays = (mark: string): string[] => {
    const ours = new Set(
      [controller, ...workers.values()].flatMap((node) => node.processes().map(({ pid }) => pid)),
    );
    const orphans = cluster.processes().filter(({ pid }) => !ours.has(pid));
    const marked = listProcesses().filter(({ command }) => command.includes(mark));
    return [...orphans, ...marked].map(({ pid, command }) => `process ${pid} ${command}`);
  };
  return machines;
}

/** Of tasks and of jobs, which go with them. */
function taskDirectories({ name, dataDirectory }: RunningNode): string[] {
  const directory = path.join(dataDirectory, 'tasks');
  return [
    ...readdirSync(directory).filter((entry) => entry !== 'jobs'),
    ...readdirSync(path.join(directory, 'jobs')),
  ].map((entry) => `${name} has the directory ${entry}`);
}
