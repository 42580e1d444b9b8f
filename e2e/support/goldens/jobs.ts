import { z } from 'zod';
import type { JobView } from '../../../src-main/shared/domain/job.ts';
import { taskId } from '../../../src-main/shared/lib/ids.ts';
import { doneJob, exampleJob, exampleJobId, examplePartition, exampleTask, failedJob } from '../job-views.ts';
import { nodeIdOf } from '../views.ts';
import { noArtifact, smallContent, smallFile } from './artifacts.ts';
import { type Scripts, type GoldenCase, missing } from './golden-case.ts';

const noJob = missing('job_not_found', 'There is no job "sum": none was submitted.');

const failedPart = examplePartition({
  index: 1,
  range: null,
  status: 'failed',
  progress: 0,
  attempts: 3,
  nodeName: 'attic',
  error: { code: 'task_failed', message: 'render ended with exit code 7.' },
});

const lost = exampleTask({
  id: taskId(exampleJobId, 1, 1),
  index: 1,
  nodeId: nodeIdOf('b'),
  nodeName: 'attic',
  outcome: 'lost',
  error: { code: 'task_lost', message: 'attic does not answer.' },
});

const renderResult: JobView['result'] = {
  value: null,
  artifacts: ['0/data.csv', '1/data.csv'].map((name) => ({
    ...{ id: smallFile.id, kind: 'file', bytes: smallFile.bytes },
    name,
  })),
  missing: 0,
};
const emptyKernel = doneJob({
  name: 'min empty.f64',
  units: { unit: 'elements', total: 0, done: 0 },
  result: { value: null, artifacts: [], missing: 0 },
});
const failedLog: Scripts = {
  jobPartitions: ({ query }) => ({ partitions: query['status'] === 'failed' ? [failedPart] : [], total: 3 }),
  jobLog: ({ query }) => ({
    taskId: taskId(exampleJobId, Number(query['index']), 3),
    output: Array.from({ length: 12 }, (_value, line) => `line ${line + 1}\n`).join(''),
    truncated: false,
    running: false,
  }),
};
const submitted: Scripts = { submitJob: () => exampleJob({ status: 'queued' }) };

