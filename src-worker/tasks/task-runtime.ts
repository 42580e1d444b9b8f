import { mkdir, realpath } from 'node:fs/promises';
import { availableParallelism, totalmem } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { ComputeFacts, TaskObservation, TaskReport } from '#shared/domain/task.ts';
import { timings } from '#shared/config.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { TaskId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { ControllerFrame } from '#shared/protocol/session.ts';
import type { ProcessHost } from '../../src-main/nodejs/process-host/process-host.ts';
import type { TasksCommand, TasksEvent } from '../agent/tasks/events.ts';
import { initialTasksState } from '../agent/tasks/state.ts';
import { observeTasks, step } from '../agent/tasks/step.ts';
import type { ArtifactCache } from '../artifacts/cache.ts';
import { createKernelSupervisor } from '../engines/kernels/kernel-supervisor.ts';
import { maxTail } from '../engines/task-runner/output-tail.ts';
import { probeLimits } from '../engines/task-runner/limits/probe-limits.ts';
import { removeDirectory } from '../engines/task-runner/remove-directory.ts';
import { createRunnerSupervisor } from '../engines/task-runner/runner-supervisor.ts';
import { probeSandbox } from '../engines/task-runner/sandbox/probe-sandbox.ts';
import { openTaskJournal } from '../journal/task-journal.ts';
import type { LendPort } from '../lend/lend-monitor.ts';
import { computeFacts, taskRules, type ComputeProbe } from './compute-facts.ts';
import type { DialGateway } from './inference/gateway-client.ts';
import { hasAddress } from './gang-ports.ts';
import { createReportOutbox } from './report-outbox.ts';
import { createStaging } from './staging.ts';
import { createTaskHosts } from './task-hosts.ts';

const tickMs = 500;
const networkLookMs = 2_000;
/** Kernel tasks with their host at once: at a few thousand a second, what a message takes and some more. */
const handOver = 256;
const journalAfterMs = 2_000;
const repeatMs = 30_000;

type TasksFrame = Extract<ControllerFrame, { type: 'tasks' }>;

/** The tasks of a worker: what it decides (`agent/tasks`), and the processes that do it. */
export interface TaskRuntime {
  receive(frame: TasksFrame): void;
  welcome(): void;
  ack(): void;
  sessionLost(): void;
  /** The owner's rules, or whether they are met, have changed. */
  lendChanged(): void;
  observed(): TaskObservation[];
  facts(): ComputeFacts;
  /** @throws CoveyError `task_not_found` */
  log(taskId: TaskId): Promise<{ output: string; truncated: boolean }>;
  /** Ends every task; resolves when all is gone, at the latest shortly after the grace. */
  close(): Promise<void>;
}

