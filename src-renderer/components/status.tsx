import type { DeploymentStatus } from '#shared/domain/deployment.ts';
import type { NodeStatus } from '#shared/domain/node.ts';

export type Tone = 'good' | 'busy' | 'warn' | 'bad' | 'quiet';

/** A state as a word with a mark of its tone: colour is never all that says it. */
export function StatusMark({ tone, children }: { readonly tone: Tone; readonly children: string }) {
  return (
    <span className="status-mark" data-tone={tone}>
      <span className="dot" aria-hidden />
      {children}
    </span>
  );
}

const nodeTones: Readonly<Record<NodeStatus, Tone>> = {
  pending: 'warn',
  ready: 'good',
  busy: 'good',
  draining: 'busy',
  paused: 'quiet',
  unhealthy: 'bad',
  lost: 'bad',
  offline: 'quiet',
};
const deploymentTones: Readonly<Record<DeploymentStatus, Tone>> = {
  waiting: 'warn',
  loading: 'busy',
  ready: 'good',
  recovering: 'warn',
  draining: 'busy',
  unloading: 'busy',
  failed: 'bad',
};

/** `drain` of the machine: one that is done with it is drained, and at rest. */
export function NodeStatusMark(props: {
  readonly status: NodeStatus;
  readonly drain: { readonly completedAt: number | null } | null;
}) {
  const { status, drain } = props;
  if (status === 'draining' && drain !== null && drain.completedAt !== null) {
    return <StatusMark tone="quiet">Drained</StatusMark>;
  }
  return <StatusMark tone={nodeTones[status]}>{capital(status)}</StatusMark>;
}

export function DeploymentStatusMark({ status }: { readonly status: DeploymentStatus }) {
  return <StatusMark tone={deploymentTones[status]}>{capital(status)}</StatusMark>;
}

const levelTones = { info: 'quiet', debug: 'quiet', warn: 'warn', error: 'bad' } as const;
export function LevelMark({ level }: { readonly level: keyof typeof levelTones }) {
  const words = { info: 'Info', debug: 'Debug', warn: 'Warning', error: 'Error' } as const;
  return <StatusMark tone={levelTones[level]}>{words[level]}</StatusMark>;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
