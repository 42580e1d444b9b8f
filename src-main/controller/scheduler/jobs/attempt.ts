import type { NodeId } from '#shared/lib/ids.ts';
import { taskId } from '#shared/lib/ids.ts';
import type { Assignment } from '../../state/job-events.ts';
import type { JobRecord, PartitionRecord } from '../../state/job-state.ts';

/** The next attempt at a partition that exists. */
export function attemptAt(
  job: JobRecord,
  partition: PartitionRecord,
  nodeId: NodeId,
  speculative = false,
): Assignment {
  const attempt = partition.attempt + 1;
  return {
    jobId: job.definition.id,
    index: partition.index,
    epoch: partition.epoch + 1,
    attempt,
    taskId: taskId(job.definition.id, partition.index, attempt),
    nodeId,
    range: partition.range,
    owner: partition.owner,
    speculative,
  };
}