export async function createTaskRuntime(options: {
  readonly dataDirectory: string;
  /** null: there is no engine, and so no launcher and no kernels. */
  readonly engineDirectory: string | null;
  readonly isController: boolean;
  readonly processHost: ProcessHost;
  readonly cache: ArtifactCache;
  /** A way to the controller's `/v1`. */
  readonly dialGateway: DialGateway;
  readonly lend: LendPort;
  /** Within a welcomed session; false when there is none. */
  readonly send: (reports: readonly TaskReport[]) => boolean;
  /** What this machine can compute has changed. */
  readonly onFacts: (facts: ComputeFacts) => void;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly random: () => number;
}): Promise<TaskRuntime> {
  const { dataDirectory, engineDirectory, isController, processHost, lend, clock } = options;
  const logger = options.logger.child({ part: 'tasks' });
  const directory = join(dataDirectory, 'tasks');
  const journalDirectory = join(dataDirectory, 'journal');
  // Whatever an earlier run left: its tasks are over.
  await removeDirectory(directory).catch((error: unknown) =>
    logger.warn('what earlier tasks left could not be removed', { reason: String(error), path: directory }),
  );
  await mkdir(join(directory, 'jobs'), { recursive: true, mode: 0o700 });

  const kernels = createKernelSupervisor({
    processHost,
    engineDirectory,
    logger,
    onNews: (news) => hosts.heardKernels(news),
  });
  // A link to it may stand where programs see nothing, and lead to where they do.
  const hidden = [await realpath(dataDirectory)];
  const { sandbox, problem: sandboxProblem } = await probeSandbox();
  const { limits, problem: limitsProblem, processesHeld } = probeLimits();
  const launcher =
    engineDirectory === null
      ? null
      : join(engineDirectory, process.platform === 'win32' ? 'covey-launch.exe' : 'covey-launch');
  let probe: ComputeProbe = {
    ...{ sandbox, sandboxProblem, limits, limitsProblem, processesHeld, launcher },
    kernels: { type: 'hello', library: null, problem: 'the kernel library is being looked at' },
    cpus: availableParallelism(),
    memoryBytes: totalmem(),
  };
  const runner = createRunnerSupervisor({
    processHost,
    init: () => ({ type: 'init', launcher, hidden, sandbox, limits }),
    directory,
    logger,
    onNews: (news) => hosts.heardRunner(news),
  });
  const staging = createStaging({
    cache: options.cache,
    directory: join(directory, 'jobs'),
    mounted: sandbox.kind === 'bubblewrap',
  });
  const hosts = createTaskHosts({
    ...{ kernels, runner, staging, directory },
    cache: options.cache,
    dial: options.dialGateway,
    threads: () => state.rules.cpus,
    network: () => lend.rules().network,
    random: options.random,
    report: (reports) => dispatch({ type: 'heard', reports }),
  });
  const journal = openTaskJournal(journalDirectory, logger);
  const outbox = createReportOutbox((reports) => void options.send(reports));

  const rulesNow = (): ReturnType<typeof taskRules> => {
    const { lending, heldBackBy, since } = lend.state();
    const why = heldBackBy.map(({ message }) => message).join(' ');
    return taskRules(probe, lend.rules(), isController, { since: lending ? null : since, why }, hasAddress);
  };
  let facts = computeFacts(probe, lend.rules(), isController, hasAddress);
  let state = initialTasksState(
    { stopGraceMs: timings.stopGraceMs, giveWayMs: timings.giveWayMs, handOver, journalAfterMs, repeatMs },
    rulesNow(),
    journal.kept,
    clock.now(),
  );
  let quiet: (() => void) | null = null;
  let closing = false;

  // A command can cause an event before it returns; facts are still applied one after the other.
  const queue: TasksEvent[] = [];
  let draining = false;
  const dispatch = (event: TasksEvent): void => {
    queue.push(event);
    if (draining) return;
    draining = true;
    try {
      for (let next = queue.shift(); next; next = queue.shift()) {
        const result = step(state, next, clock.now());
        ({ state } = result);
        for (const command of result.commands) execute(command);
      }
    } finally {
      draining = false;
    }
    if (state.live.size === 0) quiet?.();
  };

  const execute = (command: TasksCommand): void => {
    switch (command.type) {
      case 'start':
        hosts.start(command.tasks);
        return;
      case 'stop':
        hosts.stop(command.taskIds, command.graceMs);
        return;
      case 'go':
        hosts.go(command.go);
        return;
      case 'setPriority':
        kernels.setPriority(command.low);
        runner.setPriority(command.low);
        return;
      case 'report':
        for (const report of command.reports) logEnd(logger, report);
        if (state.connected) outbox.push(command.reports);
        return;
      case 'journal':
        journal.write(command.ends, command.settled);
        return;
      case 'dropJobs':
        hosts.dropJobs(command.jobIds);
        return;
    }
  };

  const rulesChanged = (): void => {
    dispatch({ type: 'rules', rules: rulesNow() });
    const before = JSON.stringify(facts);
    facts = computeFacts(probe, lend.rules(), isController, hasAddress);
    if (JSON.stringify(facts) !== before) options.onFacts(facts);
  };
  // A start does not wait for it.
  void kernels.facts().then((found) => {
    if (closing) return;
    if (found.problem !== null) logger.warn('there are no kernels here', { reason: found.problem });
    probe = { ...probe, kernels: found };
    rulesChanged();
  });

  const ticker = setInterval(() => dispatch({ type: 'tick' }), tickMs);
  // Interfaces come and go, those of a VPN every day.
  const networkWatch = setInterval(() => {
    const { network } = lend.rules();
    if (network && hasAddress(network.interface) !== facts.commands.network) rulesChanged();
  }, networkLookMs);
  if (!lend.state().lending) execute({ type: 'setPriority', low: true });

  return {
    receive: (frame) => dispatch(frame),
    welcome: () => dispatch({ type: 'welcome' }),
    ack: () => dispatch({ type: 'ack' }),
    sessionLost() {
      dispatch({ type: 'session_lost' });
      outbox.clear();
    },
    lendChanged: rulesChanged,
    observed: () => observeTasks(state),
    facts: () => facts,
    async log(taskId) {
      if (state.live.has(taskId)) {
        return (await runner.readLog(taskId)) ?? { output: '', truncated: false };
      }
      const ended = state.ended.get(taskId);
      if (!ended) throw new CoveyError('task_not_found', `the task ${taskId} is not on this machine`);
      const { output } = ended.report;
      return { output, truncated: output.length >= maxTail };
    },
    async close() {
      closing = true;
      const ended = new Promise<void>((resolve) => (quiet = resolve));
      dispatch({ type: 'shutdown' });
      if (state.live.size > 0) {
        await Promise.race([ended, delay(timings.stopGraceMs + 1_000, undefined, { ref: false })]);
      }
      clearInterval(ticker);
      clearInterval(networkWatch);
      outbox.clear();
      runner.close();
      kernels.close();
      await staging.close();
      await removeDirectory(directory).catch(() => undefined);
    },
  };
}

/** Ends that somebody may want to know of; those of ordinary tasks are too many. */
function logEnd(logger: Logger, report: TaskReport): void {
  if (report.type !== 'failed' || report.outcome === 'cancelled') return;
  const { taskId, outcome, error } = report;
  logger.info('a task has no result', { task: taskId, outcome, code: error.code, reason: error.message });
}
