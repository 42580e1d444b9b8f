import type { TaskId } from '#shared/lib/ids.ts';
import type { Connection } from './database.ts';

/** What attempts have printed, as far as it is kept: so much of each job, and so much of all of them. */
export interface TaskOutputs {
  read(id: TaskId): string | null;
  /** Within the caller's transaction. Beyond what may be kept only the last of it is, `leastOutput` at least. */
  add(id: TaskId, jobNo: number, output: string): void;
  dropJob(jobNo: number): void;
  /** More is kept than may be: what jobs printed that are over goes, the oldest first. */
  makeRoom(isOver: (jobNo: number) => boolean): void;
  /** The transaction of the last changes has failed. */
  rolledBack(): void;
}

export interface OutputLimits {
  readonly jobBytes: number;
  readonly allBytes: number;
}

const defaultLimits: OutputLimits = { jobBytes: 64 * 1024 * 1024, allBytes: 1024 * 1024 * 1024 };
const leastOutput = 1024;

export function createTaskOutputs(connection: Connection, limits = defaultLimits): TaskOutputs {
  const add = connection.prepare(
    'INSERT OR REPLACE INTO task_outputs (task_id, job_no, output) VALUES (?, ?, ?)',
  );
  const drop = connection.prepare('DELETE FROM task_outputs WHERE job_no = ?');
  const read = connection.prepare<[string], { output: string }>(
    'SELECT output FROM task_outputs WHERE task_id = ?',
  );
  // Not `length`, which reads every text to its end.
  const sizes = connection.prepare<[], { no: number; bytes: number }>(
    'SELECT job_no AS no, sum(octet_length(output)) AS bytes FROM task_outputs GROUP BY job_no ORDER BY job_no',
  );
  /** Bytes by job, the oldest in front: summing them up with every turn would take longer with every output. */
  let known: Map<number, number> | null = null;
  let all = 0;

  const load = (): Map<number, number> => {
    if (known) return known;
    known = new Map(sizes.all().map(({ no, bytes }) => [no, bytes]));
    all = [...known.values()].reduce((sum, bytes) => sum + bytes, 0);
    return known;
  };
  const dropJob = (no: number): void => {
    const bytes = load().get(no);
    if (bytes === undefined) return;
    drop.run(no);
    known?.delete(no);
    all -= bytes;
  };

  return {
    read: (id) => read.get(id)?.output ?? null,
    add(id, no, output) {
      const own = load().get(no) ?? 0;
      const most = Math.max(leastOutput, Math.min(limits.jobBytes - own, limits.allBytes - all));
      const kept = output.slice(-most);
      const bytes = Buffer.byteLength(kept);
      add.run(id, no, kept);
      known?.set(no, own + bytes);
      all += bytes;
    },
    dropJob,
    makeRoom(isOver) {
      const jobs = load();
      if (all < limits.allBytes) return;
      for (const no of [...jobs.keys()].sort((a, b) => a - b)) {
        if (isOver(no)) dropJob(no);
        if (all < limits.allBytes) return;
      }
    },
    rolledBack() {
      known = null;
    },
  };
}
