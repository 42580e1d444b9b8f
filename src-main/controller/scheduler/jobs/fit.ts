import type { ComputeFacts } from '#shared/domain/task.ts';
import { systemName } from '#shared/lib/system-name.ts';
import type { JobRecord } from '../../state/job-state.ts';
import { idleReasons } from '../../state/selectors.ts';
import type { NodeRecord } from '../../state/state.ts';

/**
 * Why this machine gets nothing of this job now, as a sentence without its subject; null: it may. The first that
 * holds: what the job asks for, what the machine's people want, what it can do, how large it is.
 */
export function whyNot(job: JobRecord, node: NodeRecord): string | null {
  const { definition, course, tally } = job;
  const { place, demand } = definition;
  const { id, facts } = node.durable;
  if (place.nodes && !place.nodes.includes(id)) return 'is not among the machines that the job asks for';
  if (
    course.distribution.mode === 'manual' &&
    !course.distribution.shares.some(({ nodeId }) => nodeId === id)
  ) {
    return 'has no share of this job';
  }
  const [unwilling] = idleReasons(node);
  if (unwilling !== undefined) return unwilling;
  if (definition.kind === 'inference' && node.live.lend?.noModels) return 'lets no models run on it';
  const { compute } = node.live;
  if (!compute) return 'runs a version that knows no jobs';
  const os = facts?.hardware.os;
  if (place.os && os?.platform !== place.os) {
    return `runs ${os === undefined ? 'another system' : systemName(os.platform)}, not ${systemName(place.os)}`;
  }
  if (place.arch && os?.arch !== place.arch) return `is ${os?.arch ?? 'of another kind'}, not ${place.arch}`;
  const cannot = unable(compute, job);
  if (cannot !== null) return cannot;
  if (compute.cpus <= 0) return 'lends no processors';
  if (!demand.wholeNode && demand.cpus > compute.cpus) {
    return `lends ${compute.cpus} processors, a partition needs ${demand.cpus}`;
  }
  if (demand.memoryBytes > compute.memoryBytes) {
    return `lends ${mebibytes(compute.memoryBytes)} of memory, a partition needs ${mebibytes(demand.memoryBytes)}`;
  }
  const refused = tally.nodes.get(id)?.refused;
  // What it said before is of rules that are not its own any more.
  return refused && refused.at >= node.live.rulesAt
    ? `refused it: ${refused.error.message.replace(/\.$/, '')}`
    : null;
}

function unable(compute: ComputeFacts, { definition: { place } }: JobRecord): string | null {
  const because = (what: string): string =>
    compute.problems.length === 0 ? what : `${what} (${compute.problems.join('; ').replace(/\.$/, '')})`;
  if (place.kernel) {
    if (!compute.kernels) return because('has no kernels');
    if (!compute.kernels.kernels.includes(place.kernel)) return `does not have the kernel ${place.kernel}`;
  }
  if (place.commands && !compute.commands.allowed) return because('does not allow commands');
  if (place.network && !compute.commands.network) {
    return compute.commands.networkProblem ?? 'does not let commands see its network';
  }
  return null;
}

/** How many tasks of a job run at once on a machine, or on what is free of it. */
export function slotsFor(
  { demand }: JobRecord['definition'],
  free: { readonly cpus: number; readonly memoryBytes: number },
  whole: ComputeFacts,
): number {
  const byMemory = demand.memoryBytes === 0 ? Infinity : Math.floor(free.memoryBytes / demand.memoryBytes);
  const cpus = demand.wholeNode ? whole.cpus : demand.cpus;
  // Sums of fractions of processors miss whole numbers by a hair.
  return Math.max(0, Math.min(byMemory, Math.floor(free.cpus / cpus + 1e-9)));
}

function mebibytes(bytes: number): string {
  return `${Math.floor(bytes / 2 ** 20)} MiB`;
}
