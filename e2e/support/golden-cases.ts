import type { SettingsView } from '../../src-main/shared/api/access.ts';
import type { ArtifactView } from '../../src-main/shared/domain/artifact.ts';
import type { JoinView, PendingView } from '../../src-main/shared/api/joining.ts';
import type { ApiRoute } from '../../src-main/shared/api/schema.ts';
import type { Discovered, PairCheck, SelfView } from '../../src-main/shared/api/self.ts';
import type { LendState } from '../../src-main/shared/domain/lend.ts';
import { taskId, type ArtifactId } from '../../src-main/shared/lib/ids.ts';
import { CoveyError, type ErrorCode } from '../../src-main/shared/errors.ts';
import { defaultSettings } from '../../src-main/shared/settings.ts';
import { doneJob, exampleJob, exampleJobId, examplePartition, exampleTask, failedJob } from './job-views.ts';
import type { RouteScript } from './scripted-api.ts';
import {
  at,
  exampleDeployment,
  exampleId,
  exampleModel,
  exampleNode,
  exampleStatus,
  exampleTransfer,
  nodeIdOf,
} from './views.ts';

type Scripts = Partial<Record<ApiRoute, RouteScript>>;

export interface GoldenScene {
  /** After `covey`. */
  readonly words: string;
  readonly scripts: Scripts;
  /** Typed by the person. */
  readonly answers?: readonly string[];
  /** Default: 0. */
  readonly code?: number;
}

/** What one command shows: with something there, with nothing there, and when it is used wrongly. */
export interface GoldenCase {
  readonly happy: GoldenScene;
  /** An empty covey, or the thing that was named is not there. Absent: nothing can be missing. */
  readonly empty?: GoldenScene;
  /** Exit code 2, nothing asked. */
  readonly wrong: string;
  /** The route whose answer `--json` prints as it is; null: it has JSON of its own or none. */
  readonly json: ApiRoute | null;
  /** It asks nobody, so that nobody can be away. */
  readonly offline?: boolean;
}

const missing =
  (code: ErrorCode, message: string): RouteScript =>
  () => {
    throw new CoveyError(code, message);
  };
const noNode = missing('node_not_found', 'There is no machine "desk": none has joined yet.');
const noJob = missing('job_not_found', 'There is no job "sum": none was submitted.');
const noDeployment = missing('deployment_not_found', 'There is no deployment "tiny": nothing is loaded.');

const attic = exampleNode({
  id: nodeIdOf('b'),
  name: 'attic',
  status: 'draining',
  eligible: false,
  ineligibleReasons: ['is draining'],
  drain: { startedAt: at - 1, deadlineAt: at + 90_000, completedAt: null },
  telemetry: null,
});
const lent: LendState = { lending: true, since: at - 60_000, heldBackBy: [], unavailable: [] };
const joined: JoinView = {
  phase: 'joined',
  by: 'join-string',
  controller: { nodeId: nodeIdOf('c'), name: 'home', address: { host: '192.0.2.1', port: 7879 } },
  code: null,
  confirmed: true,
  expiresAt: null,
  error: null,
};
const self: SelfView = {
  role: 'worker',
  nodeId: nodeIdOf('a'),
  name: 'desk',
  version: '0.1.0',
  apiAddress: 'http://127.0.0.1:7878',
  clusterAddress: null,
  dataDirectory: '/somewhere',
  membership: {
    controllerId: nodeIdOf('c'),
    controllerName: 'home',
    connected: true,
    addresses: [{ host: '192.0.2.1', port: 7879 }],
    trouble: null,
  },
  join: joined,
  lend: lent,
  notices: [],
};
const settings: SettingsView = {
  settings: defaultSettings,
  file: '/somewhere/config.json',
  lanAddresses: [],
  lanCertificate: null,
  problems: [],
};
const waiting: PendingView = {
  id: 'bbbbbbbbbbbb',
  nodeId: nodeIdOf('b'),
  name: 'attic',
  remoteAddress: '192.0.2.11',
  askedAt: at - 20_000,
  expiresAt: at + 280_000,
  approved: false,
  confirmed: false,
};
const found: Discovered = {
  nodeId: nodeIdOf('b'),
  name: 'attic',
  role: 'worker',
  version: '0.1.0',
  relation: 'member',
  verified: true,
  attempts: [
    { address: { host: '192.0.2.11', port: 7879 }, nodeId: nodeIdOf('b'), connectMs: 4.2, problem: null },
  ],
  interfaces: ['eth0'],
  lastSeenAt: at - 400,
};
const link: PairCheck = {
  from: nodeIdOf('a'),
  fromName: 'desk',
  to: nodeIdOf('b'),
  toName: 'attic',
  path: 'direct',
  rttMs: 0.42,
  bytesPerS: 117e6,
  measuredAt: at - 1_000,
  attempts: [],
  error: null,
};
const secret = `covey-secret.${'a1'.repeat(16)}`;
const key = {
  id: 'k-1a2b3c4d',
  name: 'editor',
  scope: 'inference' as const,
  createdAt: at - 86_400_000,
  lastUsedAt: null,
};
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

