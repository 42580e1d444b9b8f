import type { BootId, DeploymentId, NodeId } from '#shared/lib/ids.ts';
import type { LendState } from '#shared/domain/lend.ts';
import type { Telemetry } from '#shared/domain/node.ts';
import type { EngineObservation } from '#shared/domain/engine.ts';
import type { ComputeFacts } from '#shared/domain/task.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { JobEvent } from './job-events.ts';
import type { Drain, DeploymentRecord, NodeFacts, Replica } from './state.ts';

/** Facts, past tense. `apply` is the only thing that changes state, and these are all that change it. */
export type ControllerEvent = { readonly at: number } & (
  | JobEvent
  | { readonly type: 'node-joined'; readonly nodeId: NodeId; readonly name: string }
  | { readonly type: 'node-renamed'; readonly nodeId: NodeId; readonly name: string }
  | { readonly type: 'node-removed'; readonly nodeId: NodeId }
  | {
      readonly type: 'session-opened';
      readonly nodeId: NodeId;
      readonly sessionId: number;
      readonly remoteAddress: string;
      readonly bootId: BootId;
      readonly name: string;
      readonly facts: NodeFacts;
      readonly telemetry: Telemetry;
      readonly lend: LendState | null;
      readonly compute: ComputeFacts | null;
      readonly engines: readonly EngineObservation[];
    }
  | {
      readonly type: 'session-closed';
      readonly nodeId: NodeId;
      readonly sessionId: number;
      readonly goodbye: boolean;
    }
  | {
      readonly type: 'heartbeat-received';
      readonly nodeId: NodeId;
      readonly telemetry: Telemetry;
      readonly problems: readonly string[];
      readonly lend: LendState | null;
    }
  | {
      readonly type: 'engines-observed';
      readonly nodeId: NodeId;
      readonly engines: readonly EngineObservation[];
    }
  | {
      readonly type: 'hardware-observed';
      readonly nodeId: NodeId;
      readonly hardware: NodeFacts['hardware'];
      readonly addresses: NodeFacts['addresses'];
    }
  | { readonly type: 'node-lost'; readonly nodeId: NodeId }
  /** A machine that is held back runs nothing of the covey any more. */
  | { readonly type: 'node-cleared'; readonly nodeId: NodeId }
  /** Something for the event list that changes nothing here: who was let in, refused, what was set. */
  | {
      readonly type: 'noted';
      readonly kind: NotedKind;
      readonly level: 'info' | 'warn' | 'error';
      readonly message: string;
      readonly nodeId?: NodeId;
    }
  | { readonly type: 'drain-started'; readonly nodeId: NodeId; readonly drain: Drain }
  | { readonly type: 'drain-completed'; readonly nodeId: NodeId }
  /** A person wants no new work there. */
  | { readonly type: 'node-paused'; readonly nodeId: NodeId }
  /** Neither drained nor paused any longer. */
  | { readonly type: 'node-resumed'; readonly nodeId: NodeId }
  | { readonly type: 'deployment-created'; readonly deployment: DeploymentRecord }
  | { readonly type: 'replica-placed'; readonly deploymentId: DeploymentId; readonly replica: Replica }
  | { readonly type: 'leader-assigned'; readonly deploymentId: DeploymentId; readonly epoch: number }
  | { readonly type: 'replica-ready'; readonly deploymentId: DeploymentId; readonly epoch: number }
  | {
      /** The replica is gone; the deployment tries again at `nextAttemptAt`, or has failed when that is null. */
      readonly type: 'replica-failed';
      readonly deploymentId: DeploymentId;
      readonly epoch: number;
      readonly error: ErrorBody;
      readonly nextAttemptAt: number | null;
      /** A machine left on purpose: that is no failure of the model. */
      readonly left?: boolean;
      readonly failedWith: readonly NodeId[];
    }
  | {
      readonly type: 'replica-draining';
      readonly deploymentId: DeploymentId;
      readonly epoch: number;
      readonly reason: ErrorBody;
    }
  | { readonly type: 'drain-cancelled'; readonly deploymentId: DeploymentId; readonly epoch: number }
  | {
      readonly type: 'replica-released';
      readonly deploymentId: DeploymentId;
      readonly epoch: number;
      readonly reason: ErrorBody;
    }
  | { readonly type: 'deployment-waited'; readonly deploymentId: DeploymentId; readonly reason: ErrorBody }
  | {
      readonly type: 'retry-requested';
      readonly deploymentId: DeploymentId;
      readonly cause: 'person' | 'nodes-changed';
    }
  | { readonly type: 'unload-requested'; readonly deploymentId: DeploymentId }
  | { readonly type: 'deployment-removed'; readonly deploymentId: DeploymentId }
);

export type ControllerEventType = ControllerEvent['type'];

/** Events that are records only. `audit-*`: what people and keys did; `security-*`: what was refused. */
export type NotedKind =
  | 'audit-join-requested'
  | 'audit-join-approved'
  | 'audit-join-denied'
  | 'audit-invite-created'
  | 'audit-cluster-secret-changed'
  | 'audit-login'
  | 'audit-model-removed'
  | 'transfer-failed'
  | 'audit-key-created'
  | 'audit-key-revoked'
  | 'audit-key-first-used'
  | 'audit-setting-changed'
  | 'security-refused'
  | 'security-join-refused'
  | 'security-token-refused'
  | 'security-identity-duplicate'
  | 'security-identity-moved'
  | 'network-address-changed'
  | 'network-path-changed'
  | 'certificate-renewed'
  | 'certificate-renewal-failed';
