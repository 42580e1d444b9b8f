import type { Work } from '#shared/domain/task.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { Draft } from './draft.ts';
import type { TaskRules } from './state.ts';

/** Rounding of sums such as ten times 0.1. */
const tolerance = 1e-6;

/**
 * Hands waiting tasks to their hosts, in the order in which they came; none overtakes one that needs more.
 *
 * 1. Kernels compute with all lent processors, so one runs at a time and nothing beside it; a few more go with it,
 *    so that its host goes from one to the next by itself.
 * 2. Others run as long as their processors fit in. One that needs more than there are gets all there are.
 */
export function startNext(draft: Draft): void {
  const { cpus, awaySince } = draft.rules;
  if (awaySince !== null || draft.closing) return;
  let used = 0;
  let kernels = 0;
  for (const task of draft.live.values()) {
    if (task.phase === 'waiting') continue;
    if (task.work.kind === 'kernel') kernels += 1;
    else used += cpusOf(task.work, cpus);
  }
  for (const task of draft.live.values()) {
    if (task.phase !== 'waiting') continue;
    const { work, assignment } = task;
    if (work.kind === 'kernel') {
      // 1.
      if (used > tolerance || kernels >= draft.config.handOver) return;
      kernels += 1;
    } else {
      // 2.
      const needed = cpusOf(work, cpus);
      if (kernels > 0 || used + needed > cpus + tolerance) return;
      used += needed;
    }
    draft.live.set(assignment.taskId, { ...task, phase: 'handed', handedAt: draft.now });
    draft.starts.push({ assignment, work });
  }
}

function cpusOf(work: Work, cpus: number): number {
  return Math.min('program' in work ? work.program.cpus : 1, cpus);
}

/** Why this work never runs here; null: it may. */
export function refusal(work: Work, rules: TaskRules): ErrorBody | null {
  switch (work.kind) {
    case 'kernel':
      return rules.noKernels;
    case 'inference':
      return rules.noInference;
    case 'index':
      return null;
    case 'command':
    case 'map':
    case 'gang':
      return rules.noCommands ?? (work.program.network === 'lan' ? rules.noNetwork : null);
  }
}
