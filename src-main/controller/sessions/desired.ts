import type { NodeId } from '#shared/lib/ids.ts';
import { assignmentsFor } from '../scheduler/assignments.ts';
import type { Runtime, Turn } from '../runtime/runtime.ts';
import { replicaMembers } from '../state/selectors.ts';
import type { ControllerEventType } from '../state/events.ts';
import type { ControllerState } from '../state/state.ts';

/** Sends a frame, as JSON, within the session of a node; nothing happens when it has none. */
export type SendText = (nodeId: NodeId, text: string) => void;

export interface DesiredState {
  /** The session of this node is over: what it was told is forgotten. */
  closed(nodeId: NodeId): void;
  stop(): void;
}

interface Told {
  assignments: string;
  /** Of the list of members that it has; 0: none. */
  membersVersion: number;
}

const membersChange: ReadonlySet<ControllerEventType> = new Set<ControllerEventType>([
  'node-joined',
  'node-renamed',
  'node-removed',
]);
/** Rounds of new member lists begin at least this far apart: a thousand joins are not a million frames. */
const roundGapMs = 1_000;
/** Sessions that get the list in one go; between them the loop reads what comes in. */
const roundStep = 32;

/**
 * What workers should know and run, pushed whole when it changes. A turn costs what it touches:
 * - assignments are worked out for the nodes of replicas, before and after the turn, and for new sessions;
 * - the list of members is put into JSON once for all and goes out in rounds, but always before assignments: a
 *   stage must know its leader's key before the leader dials.
 */
export function pushDesiredState(runtime: Runtime, send: SendText): DesiredState {
  const told = new Map<NodeId, Told>();
  let membersVersion = 1;
  let members: MembersText | null = null;
  let generation = 0;
  let round: NodeJS.Timeout | NodeJS.Immediate | null = null;
  let lastRoundAt = -Infinity;

  const bringMembers = (nodeId: NodeId, entry: Told): void => {
    if (entry.membersVersion === membersVersion) return;
    entry.membersVersion = membersVersion;
    members ??= membersText(runtime.state);
    send(nodeId, members.without(nodeId));
  };

  const bringAssignments = (nodeId: NodeId, entry: Told): void => {
    const { engines, keep } = assignmentsFor(runtime.state, nodeId);
    const text = JSON.stringify([engines, keep]);
    if (text === entry.assignments) return;
    bringMembers(nodeId, entry);
    entry.assignments = text;
    generation += 1;
    send(nodeId, JSON.stringify({ type: 'assignments', generation, engines, keep }));
  };

  /** Some sessions, then the loop's turn, until all have the newest list. */
  const runRound = (): void => {
    round = null;
    lastRoundAt = performance.now();
    let left = roundStep;
    for (const [nodeId, entry] of told) {
      if (entry.membersVersion === membersVersion) continue;
      if (left === 0) {
        round = setImmediate(runRound);
        return;
      }
      left -= 1;
      bringMembers(nodeId, entry);
    }
  };

  const startRound = (): void => {
    if (round !== null) return;
    const waitMs = lastRoundAt + roundGapMs - performance.now();
    round = waitMs > 0 ? setTimeout(runRound, waitMs) : setImmediate(runRound);
  };

  runtime.onTurn(({ before, after, events }: Turn) => {
    if (events.some((event) => membersChange.has(event.type))) {
      membersVersion += 1;
      members = null;
      startRound();
    }
    const concerned = new Set([...nodesOfReplicas(before), ...nodesOfReplicas(after)]);
    for (const event of events) {
      if (event.type !== 'session-opened') continue;
      told.set(event.nodeId, { assignments: '', membersVersion: 0 });
      concerned.add(event.nodeId);
    }
    for (const nodeId of concerned) {
      const entry = told.get(nodeId);
      if (entry) bringAssignments(nodeId, entry);
    }
  });

  return {
    closed: (nodeId) => void told.delete(nodeId),
    stop() {
      if (round === null) return;
      clearTimeout(round as NodeJS.Timeout);
      clearImmediate(round as NodeJS.Immediate);
      round = null;
    },
  };
}

interface MembersText {
  /** The frame for this node: its own name, and every member but itself. */
  without(nodeId: NodeId): string;
}

function membersText(state: ControllerState): MembersText {
  const entries = new Map<NodeId, { readonly name: string; readonly entry: string }>();
  for (const { durable } of state.nodes.values()) {
    const name = JSON.stringify(durable.name);
    entries.set(durable.id, { name, entry: `,{"nodeId":"${durable.id}","name":${name}}` });
  }
  const all = [...entries.values()].map(({ entry }) => entry).join('');
  return {
    without(nodeId) {
      const own = entries.get(nodeId);
      const others = own === undefined ? all : all.replace(own.entry, '');
      const name = own === undefined ? '' : `"name":${own.name},`;
      return `{"type":"members",${name}"members":[${others.slice(1)}]}`;
    },
  };
}

function* nodesOfReplicas(state: ControllerState): Generator<NodeId> {
  for (const { replica } of state.deployments.values()) {
    if (replica) for (const member of replicaMembers(replica)) yield member.nodeId;
  }
}
