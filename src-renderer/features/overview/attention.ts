import type { SettingsView } from '#shared/api/access.ts';
import type { PendingView } from '#shared/api/joining.ts';
import type { NodeView } from '#shared/api/schema.ts';
import type { DeploymentView } from '#shared/domain/deployment.ts';
import type { ErrorBody } from '#shared/errors.ts';

export type AttentionAction =
  | { readonly kind: 'open'; readonly page: string; readonly rest: readonly string[]; readonly label: string }
  | { readonly kind: 'retry'; readonly deployment: string }
  | { readonly kind: 'resume'; readonly node: string };

/** Something that a person should know or decide, with what can be done about it. */
export interface Attention {
  readonly key: string;
  /** `bad`: something does not work. `warn`: somebody waits. `quiet`: as wished, but easily forgotten. */
  readonly tone: 'bad' | 'warn' | 'quiet';
  readonly title: string;
  readonly detail: string;
  readonly action: AttentionAction | null;
}

export interface Situation {
  readonly nodes: readonly NodeView[];
  readonly deployments: readonly DeploymentView[];
  readonly pending: readonly PendingView[];
  readonly settings: SettingsView | null;
  readonly notices: readonly ErrorBody[];
  /** The controller's. */
  readonly version: string;
}

const order = { bad: 0, warn: 1, quiet: 2 } as const;

/** The worst first; within one tone in the order of the lists that they come from. */
export function attentionOf(situation: Situation): readonly Attention[] {
  const { nodes, deployments, pending, settings, notices } = situation;
  const all = [
    ...pending.filter((one) => !one.confirmed || !one.approved).map(ofPending),
    ...deployments.flatMap(ofDeployment),
    ...nodes.flatMap((node) => ofNode(node, situation.version)),
    ...notices.map((notice): Attention => ({
      key: `notice ${notice.code}`,
      tone: 'warn',
      title: 'About this controller',
      detail: notice.message,
      action: null,
    })),
    ...(settings?.problems ?? []).map((problem): Attention => ({
      key: `setting ${problem}`,
      tone: 'warn',
      title: 'A setting has no effect',
      detail: problem,
      action: open('settings', 'Open settings'),
    })),
  ];
  return all.sort((a, b) => order[a.tone] - order[b.tone]);
}

function ofPending(one: PendingView): Attention {
  return {
    key: `pending ${one.id}`,
    tone: 'warn',
    title: `${one.name} asks to join`,
    detail: one.approved
      ? 'Its number was typed here. Now somebody at that machine confirms.'
      : `It called from ${one.remoteAddress}. Compare the six digits that it shows.`,
    action: open('machines', 'Review'),
  };
}

function ofDeployment(deployment: DeploymentView): Attention[] {
  const { id, model, status, reason } = deployment;
  const detail = reason?.message ?? '';
  const see = open('models', 'Open models');
  const entry = (tone: Attention['tone'], title: string, action: AttentionAction): Attention[] => [
    { key: `deployment ${id}`, tone, title, detail, action },
  ];
  switch (status) {
    case 'failed':
      return entry('bad', `${model} could not be loaded`, { kind: 'retry', deployment: id });
    case 'waiting':
      return entry('warn', `${model} waits for machines`, see);
    case 'recovering':
      return entry('warn', `${model} waits for its machine to come back`, see);
    case 'loading':
    case 'ready':
    case 'draining':
    case 'unloading':
      return [];
  }
}

function ofNode(node: NodeView, version: string): Attention[] {
  const { id, name } = node;
  const look = open('machines', 'Open machine', id);
  const entry = (
    tone: Attention['tone'],
    title: string,
    detail: string,
    action: AttentionAction,
  ): Attention => ({ key: `node ${id} ${title}`, tone, title, detail, action });
  const found: Attention[] = [];
  switch (node.status) {
    case 'lost':
      found.push(
        entry('bad', `${name} is lost`, 'It stopped answering. Is it on, and on the network?', look),
      );
      break;
    case 'unhealthy':
      found.push(entry('bad', `${name} has a problem`, node.ineligibleReasons.join(' '), look));
      break;
    case 'draining':
      if (node.drain?.completedAt != null) {
        const detail = 'Nothing runs there, and nothing will until it is resumed.';
        found.push(entry('quiet', `${name} is drained`, detail, { kind: 'resume', node: id }));
      }
      break;
    case 'paused':
      if (node.pausedAt !== null) {
        found.push(
          entry('quiet', `${name} is paused`, 'It takes no new work.', { kind: 'resume', node: id }),
        );
      }
      break;
    case 'pending':
    case 'ready':
    case 'busy':
    case 'offline':
      break;
  }
  if (node.connected && node.version !== null && node.version !== version) {
    const detail = `It runs version ${node.version}, the controller ${version}. Update the older one.`;
    found.push(entry('warn', `${name} has another version`, detail, look));
  }
  return found;
}

function open(page: string, label: string, ...rest: readonly string[]): AttentionAction {
  return { kind: 'open', page, rest, label };
}
