import type { JobId, NodeId, TaskId } from '#shared/lib/ids.ts';
import type { TaskReport, TaskResult } from '#shared/domain/task.ts';
import type { JobEvent } from '../job-events.ts';
import { initialPartitions, isLive, untouched } from '../job-shares.ts';
import { finished, tallied } from '../job-tally.ts';
import { preparationIndex, type JobRecord, type PartitionRecord, type TaskRecord } from '../job-state.ts';
import type { ControllerState } from '../state.ts';
import type { Connection } from './database.ts';
import { jobFromRow, partitionFromText, resultFromText, type JobRow } from './job-rows.ts';
import { createTaskOutputs } from './task-outputs.ts';

export type Reported = Extract<JobEvent, { type: 'tasks-reported' }>;
type Jobs = ControllerState['jobs'];
type Ended = Extract<TaskReport, { type: 'done' | 'failed' }>;

/** Jobs on disk. Results and outputs are only here: they come by with the reports and are not kept in memory. */
export interface JobStore {
  load(): Jobs;
  /** Within the caller's transaction: what has changed, and of `reported` what has been accepted. */
  write(before: Jobs, after: Jobs, reported: readonly Reported[]): void;
  /** The accepted result of a partition; null: it has none. */
  result(jobId: JobId, index: number): TaskResult | null;
  /** The end of what an ended attempt has printed; null: it is not kept. */
  output(id: TaskId): string | null;
  /** The transaction of the last `write` has failed. */
  rolledBack(): void;
}

const idsPerJob = 10_000_000;

export function createJobStore(connection: Connection): JobStore {
  const outputs = createTaskOutputs(connection);
  const addJob = connection.prepare('INSERT INTO jobs (id, definition, course) VALUES (?, ?, ?)');
  const setCourse = connection.prepare('UPDATE jobs SET course = ? WHERE no = ?');
  const dropJob = connection.prepare('DELETE FROM jobs WHERE no = ?');
  const findJob = connection.prepare<[string], { no: number }>('SELECT no FROM jobs WHERE id = ?');
  const findId = connection.prepare<[number], { id: JobId }>('SELECT id FROM jobs WHERE no = ?');
  const put = connection.prepare(
    `INSERT INTO partitions (id, record) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET record = excluded.record`,
  );
  const putDone = connection.prepare(
    `INSERT INTO partitions (id, record, result) VALUES (?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET record = excluded.record, result = excluded.result`,
  );
  const dropPartitions = connection.prepare('DELETE FROM partitions WHERE id BETWEEN ? AND ?');
  const readPartitions = connection.prepare<[number, number], { record: string }>(
    'SELECT record FROM partitions WHERE id BETWEEN ? AND ? ORDER BY id',
  );
  const readResult = connection.prepare<[number], { result: string | null }>(
    'SELECT result FROM partitions WHERE id = ?',
  );
  /** Only of what was committed: a number that a failed transaction gave is given again. */
  const numberOf = (id: JobId): number | null => findJob.get(id)?.no ?? null;

  const writePartitions = (
    no: number,
    before: JobRecord | undefined,
    after: JobRecord,
    words: ReadonlyMap<TaskId, readonly Word[]>,
  ): void => {
    const one = (was: PartitionRecord | undefined, is: PartitionRecord): void => {
      if (was === is || (was ? isSame(was, is) : is.attempt === 0)) return;
      let result: TaskResult | null = null;
      for (const task of is.tasks) {
        if (isLive(task)) continue;
        const word = wordOf(words, task);
        if (!word || isEnded(was, task.id)) continue;
        if (word.type === 'done' && task.outcome === 'done') ({ result } = word);
        if (word.output !== '') outputs.add(task.id, no, word.output);
      }
      const id = no * idsPerJob + is.index;
      if (result) putDone.run(id, JSON.stringify(is), JSON.stringify(result));
      else put.run(id, JSON.stringify(is));
    };
    if (after.preparation) one(before?.preparation ?? undefined, after.preparation);
    if (before?.partitions === after.partitions) return;
    after.partitions.forEach((partition, index) => one(before?.partitions[index], partition));
  };

  return {
    load() {
      const jobs = new Map<JobId, JobRecord>();
      for (const row of connection.prepare<[], JobRow>('SELECT * FROM jobs ORDER BY no').all()) {
        const { definition, course } = jobFromRow(row);
        const partitions =
          course.total === null && definition.index ? [] : initialPartitions(definition, course.total ?? 0);
        let preparation = definition.index ? untouched(preparationIndex, null) : null;
        const first = row.no * idsPerJob;
        for (const { record } of readPartitions.iterate(first, first + preparationIndex)) {
          const partition = partitionFromText(record);
          if (partition.index === preparationIndex) preparation = partition;
          else partitions[partition.index] = partition;
        }
        const job = tallied({ definition, course, preparation, partitions });
        jobs.set(definition.id, course.finishedAt === null ? job : finished(job));
      }
      return jobs;
    },
    write(before, after, reported) {
      if (before === after) return;
      if (reported.length > 0) {
        outputs.makeRoom((no) => {
          const id = findId.get(no)?.id;
          const job = id === undefined ? undefined : after.get(id);
          return !job || job.course.finishedAt !== null;
        });
      }
      let words: ReadonlyMap<TaskId, readonly Word[]> | null = null;
      for (const [id, job] of after) {
        const was = before.get(id);
        if (was === job) continue;
        let no = numberOf(id);
        if (no === null) {
          const row = addJob.run(id, JSON.stringify(job.definition), JSON.stringify(job.course));
          no = Number(row.lastInsertRowid);
        } else if (was?.course !== job.course) setCourse.run(JSON.stringify(job.course), no);
        words ??= wordsOf(reported);
        writePartitions(no, was, job, words);
      }
      for (const id of before.keys()) {
        const no = after.has(id) ? null : numberOf(id);
        if (no === null) continue;
        dropPartitions.run(no * idsPerJob, no * idsPerJob + preparationIndex);
        outputs.dropJob(no);
        dropJob.run(no);
      }
    },
    result(jobId, index) {
      const no = numberOf(jobId);
      const text = no === null ? null : readResult.get(no * idsPerJob + index)?.result;
      return text == null ? null : resultFromText(text);
    },
    output: (id) => outputs.read(id),
    rolledBack: () => outputs.rolledBack(),
  };
}