/** Commands of jobs and their work. */
export const jobCases: Readonly<Record<string, GoldenCase>> = {
  run: {
    happy: {
      words: 'run job.yaml',
      scripts: { submitJob: () => exampleJob(), job: () => doneJob() },
      files: { 'job.yaml': 'kind: kernel\nkernel: sum\ntype: f64\ninput: numbers\n' },
    },
    empty: {
      words: 'run job.yaml',
      scripts: { submitJob: noArtifact },
      files: { 'job.yaml': 'kind: kernel\nkernel: sum\ntype: f64\ninput: numbers\n' },
      code: 1,
    },
    more: [
      { words: 'run --help', scripts: {} },
      {
        words: 'run job.yaml --detach',
        scripts: submitted,
        files: { 'job.yaml': 'kind: command\ncommand: [render]\n' },
      },
      {
        words: 'run job.yaml',
        scripts: {},
        files: { 'job.yaml': 'kind: command\nenv: { 1X: a }\npartitions: 0\ncolour: red\n' },
        code: 2,
      },
    ],
    wrong: ['run', 'run kernle', 'run none.yaml', 'run comand -- render'],
    json: 'job',
  },
  'run kernel': {
    happy: {
      words: 'run kernel sum numbers --type f64',
      scripts: { submitJob: () => exampleJob(), job: () => doneJob() },
    },
    empty: {
      words: 'run kernel sum numbers --type f64',
      scripts: { submitJob: noArtifact },
      code: 1,
    },
    wrong: 'run kernel add numbers --type f64',
    json: 'job',
  },
  'run command': {
    happy: { words: 'run command --detach --partitions 3 -- render {index}', scripts: submitted },
    wrong: 'run command -- render {inedx}',
    json: 'submitJob',
  },
  'run map': {
    happy: { words: 'run map --detach --dataset rows.csv -- tr a-z A-Z', scripts: submitted },
    wrong: 'run map --dataset rows -- cat',
    json: 'submitJob',
  },
  'run inference': {
    happy: { words: 'run inference tiny --detach --dataset rows.jsonl', scripts: submitted },
    empty: {
      words: 'run inference tiny --detach --dataset rows.jsonl',
      scripts: {
        submitJob: missing('model_not_found', 'No model is served as "tiny". Nothing is loaded.'),
      },
      code: 1,
    },
    wrong: 'run inference tiny',
    json: 'submitJob',
  },
  'run gang': {
    happy: { words: 'run gang --ranks 2 --detach -- train', scripts: submitted },
    wrong: 'run gang -- train',
    json: 'submitJob',
  },
  'jobs list': {
    happy: {
      words: 'jobs list',
      scripts: {
        jobs: () => ({
          jobs: [
            exampleJob(),
            failedJob(),
            doneJob({ name: 'a job whose name is as long as people like them' }),
          ],
          total: 4,
          more: true,
        }),
      },
    },
    empty: { words: 'jobs', scripts: { jobs: () => ({ jobs: [], total: 0, more: false }) } },
    wrong: 'jobs list --status bored',
    json: 'jobs',
  },
  'jobs info': {
    happy: { words: `jobs info ${exampleJobId}`, scripts: { job: () => exampleJob() } },
    empty: {
      words: 'jobs info sum',
      scripts: { job: noJob, jobs: () => ({ jobs: [], total: 0, more: false }) },
      code: 1,
    },
    more: [
      {
        words: `jobs info ${exampleJobId}`,
        scripts: {
          job: () =>
            failedJob({ name: 'tidy', kind: 'map', result: { value: null, artifacts: [], missing: 3 } }),
        },
      },
    ],
    wrong: 'jobs info',
    json: 'job',
  },
  'jobs stats': {
    happy: {
      words: `jobs stats ${exampleJobId}`,
      scripts: {
        jobStats: () => ({
          jobId: exampleJobId,
          wallMs: 58_000,
          cpuMs: 171_500,
          tasks: { done: 63, lost: 2 },
          partitionMs: { p50: 2_140, p90: 2_900, p99: 4_410, max: 4_900 },
          stagedBytes: 3_221_225_472,
          peakBytes: 41_943_040,
        }),
      },
    },
    empty: {
      words: 'jobs stats sum',
      scripts: { jobStats: noJob, jobs: () => ({ jobs: [], total: 0, more: false }) },
      code: 1,
    },
    wrong: 'jobs stats',
    json: 'jobStats',
  },
  'jobs partitions': {
    happy: {
      words: `jobs partitions ${exampleJobId} --limit 3`,
      scripts: {
        jobPartitions: () => ({
          partitions: [
            examplePartition(),
            failedPart,
            examplePartition({
              index: 2,
              range: { from: 2_097_152, to: 134_217_728 },
              status: 'running',
              progress: 0.43,
              finishedAt: null,
            }),
          ],
          total: 41,
        }),
      },
    },
    empty: {
      words: `jobs partitions ${exampleJobId}`,
      scripts: { jobPartitions: () => ({ partitions: [], total: 0 }) },
    },
    wrong: `jobs partitions ${exampleJobId} --from first`,
    json: 'jobPartitions',
  },
  'jobs wait': {
    happy: { words: `jobs wait ${exampleJobId}`, scripts: { job: () => doneJob() } },
    empty: {
      words: `jobs wait ${exampleJobId}`,
      scripts: { job: () => failedJob(), ...failedLog },
      code: 1,
    },
    more: [
      { words: `jobs wait ${exampleJobId}`, scripts: { job: () => emptyKernel } },
      {
        words: `jobs wait ${exampleJobId}`,
        scripts: {
          job: () =>
            failedJob({
              ...{ name: 'tidy', kind: 'map' },
              result: { value: null, artifacts: [{ ...smallFile, name: 'tidy.out' }], missing: 2 },
            }),
        },
        code: 1,
      },
      {
        words: `jobs wait ${exampleJobId}`,
        scripts: {
          job: () =>
            doneJob({
              ...{ name: 'tiny rows.jsonl', kind: 'inference' },
              result: { value: null, artifacts: [smallFile], missing: 0, refused: 2 },
            }),
        },
      },
    ],
    wrong: 'jobs wait',
    json: 'job',
  },
  'jobs logs': {
    happy: {
      words: `jobs logs ${exampleJobId} --partition 1`,
      scripts: {
        jobLog: () => ({
          taskId: taskId(exampleJobId, 1, 1),
          output: 'frame 1\nframe 2 \u001b[31mred\n',
          truncated: true,
          running: false,
        }),
      },
    },
    empty: {
      words: `jobs logs ${exampleJobId}`,
      scripts: {
        job: () => doneJob(),
        jobLog: () => ({ taskId: taskId(exampleJobId, 0, 1), output: '', truncated: false, running: false }),
      },
    },
    more: [
      { words: `jobs logs ${exampleJobId}`, scripts: { job: () => failedJob(), ...failedLog } },
      {
        words: `jobs logs ${exampleJobId} --follow`,
        scripts: {
          job: () => doneJob(),
          jobLog: () => ({
            taskId: taskId(exampleJobId, 0, 1),
            output: 'frame 1\nframe 2',
            truncated: false,
            running: false,
          }),
          jobPartitions: () => ({ partitions: [examplePartition()], total: 1 }),
        },
      },
    ],
    wrong: `jobs logs ${exampleJobId} --attempt 0`,
    json: 'jobLog',
  },
  'jobs get': {
    happy: {
      words: `jobs get ${exampleJobId} out`,
      scripts: {
        job: () => doneJob({ name: 'render', kind: 'command', result: renderResult }),
        artifactContent: () => Buffer.from(smallContent),
      },
      files: {},
    },
    empty: {
      words: 'jobs get sum',
      scripts: { job: noJob, jobs: () => ({ jobs: [], total: 0, more: false }) },
      code: 1,
    },
    more: [
      { words: `jobs get ${exampleJobId}`, scripts: { job: () => doneJob() }, files: {} },
      { words: `jobs get ${exampleJobId}`, scripts: { job: () => exampleJob() }, code: 1 },
      {
        words: `jobs get ${exampleJobId} .`,
        scripts: { job: () => doneJob() },
        files: { 'value.json': 'mine' },
        code: 1,
      },
    ],
    wrong: 'jobs get',
    json: z.strictObject({
      job: z.literal(exampleJobId),
      directory: z.string(),
      results: z
        .array(
          z.strictObject({
            name: z.string(),
            path: z.string(),
            bytes: z.number(),
            artifact: z.string().nullable(),
            wasHere: z.boolean(),
          }),
        )
        .length(2),
    }),
  },
  'jobs spec': {
    happy: {
      words: `jobs spec ${exampleJobId}`,
      scripts: { jobSpec: () => ({ kind: 'kernel', kernel: 'sum', type: 'f64', input: 'numbers.f64' }) },
    },
    empty: {
      words: 'jobs spec sum',
      scripts: { jobSpec: noJob, jobs: () => ({ jobs: [], total: 0, more: false }) },
      code: 1,
    },
    wrong: 'jobs spec',
    json: 'jobSpec',
  },
  'jobs cancel': {
    happy: {
      words: `jobs cancel ${exampleJobId}`,
      scripts: { cancelJob: () => exampleJob({ status: 'cancelling' }) },
    },
    empty: {
      words: 'jobs cancel sum',
      scripts: { cancelJob: noJob, jobs: () => ({ jobs: [], total: 0, more: false }) },
      code: 1,
    },
    wrong: 'jobs cancle',
    json: 'cancelJob',
  },
  'jobs retry': {
    happy: { words: `jobs retry ${exampleJobId}`, scripts: { retryJob: () => exampleJob() } },
    empty: {
      words: 'jobs retry sum',
      scripts: { retryJob: noJob, jobs: () => ({ jobs: [], total: 0, more: false }) },
      code: 1,
    },
    wrong: 'jobs retry',
    json: 'retryJob',
  },
  'jobs rm': {
    happy: {
      words: `jobs rm ${exampleJobId} --yes`,
      scripts: { job: () => doneJob(), removeJob: () => ({}) },
    },
    empty: {
      words: 'jobs rm sum --yes',
      scripts: { job: noJob, jobs: () => ({ jobs: [], total: 0, more: false }) },
      code: 1,
    },
    wrong: 'jobs rm',
    json: 'removeJob',
  },
  tasks: {
    happy: {
      words: 'tasks',
      scripts: {
        tasks: () => ({
          tasks: [
            exampleTask(),
            lost,
            exampleTask({
              id: taskId(exampleJobId, 2, 1),
              outcome: 'crashed',
              speculative: true,
              exitCode: 139,
              error: { code: 'task_crashed', message: 'render was ended by signal 11 (segmentation fault).' },
            }),
          ],
        }),
      },
    },
    empty: { words: 'tasks', scripts: { tasks: () => ({ tasks: [] }) } },
    wrong: 'tasks --limit 0',
    json: 'tasks',
  },
  'distribution show': {
    happy: { words: `distribution show ${exampleJobId}`, scripts: { job: () => exampleJob() } },
    empty: {
      words: 'distribution show sum',
      scripts: {
        job: noJob,
        deployments: () => ({ deployments: [] }),
        jobs: () => ({ jobs: [], total: 0, more: false }),
      },
      code: 1,
    },
    more: [{ words: `distribution ${exampleJobId}`, scripts: { job: () => exampleJob() } }],
    wrong: ['distribution show', 'distribution shwo sum'],
    json: 'job',
  },
  'distribution auto': {
    happy: {
      words: `distribution auto ${exampleJobId}`,
      scripts: { job: () => exampleJob(), setDistribution: () => exampleJob() },
    },
    empty: {
      words: 'distribution auto sum',
      scripts: {
        job: noJob,
        deployments: () => ({ deployments: [] }),
        jobs: () => ({ jobs: [], total: 0, more: false }),
      },
      code: 1,
    },
    wrong: 'distribution auto',
    json: 'setDistribution',
  },
  'distribution set': {
    happy: {
      words: `distribution set ${exampleJobId} desk=60,attic=40`,
      scripts: {
        job: () => exampleJob(),
        setDistribution: () => exampleJob({ distribution: 'manual' }),
      },
    },
    empty: {
      words: 'distribution set sum desk=1',
      scripts: {
        job: noJob,
        deployments: () => ({ deployments: [] }),
        jobs: () => ({ jobs: [], total: 0, more: false }),
      },
      code: 1,
    },
    wrong: `distribution set ${exampleJobId} desk`,
    json: 'setDistribution',
  },
  'jobs schema': {
    happy: { words: 'jobs schema', scripts: {}, document: 24 },
    wrong: 'jobs schema x',
    json: z.object({ title: z.literal('Covey job'), oneOf: z.array(z.json()) }),
    offline: true,
  },
  'jobs templates': {
    happy: { words: 'jobs templates', scripts: {} },
    more: [{ words: 'jobs templates mpi', scripts: {}, document: 12 }],
    wrong: 'jobs templates mip',
    json: z.strictObject({
      templates: z.array(z.strictObject({ name: z.string(), about: z.string() })).min(4),
    }),
    offline: true,
  },
};