const artifact: ArtifactView = {
  id: 'd'.repeat(64) as ArtifactId,
  kind: 'file',
  name: 'numbers.f64',
  bytes: 1_073_741_824,
  files: 1,
  createdAt: at - 86_400_000,
  lastUsedAt: at - 60_000,
  pinned: true,
  jobs: [exampleJobId],
  holders: [{ nodeId: nodeIdOf('a'), nodeName: 'desk' }],
  collectableAt: null,
};
const noArtifact = missing('artifact_not_found', 'There is no artifact "numbers".');
const submitted: Scripts = { submitJob: () => exampleJob({ status: 'queued' }) };

/** By the command's words; every command of the program has one. */
export const goldenCases: Readonly<Record<string, GoldenCase>> = {
  status: {
    happy: { words: 'status', scripts: { status: () => exampleStatus } },
    empty: {
      words: 'status',
      scripts: {
        status: () => ({
          ...exampleStatus,
          nodes: { total: 0, ready: 0 },
          deployments: { total: 0, ready: 0 },
          requestsRunning: 0,
        }),
      },
    },
    wrong: 'status now',
    json: 'status',
  },
  'nodes list': {
    happy: { words: 'nodes list', scripts: { nodes: () => ({ nodes: [exampleNode(), attic] }) } },
    empty: { words: 'nodes list', scripts: { nodes: () => ({ nodes: [] }) } },
    wrong: 'nodes lits',
    json: 'nodes',
  },
  'nodes stats': {
    happy: {
      words: 'workers stats',
      scripts: { nodes: () => ({ nodes: [exampleNode(), attic] }) },
    },
    empty: { words: 'nodes stats', scripts: { nodes: () => ({ nodes: [] }) } },
    wrong: 'nodes stats --wacth',
    json: 'nodes',
  },
  'nodes info': {
    happy: { words: 'nodes info desk', scripts: { node: () => exampleNode() } },
    empty: { words: 'nodes info desk', scripts: { node: noNode, nodes: () => ({ nodes: [] }) }, code: 1 },
    wrong: 'nodes info',
    json: 'node',
  },
  'nodes ping': {
    happy: {
      words: 'nodes ping desk --count 2',
      scripts: { pingNode: () => ({ nodeId: nodeIdOf('a'), nodeName: 'desk', rttMs: 0.82 }) },
    },
    empty: { words: 'nodes ping desk', scripts: { pingNode: noNode, nodes: () => ({ nodes: [] }) }, code: 1 },
    wrong: 'nodes ping desk --count 0',
    json: null,
  },
  devices: {
    happy: {
      words: 'devices',
      scripts: { nodes: () => ({ nodes: [exampleNode(), { ...attic, hardware: null }] }) },
    },
    empty: { words: 'devices', scripts: { nodes: () => ({ nodes: [] }) } },
    wrong: 'devices CPU',
    json: 'nodes',
  },
  load: {
    happy: {
      words: 'load /models/tiny.gguf --no-wait',
      scripts: { load: () => exampleDeployment({ status: 'loading', readyAt: null }) },
    },
    empty: {
      words: 'load tiny --no-wait',
      scripts: { load: missing('no_nodes', 'No machine is ready to take a model.') },
      code: 1,
    },
    wrong: 'load tiny --ctx 8',
    json: 'load',
  },
  unload: {
    happy: {
      words: `unload ${exampleId}`,
      scripts: { unload: () => exampleDeployment({ status: 'unloading', stages: [] }) },
    },
    empty: {
      words: 'unload tiny',
      scripts: { unload: noDeployment, deployments: () => ({ deployments: [] }) },
      code: 1,
    },
    wrong: 'unload',
    json: 'unload',
  },
  retry: {
    happy: {
      words: `retry ${exampleId}`,
      scripts: { retry: () => exampleDeployment({ status: 'waiting' }) },
    },
    empty: {
      words: 'retry tiny',
      scripts: { retry: noDeployment, deployments: () => ({ deployments: [] }) },
      code: 1,
    },
    wrong: 'retry',
    json: 'retry',
  },
  'deployments list': {
    happy: {
      words: 'deployments list',
      scripts: { deployments: () => ({ deployments: [exampleDeployment()] }) },
    },
    empty: { words: 'deployments', scripts: { deployments: () => ({ deployments: [] }) } },
    wrong: 'deployments ls',
    json: 'deployments',
  },
  'deployments info': {
    happy: { words: `deployments info ${exampleId}`, scripts: { deployment: () => exampleDeployment() } },
    empty: {
      words: 'deployments info tiny',
      scripts: { deployment: noDeployment, deployments: () => ({ deployments: [] }) },
      code: 1,
    },
    wrong: 'deployments info',
    json: 'deployment',
  },
  run: {
    happy: { words: 'run --help', scripts: {} },
    wrong: 'run kernle',
    json: null,
    offline: true,
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
    json: null,
  },
  'run map': {
    happy: { words: 'run map --detach --dataset rows.csv -- tr a-z A-Z', scripts: submitted },
    wrong: 'run map --dataset rows -- cat',
    json: null,
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
    json: null,
  },
  'artifacts list': {
    happy: {
      words: 'artifacts list',
      scripts: {
        artifacts: () => ({ artifacts: [artifact], usedBytes: artifact.bytes, quotaBytes: 2 ** 36 }),
      },
    },
    empty: {
      words: 'artifacts',
      scripts: { artifacts: () => ({ artifacts: [], usedBytes: 0, quotaBytes: 2 ** 36 }) },
    },
    wrong: 'artifacts lits',
    json: 'artifacts',
  },
  'artifacts put': {
    happy: { words: 'artifacts put --help', scripts: {} },
    wrong: 'artifacts put',
    json: null,
    offline: true,
  },
  'artifacts get': {
    happy: { words: 'artifacts get --help', scripts: {} },
    empty: { words: 'artifacts get numbers', scripts: { artifact: noArtifact }, code: 1 },
    wrong: 'artifacts get',
    json: null,
    offline: true,
  },
  'artifacts rm': {
    happy: {
      words: 'artifacts rm numbers.f64',
      scripts: { artifact: () => artifact, removeArtifact: () => ({}) },
    },
    empty: {
      words: 'artifacts rm numbers',
      scripts: { artifact: noArtifact, removeArtifact: noArtifact },
      code: 1,
    },
    wrong: 'artifacts rm',
    json: null,
  },
  'artifacts gc': {
    happy: {
      words: 'artifacts gc',
      scripts: { collectArtifacts: () => ({ removed: 3, freedBytes: 52_428_800 }) },
    },
    empty: {
      words: 'artifacts gc',
      scripts: { collectArtifacts: () => ({ removed: 0, freedBytes: 0 }) },
    },
    wrong: 'artifacts gc all',
    json: 'collectArtifacts',
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
    empty: { words: `jobs wait ${exampleJobId}`, scripts: { job: () => failedJob() }, code: 1 },
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
    wrong: `jobs logs ${exampleJobId} --attempt 0`,
    json: 'jobLog',
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
    wrong: 'distribution show',
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
  discover: {
    happy: {
      words: 'discover',
      scripts: {
        discovery: () => ({ enabled: true, interfaces: [], machines: [found], problem: null }),
      },
    },
    empty: {
      words: 'discover',
      scripts: {
        discovery: () => ({
          enabled: true,
          interfaces: [],
          machines: [],
          problem: 'No network interface takes multicast.',
        }),
      },
    },
    wrong: 'discover attic',
    json: 'discovery',
  },
  invite: {
    happy: {
      words: 'invite',
      scripts: { invite: () => ({ joinString: 'covey1.abc', expiresAt: at + 3_600_000 }) },
    },
    wrong: 'invite attic',
    json: 'invite',
  },
  pending: {
    happy: { words: 'pending', scripts: { pending: () => ({ pending: [waiting], blocked: [] }) } },
    empty: { words: 'pending', scripts: { pending: () => ({ pending: [], blocked: [] }) } },
    wrong: 'pending all',
    json: 'pending',
  },
  approve: {
    happy: { words: 'approve 123456', scripts: { approve: () => ({ ...waiting, approved: true }) } },
    empty: {
      words: 'approve 123456',
      scripts: { approve: missing('join_code_wrong', 'No machine that asks to join shows this number.') },
      code: 1,
    },
    wrong: 'approve 12',
    json: 'approve',
  },
  deny: {
    happy: { words: 'deny bbbbbbbbbbbb', scripts: { deny: () => waiting } },
    empty: {
      words: 'deny bbbbbbbbbbbb',
      scripts: { deny: missing('join_request_not_found', 'No machine "bbbbbbbbbbbb" asks to join.') },
      code: 1,
    },
    wrong: 'deny',
    json: 'deny',
  },
  unblock: {
    happy: { words: 'unblock bbbbbbbbbbbb', scripts: { unblock: () => ({}) } },
    empty: {
      words: 'unblock bbbbbbbbbbbb',
      scripts: { unblock: missing('join_request_not_found', 'No machine "bbbbbbbbbbbb" is blocked.') },
      code: 1,
    },
    wrong: 'unblock',
    json: 'unblock',
  },
  join: {
    happy: { words: 'join home', scripts: { join: () => joined, self: () => self } },
    empty: {
      words: 'join',
      scripts: { join: missing('controller_not_found', 'No controller announces itself on this network.') },
      code: 1,
    },
    wrong: 'join home attic',
    json: null,
  },
  leave: {
    happy: {
      words: 'leave --yes',
      scripts: { self: () => self, leave: () => ({ ...self, membership: null }) },
    },
    empty: { words: 'leave', scripts: { self: () => ({ ...self, membership: null }) }, code: 1 },
    wrong: 'leave home',
    json: 'leave',
  },
  'secret show': {
    happy: { words: 'secret show', scripts: { clusterSecret: () => ({ secret }) } },
    empty: { words: 'secret', scripts: { clusterSecret: () => ({ secret: null }) }, code: 1 },
    wrong: 'secret shwo',
    json: 'clusterSecret',
  },
  'secret new': {
    happy: { words: 'secret new', scripts: { newClusterSecret: () => ({ secret }) } },
    wrong: 'secret new words',
    json: 'newClusterSecret',
  },
  'secret drop': {
    happy: { words: 'secret drop', scripts: { dropClusterSecret: () => ({}) } },
    wrong: 'secret drop all',
    json: 'dropClusterSecret',
  },
  'secret set': {
    happy: { words: 'secret set', scripts: { join: () => joined, self: () => self }, answers: [secret] },
    wrong: 'secret set words',
    json: null,
  },
  drain: {
    happy: { words: 'drain attic --deadline 90', scripts: { drain: () => attic } },
    empty: { words: 'drain desk', scripts: { drain: noNode, nodes: () => ({ nodes: [] }) }, code: 1 },
    wrong: 'drain attic --deadline soon',
    json: 'drain',
  },
  resume: {
    happy: { words: 'resume desk', scripts: { resume: () => exampleNode() } },
    empty: { words: 'resume desk', scripts: { resume: noNode, nodes: () => ({ nodes: [] }) }, code: 1 },
    wrong: 'resume',
    json: 'resume',
  },
  pause: {
    happy: { words: 'pause attic', scripts: { pause: () => ({ ...attic, status: 'paused', drain: null }) } },
    empty: { words: 'pause desk', scripts: { pause: noNode, nodes: () => ({ nodes: [] }) }, code: 1 },
    wrong: 'pause',
    json: 'pause',
  },
  rename: {
    happy: {
      words: 'rename desk study',
      scripts: { renameNode: () => exampleNode({ name: 'study' }), node: () => exampleNode() },
    },
    empty: {
      words: 'rename desk study',
      scripts: { renameNode: noNode, node: noNode, nodes: () => ({ nodes: [] }) },
      code: 1,
    },
    wrong: 'rename desk',
    json: 'renameNode',
  },
  remove: {
    happy: { words: 'remove desk --yes', scripts: { node: () => exampleNode(), removeNode: () => ({}) } },
    empty: { words: 'remove desk --yes', scripts: { node: noNode, nodes: () => ({ nodes: [] }) }, code: 1 },
    wrong: 'remove',
    json: 'removeNode',
  },
  'lend status': {
    happy: { words: 'lend status', scripts: { self: () => self, settings: () => settings } },
    empty: { words: 'lend', scripts: { self: () => ({ ...self, lend: null }), settings: () => settings } },
    wrong: 'lend sometimes',
    json: null,
  },
  'lend on': {
    happy: { words: 'lend on', scripts: { setSettings: () => settings, self: () => self } },
    wrong: 'lend on please',
    json: null,
  },
  'lend off': {
    happy: {
      words: 'lend off',
      scripts: {
        setSettings: () => settings,
        self: () => ({
          ...self,
          lend: {
            ...lent,
            lending: false,
            heldBackBy: [{ rule: 'switch' as const, message: 'Lending is switched off.' }],
          },
        }),
      },
    },
    wrong: 'lend off please',
    json: null,
  },
  'lend set': {
    happy: { words: 'lend set ram 8GB', scripts: { setSettings: () => settings } },
    wrong: 'lend set rma 8GB',
    json: null,
  },
  'models list': {
    happy: { words: 'models list', scripts: { models: () => ({ models: [exampleModel] }) } },
    empty: { words: 'models', scripts: { models: () => ({ models: [] }) } },
    wrong: 'models lsit',
    json: 'models',
  },
  import: {
    happy: {
      words: 'import /m.gguf --node desk',
      scripts: {
        importModel: () =>
          exampleTransfer({ kind: 'import', status: 'done', model: 'm', doneBytes: 1_000_000 }),
      },
    },
    empty: {
      words: 'import /m.gguf --node desk',
      scripts: { importModel: noNode, nodes: () => ({ nodes: [] }) },
      code: 1,
    },
    wrong: 'import /m.gguf',
    json: 'importModel',
  },
  pull: {
    happy: {
      words: 'pull hf:owner/repo/file.gguf',
      scripts: {
        pullModel: () => exampleTransfer({ status: 'done', model: 'file', doneBytes: 1_000_000 }),
      },
    },
    empty: {
      words: 'pull hf:owner/repo/file.gguf',
      scripts: { pullModel: missing('no_nodes', 'No machine is ready to download to.') },
      code: 1,
    },
    wrong: 'pull',
    json: 'pullModel',
  },
  events: {
    happy: {
      words: 'events',
      scripts: {
        events: (_request, response) => {
          response.writeHead(200, { 'content-type': 'text/event-stream' });
          const event = { id: 1, at, kind: 'node-joined', level: 'info', message: 'desk has joined.' };
          response.end(`data: ${JSON.stringify(event)}\n\n`);
        },
      },
    },
    empty: {
      words: 'events',
      scripts: {
        events: (_request, response) =>
          void response.writeHead(200, { 'content-type': 'text/event-stream' }).end(),
      },
    },
    wrong: 'events --folow',
    json: null,
  },
  logs: {
    happy: {
      words: 'logs --lines 1',
      scripts: {
        logs: () => ({
          lines: [
            {
              at,
              nodeId: nodeIdOf('a'),
              nodeName: 'desk',
              level: 'info',
              source: 'worker',
              message: 'connected',
            },
          ],
        }),
      },
    },
    empty: { words: 'logs', scripts: { logs: () => ({ lines: [] }) } },
    wrong: 'logs --lines 0',
    json: 'logs',
  },
  open: {
    happy: {
      words: 'open',
      scripts: {
        loginCode: () => ({
          code: 'ABCD-EFGH',
          url: 'http://127.0.0.1:7878/#code=ABCD-EFGH',
          expiresAt: at + 60_000,
        }),
      },
    },
    wrong: 'open now',
    json: 'loginCode',
  },
  login: {
    happy: {
      words: 'login',
      scripts: {
        redeem: () => ({ token: 'covey_session_x', role: 'admin', expiresAt: at + 43_200_000 }),
      },
      answers: ['ABCD-EFGH'],
    },
    empty: {
      words: 'login',
      scripts: { redeem: missing('login_code_invalid', 'This code is wrong, used, or too old.') },
      answers: ['ABCD-EFGH'],
      code: 1,
    },
    wrong: 'login ABCD-EFGH',
    json: null,
  },
  logout: {
    happy: { words: 'logout', scripts: { logout: () => ({}) } },
    wrong: 'logout now',
    json: null,
    offline: true,
  },
  'keys list': {
    happy: { words: 'keys list', scripts: { keys: () => ({ keys: [key] }) } },
    empty: { words: 'keys', scripts: { keys: () => ({ keys: [] }) } },
    wrong: 'keys lits',
    json: 'keys',
  },
  'keys create': {
    happy: { words: 'keys create editor', scripts: { createKey: () => ({ ...key, key: 'covey_key_x' }) } },
    wrong: 'keys create',
    json: 'createKey',
  },
  'keys revoke': {
    happy: {
      words: 'keys revoke editor',
      scripts: { keys: () => ({ keys: [key] }), revokeKey: () => ({}) },
    },
    empty: {
      words: 'keys revoke editor',
      scripts: {
        keys: () => ({ keys: [] }),
        revokeKey: missing('key_not_found', 'There is no key "editor".'),
      },
      code: 1,
    },
    wrong: 'keys revoke',
    json: null,
  },
  'config get': {
    happy: { words: 'config get', scripts: { settings: () => settings } },
    wrong: 'config get lan port',
    json: null,
  },
  'config set': {
    happy: { words: 'config set lan.port 7881', scripts: { setSettings: () => settings } },
    wrong: 'config set lan.port',
    json: null,
  },
  'config unset': {
    happy: { words: 'config unset lan.port', scripts: { setSettings: () => settings } },
    wrong: 'config unset',
    json: null,
  },
  links: {
    happy: { words: 'links', scripts: { links: () => ({ links: [link] }) } },
    empty: { words: 'links', scripts: { links: () => ({ links: [] }) } },
    wrong: 'links desk',
    json: 'links',
  },
  version: { happy: { words: 'version', scripts: {} }, wrong: 'version 1', json: null, offline: true },
  'jobs schema': {
    happy: { words: 'jobs schema --help', scripts: {} },
    wrong: 'jobs schema x',
    json: null,
    offline: true,
  },
  completion: {
    happy: { words: 'completion --help', scripts: {} },
    wrong: 'completion tcsh',
    json: null,
    offline: true,
  },
  man: { happy: { words: 'man --help', scripts: {} }, wrong: 'man covey', json: null, offline: true },
  doctor: {
    happy: {
      words: 'doctor',
      scripts: {
        doctor: () => ({
          nodes: [
            {
              nodeId: nodeIdOf('c'),
              name: 'hall',
              error: null,
              checks: [
                {
                  id: 'program',
                  title: 'Program',
                  status: 'ok',
                  summary: 'Covey 0.1.0 on Node.js 24.21.0',
                  action: '',
                },
              ],
            },
          ],
          pairs: [link],
        }),
      },
    },
    wrong: 'doctor desk',
    json: 'doctor',
    offline: true,
  },
  backup: {
    happy: { words: 'backup --help', scripts: {} },
    wrong: 'backup',
    json: null,
    offline: true,
  },
  restore: {
    happy: { words: 'restore --help', scripts: {} },
    wrong: 'restore',
    json: null,
    offline: true,
  },
  'identity show': {
    happy: { words: 'identity show --help', scripts: {} },
    wrong: 'identity shwo',
    json: null,
    offline: true,
  },
  'identity new': {
    happy: { words: 'identity new --help', scripts: {} },
    wrong: 'identity new x',
    json: null,
    offline: true,
  },
};