type Word = Ended & { readonly from: NodeId };

function wordsOf(reported: readonly Reported[]): Map<TaskId, Word[]> {
  const words = new Map<TaskId, Word[]>();
  for (const { nodeId, reports } of reported) {
    for (const report of reports) {
      if (report.type !== 'done' && report.type !== 'failed') continue;
      const word = { ...report, from: nodeId };
      const others = words.get(report.taskId);
      if (others) others.push(word);
      else words.set(report.taskId, [word]);
    }
  }
  return words;
}

/** What ended this attempt: the first of its own machine and epoch. */
function wordOf(words: ReadonlyMap<TaskId, readonly Word[]>, task: TaskRecord): Word | undefined {
  return words.get(task.id)?.find(({ epoch, from }) => epoch === task.epoch && from === task.nodeId);
}

function isEnded(partition: PartitionRecord | undefined, id: TaskId): boolean {
  const task = partition?.tasks.find((candidate) => candidate.id === id);
  return task !== undefined && !isLive(task);
}

/** Nothing differs that has to survive a restart: neither progress nor that an attempt has begun. */
function isSame(a: PartitionRecord, b: PartitionRecord): boolean {
  return (
    a.phase === b.phase &&
    a.epoch === b.epoch &&
    a.attempt === b.attempt &&
    a.failures === b.failures &&
    a.losses === b.losses &&
    a.owner === b.owner &&
    a.nextAttemptAt === b.nextAttemptAt &&
    a.finishedAt === b.finishedAt &&
    a.tasks.length === b.tasks.length &&
    a.tasks.every((task, index) => {
      const other = b.tasks[index];
      return task.id === other?.id && task.outcome === other.outcome && task.reach === other.reach;
    })
  );
}
