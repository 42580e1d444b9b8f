import type { LendRules } from '#shared/domain/lend.ts';
import type { ComputeFacts } from '#shared/domain/task.ts';
import type { LimitMethod, Sandbox } from '#shared/host/task-runner.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { TaskRules } from '../agent/tasks/state.ts';
import type { KernelLibraryFacts } from '../engines/kernels/kernel-supervisor.ts';

/** What was found out about this machine once. */
export interface ComputeProbe {
  readonly sandbox: Sandbox;
  readonly sandboxProblem: string | null;
  readonly limits: LimitMethod;
  readonly limitsProblem: string | null;
  /** Something holds the number of processes of a program (probe-limits.ts). */
  readonly processesHeld: boolean;
  readonly kernels: KernelLibraryFacts;
  readonly launcher: string | null;
  /** Processors that compute, and all memory. */
  readonly cpus: number;
  readonly memoryBytes: number;
}

/** Of memory, what the system and its people keep when the owner has set no limit. */
const lentShare = 0.8;

/** Why programs of others do not run here; null: they do. */
export function commandsProblem(
  probe: ComputeProbe,
  rules: LendRules,
  isController: boolean,
): ErrorBody | null {
  if (!rules.kinds.commands) {
    return { code: 'commands_forbidden', message: 'its owner does not let programs of others run on it' };
  }
  if (probe.launcher === null) {
    return {
      code: 'sandbox_unavailable',
      message: 'it has no engine directory, whose launcher starts programs',
    };
  }
  if (!probe.processesHeld) {
    return {
      code: 'sandbox_unavailable',
      message:
        "Nothing holds the number of a program's processes, as Covey runs as root and may make no control group: run Covey under an account of its own (in a container: --user), or let it make control groups (in a container: a /sys/fs/cgroup that can be written; for a systemd service: Delegate=yes)",
    };
  }
  // A program without a sandbox acts as its account, which on a controller is the whole covey.
  if (probe.sandbox.kind === 'none' && isController) {
    const why = probe.sandboxProblem ?? 'there is no sandbox';
    return {
      code: 'sandbox_unavailable',
      message: `on a controller programs run only in a sandbox, and it has none: ${why}`,
    };
  }
  return null;
}

/** Whether a network interface can be reached now. */
export type HasAddress = (name: string) => boolean;

function missingInterface({ network }: LendRules, hasAddress: HasAddress): string | null {
  return network === null || hasAddress(network.interface) ? null : network.interface;
}

export function computeFacts(
  probe: ComputeProbe,
  rules: LendRules,
  isController: boolean,
  hasAddress: HasAddress,
): ComputeFacts {
  const missing = missingInterface(rules, hasAddress);
  const kernels = rules.kinds.kernels ? probe.kernels.library : null;
  const problems = [
    ...(rules.kinds.kernels && probe.kernels.problem !== null ? [probe.kernels.problem] : []),
    ...(rules.kinds.commands
      ? [
          probe.sandboxProblem,
          // Said below, with what follows from it.
          probe.processesHeld ? probe.limitsProblem : null,
          commandsProblem(probe, rules, isController)?.message ?? null,
        ]
      : []),
  ];
  return {
    kernels: kernels && { isa: kernels.isa, kernels: [...kernels.kernels] },
    commands: {
      allowed: commandsProblem(probe, rules, isController) === null,
      sandbox: probe.sandbox.kind,
      limits: probe.limits.kind,
      network: rules.network !== null && missing === null,
      ...(missing === null
        ? {}
        : { networkProblem: `has no network interface ${missing} with an address now` }),
    },
    cpus: lentCpus(probe, rules),
    memoryBytes: Math.floor(rules.limits.ramBytes ?? probe.memoryBytes * lentShare),
    problems: problems.filter((text) => text !== null).map((text) => text.slice(0, 512)),
  };
}

export function taskRules(
  probe: ComputeProbe,
  rules: LendRules,
  isController: boolean,
  away: { readonly since: number | null; readonly why: string },
  hasAddress: HasAddress,
): TaskRules {
  const missing = missingInterface(rules, hasAddress);
  const forbidden = (message: string): ErrorBody => ({ code: 'commands_forbidden', message });
  return {
    awaySince: away.since,
    why: away.why,
    cpus: lentCpus(probe, rules),
    noKernels: !rules.kinds.kernels
      ? forbidden('its owner lets no kernels run on it')
      : probe.kernels.library
        ? null
        : { code: 'kernels_unavailable', message: probe.kernels.problem ?? 'there is no kernel library' },
    noCommands: commandsProblem(probe, rules, isController),
    noNetwork:
      rules.network === null
        ? { code: 'network_forbidden', message: 'its owner lets no program see the network' }
        : missing === null
          ? null
          : {
              code: 'network_forbidden',
              message: `it has no network interface ${missing} with an address now`,
            },
    noInference: rules.kinds.inference ? null : forbidden('its owner lets no models be used by it'),
  };
}

function lentCpus(probe: ComputeProbe, rules: LendRules): number {
  return Math.max(1, Math.min(probe.cpus, rules.limits.cpuThreads ?? Infinity));
}
