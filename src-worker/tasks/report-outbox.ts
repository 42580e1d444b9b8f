import type { TaskReport } from '#shared/domain/task.ts';
import type { TaskId } from '#shared/lib/ids.ts';
import { throttled } from '../runtime/throttle.ts';

/** Frames of a session are at most 1 MiB. */
const maxFrameLength = 512 * 1024;
const maxFrameReports = 1024;
const progressEveryMs = 250;

/** Reports on their way to the controller. */
export interface ReportOutbox {
  push(reports: readonly TaskReport[]): void;
  /** The session has ended: what waits is of no use in another, which tells everything again. */
  clear(): void;
}

/**
 * Bundles what comes within one turn of the event loop into as few frames as there can be. Progress is told at most
 * four times a second, the newest of each task, and never after its end.
 */
export function createReportOutbox(send: (reports: readonly TaskReport[]) => void): ReportOutbox {
  let waiting: TaskReport[] = [];
  const progress = new Map<TaskId, TaskReport>();
  let scheduled = false;

  const flush = (): void => {
    scheduled = false;
    const reports = waiting;
    waiting = [];
    let frame: TaskReport[] = [];
    let length = 0;
    for (const report of reports) {
      const more = lengthOf(report);
      if (frame.length > 0 && (length + more > maxFrameLength || frame.length >= maxFrameReports)) {
        send(frame);
        frame = [];
        length = 0;
      }
      frame.push(report);
      length += more;
    }
    if (frame.length > 0) send(frame);
  };
  const schedule = (): void => {
    if (scheduled) return;
    scheduled = true;
    setImmediate(flush);
  };
  const tellProgress = throttled(() => {
    waiting.push(...progress.values());
    progress.clear();
    schedule();
  }, progressEveryMs);

  return {
    push(reports) {
      for (const report of reports) {
        if (report.type === 'progress') {
          progress.set(report.taskId, report);
          tellProgress.call();
          continue;
        }
        if (report.type === 'done' || report.type === 'failed') progress.delete(report.taskId);
        waiting.push(report);
      }
      if (waiting.length > 0) schedule();
    },
    clear() {
      waiting = [];
      progress.clear();
      tellProgress.cancel();
    },
  };
}

/** Bytes of a report in JSON, as good as exact where it matters. */
function lengthOf(report: TaskReport): number {
  if (report.type !== 'done' && report.type !== 'failed') return 256;
  const small = report.output.length < 256 && (report.type === 'failed' || isSmall(report.result.value));
  return small ? 2_048 : Buffer.byteLength(JSON.stringify(report));
}

function isSmall(value: unknown): boolean {
  return typeof value !== 'object' || value === null || !Object.values(value).some(Array.isArray);
}
