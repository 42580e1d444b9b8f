import type { JobId, TaskId } from '#shared/lib/ids.ts';
import type { TaskResult } from '#shared/domain/task.ts';

/** What tasks have made and printed, as it is kept in the database. */
export interface JobResults {
  /** The accepted result of a partition; null: it has none. */
  result(jobId: JobId, index: number): TaskResult | null;
  /** The end of what an ended attempt has printed; null: it is not kept. */
  output(taskId: TaskId): string | null;
}
