import type { ComputeFacts } from '#shared/domain/task.ts';
import { listing, type Finding } from '../check.ts';
import type { DoctorContext } from '../context.ts';

const sandboxes: Readonly<Record<ComputeFacts['commands']['sandbox'], string>> = {
  bubblewrap: 'kept apart by bubblewrap',
  none: 'with the rights of this account, for there is no sandbox here',
};
const limits: Readonly<Record<ComputeFacts['commands']['limits'], string>> = {
  cgroup2: 'limited by control groups (version 2)',
  cgroup1: 'limited by control groups (version 1)',
  rlimits: 'limited by resource limits and a look at them',
  'job-object': 'limited by a Job Object',
  none: 'without limits',
};

/** What work besides models this machine takes, and how well programs of others are kept apart and limited. */
export function checkCompute({ node, settings }: DoctorContext): Finding {
  if (!node) return { status: 'skipped', summary: 'No node runs here' };
  const facts = node.compute;
  if (!facts) return { status: 'skipped', summary: 'This machine is not lent to jobs' };
  const { kinds } = settings.lend;
  const { commands, kernels } = facts;
  const kernelWords = kernels ? `kernels (${kernels.isa})` : null;
  const programWords = commands.allowed
    ? `programs of others, ${sandboxes[commands.sandbox]}, ${limits[commands.limits]}${
        commands.network ? ', some of them with the network' : ''
      }`
    : null;
  const runs = [kernelWords, programWords].filter((words) => words !== null);
  const summary =
    runs.length > 0 ? `Jobs run ${listing(runs)} here` : 'Jobs run neither kernels nor programs here';
  if (commands.allowed && commands.sandbox === 'none') {
    return {
      status: 'warn',
      summary,
      action:
        process.platform === 'linux'
          ? 'Install bubblewrap, or those who submit jobs act as you on this machine'
          : 'Those who submit jobs act as you on this machine: forbid programs if you do not want that',
    };
  }
  const { network } = settings.lend;
  if (commands.allowed && network && !commands.network) {
    return {
      status: 'warn',
      summary: `${summary}, without a network: ${network.interface} is not there, or has no address`,
      action: 'Connect it, or name another one with `covey lend set network`',
    };
  }
  const lacking = (kinds.commands && !commands.allowed) || (kinds.kernels && !kernels);
  if (lacking || (commands.allowed && commands.limits === 'rlimits')) {
    return { status: 'warn', summary, action: facts.problems.at(-1) ?? null };
  }
  return { status: 'ok', summary };
}
