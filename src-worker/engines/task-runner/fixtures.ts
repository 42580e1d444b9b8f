import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LimitMethod, MadeOutput, ProgramTask, Sandbox } from '#shared/host/task-runner.ts';
import { limitsSchema } from '#shared/domain/job-spec.ts';
import type { TaskId } from '#shared/lib/ids.ts';
import type { GroupUsage } from './limits/limit-group.ts';
import { createOutputTail } from './output-tail.ts';
import { ProgramFailure, runProgramTask } from './program-task.ts';

/** For tests: what became of one program. */
export interface Outcome {
  readonly made: readonly MadeOutput[];
  readonly failure: ProgramFailure | null;
  readonly output: string;
  readonly usage: GroupUsage;
  readonly wallMs: number;
}

export interface Room {
  readonly directory: string;
  run(
    change: Partial<ProgramTask['program']>,
    options?: Partial<ProgramTask> & {
      readonly signal?: AbortSignal;
      readonly graceMs?: number;
      readonly lowPriority?: boolean;
    },
  ): Promise<Outcome>;
  close(): Promise<void>;
}

/** For tests: a place to run programs in, as the task runner does. */
export async function openRoom(launcher: string, sandbox: Sandbox, limits: LimitMethod): Promise<Room> {
  const directory = await mkdtemp(join(tmpdir(), 'covey-tasks-'));
  let count = 0;
  return {
    directory,
    async run(change, options = {}) {
      const { signal, graceMs, lowPriority, ...rest } = options;
      const tail = createOutputTail();
      let usage: GroupUsage = { cpuMs: null, peakBytes: null };
      const startedAt = performance.now();
      const task: ProgramTask = {
        kind: 'program',
        taskId: 'j-00000001.7.1' as TaskId,
        index: 7,
        count: 100,
        attempt: 1,
        range: null,
        directory: join(directory, `task-${(count += 1)}`),
        mounts: [],
        outputs: [],
        feed: null,
        variables: {},
        program: {
          command: null,
          script: null,
          interpreter: ['/bin/sh'],
          env: {},
          secrets: {},
          inputs: [],
          limits: limitsSchema.parse({}),
          network: 'none',
          cpus: 1,
          ...change,
        },
        ...rest,
      };
      let made: MadeOutput[] = [];
      let failure: ProgramFailure | null = null;
      try {
        made = await runProgramTask(task, {
          init: {
            type: 'init',
            launcher,
            hidden: [],
            sandbox,
            limits,
          },
          tail,
          signal: signal ?? new AbortController().signal,
          graceMs: () => graceMs ?? 0,
          lowPriority: () => lowPriority ?? false,
          onStarted: () => undefined,
          onProgress: () => undefined,
          onUsage: (group) => (usage = group.usage()),
        });
      } catch (error) {
        if (!(error instanceof ProgramFailure)) throw error;
        failure = error;
      }
      return { made, failure, output: tail.text(), usage, wallMs: performance.now() - startedAt };
    },
    close: () => rm(directory, { recursive: true, force: true }),
  };
}
