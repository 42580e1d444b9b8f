import { expect, test } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import { taskId } from '#shared/lib/ids.ts';
import type { PartitionView } from '#shared/domain/job.ts';
import { scriptedIo } from '../../../e2e/support/cli-io.ts';
import {
  doneJob,
  exampleJob,
  exampleJobId,
  examplePartition,
  exampleTask,
  failedJob,
} from '../../../e2e/support/job-views.ts';
import type { RouteScript, ScriptedRequest } from '../../../e2e/support/scripted-api.ts';
import { useCovey } from '../../../e2e/support/use-covey.ts';
import { newPart } from './job-log.ts';

const { covey } = useCovey();
const gang = {
  kind: 'gang',
  partitions: { total: 3, waiting: 0, running: 3, done: 0, failed: 0, cancelled: 0 },
} as const;
const rankOf = ({ query }: ScriptedRequest): number => Number(query['index']);
const logOf = (rank: number, attempt: number, output: string, running: boolean) => ({
  taskId: taskId(exampleJobId, rank, attempt),
  output,
  truncated: false,
  running,
});
/** What `jobLog` answers rank by rank, one entry for each time that it is asked. */
function played(rounds: readonly ((rank: number) => unknown)[]): RouteScript {
  const asked = new Map<number, number>();
  return (request) => {
    const rank = rankOf(request);
    const round = asked.get(rank) ?? 0;
    asked.set(rank, round + 1);
    return rounds[Math.min(round, rounds.length - 1)]?.(rank);
  };
}

test('logs of a gang are those of all its ranks, each line with its rank', async () => {
  const jobLog = played([
    (rank) => {
      if (rank === 1) throw new CoveyError('task_not_found', 'Partition 1 has not been begun.');
      return logOf(rank, 1, rank === 0 ? 'one\ntwo\r\nthr' : '', true);
    },
  ]);
  const { code, stdout, stderr } = await covey(`jobs logs ${exampleJobId}`, {
    job: () => exampleJob(gang),
    jobLog,
  });
  expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: '[0] one\n[0] two\n[0] thr\n', stderr: '' });
});

test('one rank is asked for by its number, and other jobs have no ranks', async () => {
  const jobLog: RouteScript = (request) => logOf(rankOf(request), 1, `rank ${rankOf(request)}\n`, false);
  const one = await covey(`jobs logs ${exampleJobId} --partition 2`, { jobLog });
  expect(one.stdout).toBe('rank 2\n');
  const other = await covey(`jobs logs ${exampleJobId}`, { job: () => exampleJob(), jobLog });
  expect(other.stdout).toBe('rank 0\n');
});

test('of several partitions the first that failed is shown, else the first, and which it is', async () => {
  const jobLog: RouteScript = (request) => logOf(rankOf(request), 3, `part ${rankOf(request)}\n`, false);
  const failed = await covey(`jobs logs ${exampleJobId}`, {
    job: () => failedJob(),
    jobPartitions: ({ query }) => ({
      partitions: query['status'] === 'failed' ? [examplePartition({ index: 1, status: 'failed' })] : [],
      total: 3,
    }),
    jobLog,
  });
  expect([failed.stdout, failed.stderr]).toEqual([
    'part 1\n',
    'This is partition 1 of 3, the first that failed; --partition N shows another one.\n',
  ]);
  const other = await covey(`jobs logs ${exampleJobId}`, { job: () => exampleJob(), jobLog });
  expect([other.stdout, other.stderr]).toEqual([
    'part 0\n',
    'This is partition 0 of 41; --partition N shows another one.\n',
  ]);
});

test('of several that failed it is the one that the error of the job tells of, in both places', async () => {
  const message = 'Partition 2 failed 3 times, the last time: sh ended with exit code 127.';
  const scripts = {
    job: () => failedJob({ error: { code: 'partition_poisoned', message } }),
    jobPartitions: ({ query }: ScriptedRequest) => ({
      partitions: [0, 1, 2]
        .filter((index) => index >= Number(query['from'] ?? 0))
        .slice(0, Number(query['limit']))
        .map((index) => examplePartition({ index, status: 'failed' })),
      total: 3,
    }),
    jobLog: ((request) =>
      logOf(rankOf(request), 3, `part ${rankOf(request)}\n`, false)) satisfies RouteScript,
  };
  const waited = await covey(`jobs wait ${exampleJobId}`, scripts);
  expect(waited.stderr).toContain(`error: ${message}\nPartition 2 printed:\n  part 2\n`);
  const { stdout, stderr } = await covey(`jobs logs ${exampleJobId}`, scripts);
  expect([stdout, stderr]).toEqual([
    'part 2\n',
    'This is partition 2 of 3, the first that failed; --partition N shows another one.\n',
  ]);
});

test('after a failed gang the rank is heard that failed, not one that was ended for it; a silent one is passed over', async () => {
  const scripts = {
    job: () => failedJob({ kind: 'gang', partitions: { ...failedJob().partitions, failed: 0 } }),
    tasks: ({ query }: ScriptedRequest) => ({
      tasks:
        query['outcome'] === 'crashed' ? [exampleTask({ index: 2, attempt: 4, outcome: 'crashed' })] : [],
    }),
  };
  const jobLog: RouteScript = ({ query }) =>
    query['index'] === '2' && query['attempt'] === '4'
      ? logOf(2, 4, 'out of \u001b[31mmemory\n', false)
      : logOf(0, 1, 'fine', false);
  const { code, stderr } = await covey(`jobs wait ${exampleJobId}`, { ...scripts, jobLog });
  expect([code, stderr]).toEqual([
    1,
    expect.stringContaining('\nRank 2 printed:\n  out of \\x1b[31mmemory\n'),
  ]);
  const silent = await covey(`jobs wait ${exampleJobId}`, {
    ...scripts,
    jobLog: () => logOf(2, 4, '\n', false),
  });
  expect(silent.stderr).not.toContain('printed');
});

