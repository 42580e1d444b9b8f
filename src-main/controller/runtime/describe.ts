import type { NodeId } from '#shared/lib/ids.ts';
import type { LendState } from '#shared/domain/lend.ts';
import type { NewEvent } from '../state/sqlite/store.ts';
import type { ControllerEvent } from '../state/events.ts';
import type { JobEvent } from '../state/job-events.ts';
import type { ControllerState } from '../state/state.ts';

/** Ending anything takes longer. */
const clearedAtOnceMs = 50;

/**
 * The event as people read it, or null when it is too ordinary for the event list.
 * @param before the state in which it happened, for names of what is gone afterwards
 */
export function describe(
  event: Exclude<ControllerEvent, JobEvent>,
  before: ControllerState,
  after: ControllerState,
): NewEvent | null {
  const nodeName = (id: NodeId): string =>
    (after.nodes.get(id) ?? before.nodes.get(id))?.durable.name ?? id.slice(0, 12);
  const node = (level: NewEvent['level'], nodeId: NodeId, sentence: string): NewEvent => ({
    at: event.at,
    kind: event.type,
    level,
    message: `${nodeName(nodeId)} ${sentence}`,
    nodeId,
  });
  if ('deploymentId' in event || event.type === 'deployment-created') {
    return describeDeployment(event, before, after, nodeName);
  }
  switch (event.type) {
    case 'node-joined':
      return node('info', event.nodeId, 'joined.');
    case 'node-removed':
      return node('warn', event.nodeId, 'was removed.');
    case 'node-renamed': {
      const was = before.nodes.get(event.nodeId)?.durable.name ?? event.nodeId.slice(0, 12);
      const message = `${was} is called ${event.name} now.`;
      return { at: event.at, kind: event.type, level: 'info', message, nodeId: event.nodeId };
    }
    case 'session-opened':
      return node(
        'info',
        event.nodeId,
        `connected from ${event.remoteAddress}${event.lend?.lending === false ? `; it gets no work: ${heldBackBy(event.lend)}` : '.'}`,
      );
    case 'session-closed':
      return event.goodbye
        ? node('info', event.nodeId, 'said goodbye.')
        : node('warn', event.nodeId, 'lost its connection.');
    case 'node-lost':
      return node('error', event.nodeId, 'is lost: it stopped answering.');
    case 'node-cleared': {
      const tookMs = event.at - (before.nodes.get(event.nodeId)?.live.heldBackSince ?? event.at);
      // Nothing had to go.
      if (tookMs < clearedAtOnceMs) return null;
      return node(
        'info',
        event.nodeId,
        `has given way within ${(tookMs / 1_000).toFixed(1)} s: nothing runs there.`,
      );
    }
    case 'drain-started':
      return node('info', event.nodeId, 'is draining.');
    case 'drain-completed':
      return node('info', event.nodeId, 'is drained: nothing runs there.');
    case 'node-paused':
      return node('info', event.nodeId, 'is paused: it gets no new work.');
    case 'node-resumed':
      return node('info', event.nodeId, 'takes work again.');
    case 'noted':
      return {
        at: event.at,
        kind: event.kind,
        level: event.level,
        message: event.message,
        ...(event.nodeId ? { nodeId: event.nodeId } : {}),
      };
    case 'heartbeat-received': {
      const was = before.nodes.get(event.nodeId)?.live.lend?.lending ?? true;
      const is = event.lend?.lending ?? true;
      if (was === is) return null;
      return is
        ? { ...node('info', event.nodeId, 'is lent again.'), kind: 'node-lent-again' }
        : {
            ...node('info', event.nodeId, `gives way: ${heldBackBy(event.lend)}`),
            kind: 'node-gave-way',
          };
    }
    case 'engines-observed':
    case 'hardware-observed':
      return null;
  }
}

function heldBackBy(lend: LendState | null): string {
  const why = lend?.heldBackBy.map(({ message }) => message.replace(/\.$/, '')).join('; ');
  return `${why || 'its owner holds it back'}.`;
}

type DeploymentEvent = Extract<ControllerEvent, { deploymentId: unknown } | { type: 'deployment-created' }>;

function describeDeployment(
  event: DeploymentEvent,
  before: ControllerState,
  after: ControllerState,
  nodeName: (id: NodeId) => string,
): NewEvent {
  const id = event.type === 'deployment-created' ? event.deployment.id : event.deploymentId;
  const model = (after.deployments.get(id) ?? before.deployments.get(id))?.model ?? id;
  const say = (level: NewEvent['level'], message: string): NewEvent => ({
    at: event.at,
    kind: event.type,
    level,
    message,
    deploymentId: id,
  });
  switch (event.type) {
    case 'deployment-created':
      return say('info', `Load of ${model} was asked for.`);
    case 'replica-placed': {
      const { leader, stages } = event.replica;
      const others = stages.map((stage) => `${nodeName(stage.nodeId)} (${stage.layers} layers)`).join(', ');
      return say(
        'info',
        `${model} is placed: led by ${nodeName(leader.nodeId)}${others ? `, with ${others}` : ''}.`,
      );
    }
    case 'leader-assigned':
      return say('info', `The stages of ${model} are ready; the model loads.`);
    case 'replica-ready':
      return say('info', `${model} is ready.`);
    case 'replica-failed':
      return event.nextAttemptAt === null
        ? say('error', `${model} failed: ${event.error.message}`)
        : say('warn', `${model} was interrupted and loads again: ${event.error.message}`);
    case 'replica-draining':
      return say('info', `${model} finishes its requests: ${event.reason.message}`);
    case 'drain-cancelled':
      return say('info', `${model} takes requests again.`);
    case 'replica-released':
      return say('info', `${model} was taken off its machines: ${event.reason.message}`);
    case 'deployment-waited':
      return say('warn', `${model} waits: ${event.reason.message}`);
    case 'retry-requested':
      return say(
        'info',
        event.cause === 'person'
          ? `${model}: another try was asked for.`
          : `${model} tries again: other machines are there.`,
      );
    case 'unload-requested':
      return say('info', `Unload of ${model} was asked for.`);
    case 'deployment-removed':
      return say('info', `${model} is unloaded.`);
  }
}