test('a gang that has printed nothing says so', async () => {
  const jobLog: RouteScript = (request) => logOf(rankOf(request), 1, '', false);
  const { stdout, stderr } = await covey(`jobs logs ${exampleJobId}`, {
    job: () => exampleJob(gang),
    jobLog,
  });
  expect([stdout, stderr]).toEqual(['', 'They have printed nothing.\n']);
});

test('followed: whole lines as they come, over a start of the gang and a machine that is away, to the end', async () => {
  let views = 0;
  const job: RouteScript = () => (++views < 5 ? exampleJob(gang) : doneJob(gang));
  const jobLog = played([
    (rank) => logOf(rank, 1, `a${rank}\nb`, true),
    (rank) => {
      if (rank === 2) throw new CoveyError('node_not_ready', 'attic is not connected.');
      return logOf(rank, 1, `a${rank}\nb${rank}`, true);
    },
    (rank) => {
      if (rank === 2) throw new CoveyError('node_not_ready', 'attic is not connected.');
      return logOf(rank, 2, 'again ', true);
    },
    (rank) => logOf(rank, 2, `again ${rank}\nlast`, false),
  ]);
  const { code, stdout, stderr } = await covey(`jobs logs ${exampleJobId} --follow`, { job, jobLog });
  const lines = stdout.trimEnd().split('\n');
  const of = (rank: number) =>
    lines.filter((line) => line.startsWith(`[${rank}] `)).map((line) => line.slice(4));
  expect([code, stderr]).toEqual([0, 'Rank 2: attic is not connected.\n']);
  expect(of(0)).toEqual(['a0', 'b0', 'again 0', 'last']);
  expect(of(1)).toEqual(['a1', 'b1', 'again 1', 'last']);
  expect(of(2)).toEqual(['a2', 'b', 'again 2', 'last']);
});

test('followed: one partition, in whole lines, from before its first attempt over a retry to its end', async () => {
  const at = (status: PartitionView['status']) => ({
    partitions: [examplePartition({ index: 2, status })],
    total: 3,
  });
  const answers: (() => unknown)[] = [
    () => {
      throw new CoveyError('task_not_found', 'Partition 2 has not been begun.');
    },
    () => logOf(2, 1, 'one\ntw', true),
    () => {
      throw new CoveyError('node_not_ready', 'attic is not connected.');
    },
    () => logOf(2, 1, 'one\ntwo\nthree', true),
    () => logOf(2, 1, 'one\ntwo\nthree', false),
    () => logOf(2, 2, 'again\u001b[31m\n', true),
    () => logOf(2, 2, 'again\u001b[31m\nend', false),
  ];
  const statuses: PartitionView['status'][] = ['waiting', 'running', 'waiting', 'done'];
  const { code, stdout, stderr } = await covey(`jobs logs ${exampleJobId} --partition 2 --follow`, {
    job: () => exampleJob(),
    jobLog: () => answers.shift()?.(),
    jobPartitions: () => at(statuses.shift() ?? 'done'),
  });
  expect([code, stderr]).toEqual([0, 'attic is not connected.\n']);
  expect(stdout).toBe('one\ntwo\nthree\nagain\\x1b[31m\nend\n');
  expect(answers).toEqual([]);
});

test('followed over a restart of the controller, until Ctrl-C', async () => {
  const io = scriptedIo();
  let calls = 0;
  const { code, stdout } = await covey(
    `jobs logs ${exampleJobId} --partition 0 --follow`,
    {
      job: () => exampleJob(),
      jobLog: (_request, response) => {
        calls += 1;
        if (calls === 2 || calls === 3) return void response.destroy();
        if (calls === 5) io.interrupt();
        return logOf(0, 1, calls === 1 ? 'one\n' : 'one\ntwo\n', true);
      },
    },
    io,
  );
  expect([code, stdout]).toEqual([0, 'one\ntwo\n']);
  const never = await covey(`jobs logs ${exampleJobId} --partition 0 --follow`, {
    jobLog: (_request, response) => void response.destroy(),
  });
  expect(never.code).toBe(3);
});

test('with --json each log is an object of its own', async () => {
  const jobLog: RouteScript = (request) => logOf(rankOf(request), 1, `rank ${rankOf(request)}\n`, false);
  const { stdout } = await covey(`jobs logs ${exampleJobId} --json`, { job: () => exampleJob(gang), jobLog });
  expect(
    stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown),
  ).toEqual([0, 1, 2].map((rank) => logOf(rank, 1, `rank ${rank}\n`, false)));
});

test('what came since is found in ends of the same text', () => {
  expect(newPart('ab', 'abc')).toBe('c');
  expect(newPart('abc', 'bcd')).toBe('d');
  expect(newPart('abc', 'xyz')).toBe('xyz');
});
