import type { EngineId, NodeId } from '#shared/lib/ids.ts';
import type { Address } from '#shared/domain/node.ts';
import type { Grant, LinkRequest, Member, TransportAudit } from '#shared/host/transport.ts';
import type { JoinReply, JoinRequest } from '#shared/protocol/join.ts';
import type { LinkObservation } from '#shared/domain/engine.ts';
import type { CoveyError } from '#shared/errors.ts';

export type { Grant, LinkRequest, Member, TransportAudit } from '#shared/host/transport.ts';

/**
 * The main process's view of the transport process: one per node, it owns the cluster listener, the sessions'
 * sockets, the tunnels and their pulses. Session frames pass through as text; tunnel bytes never reach the
 * main process. If the transport process dies, sessions and links close with an error, and the supervisor
 * starts another on the same port with the same members and grants.
 */
export interface Transport {
  /** Where the cluster port listens (port 0 resolved), null when this node does not listen. */
  readonly clusterAddress: Address | null;

  /** The keys that may speak to us, whole. Connections of keys that are gone close at once. */
  setMembers(members: readonly Member[]): void;
  /** Fires for every accepted session of a member with role `worker`; those that came before wait for it. */
  onSession(listener: (session: PeerSession) => void): void;
  /** Answers join requests, those that came before too; what it throws becomes the refusal. Set once. */
  onJoin(handler: (request: JoinAttempt) => Promise<JoinReply>): void;
  /** Refused peers and other facts for the log; bounded in rate. */
  onAudit(listener: (event: TransportAudit) => void): void;

  /** Dials the addresses in turn until one answers with the expected key. Rejects with a CoveyError. */
  dialSession(target: DialTarget): Promise<PeerSession>;
  /** As `dialSession`, but sends one join request and resolves to the reply. */
  join(target: DialTarget, request: JoinRequest): Promise<JoinReply>;

  /** Lets `peer` open streams (and one pulse) to a loopback port here until removed or expired. */
  addGrant(grant: Grant): void;
  removeGrants(engineId: EngineId): void;

  /**
   * Opens a loopback listener whose connections become tunnels to `link.grant` at `link.peer`, and the pulse
   * that watches the peer. Resolves when the pulse has been answered once, rejects with `stage_unreachable`.
   */
  openLink(link: LinkRequest): Promise<Link>;

  /** Ends all connections and the process. */
  close(): Promise<void>;
  /** RSS of the transport process, null when unknown. */
  readonly rssBytes: number | null;
}

export interface DialTarget {
  readonly addresses: readonly Address[];
  readonly expectedNodeId: NodeId;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

export interface PeerSession {
  readonly peerId: NodeId;
  readonly remoteAddress: string;
  /** Never blocks; a peer that does not read is cut when LIMITS.sessionBufferBytes wait. */
  send(text: string): void;
  onMessage(listener: (text: string) => void): void;
  /** Fires once, also when `close` was called here. */
  onClose(listener: (reason: CoveyError | null) => void): void;
  /** Sends what waits, then closes. */
  close(): void;
}

export interface JoinAttempt {
  readonly peerId: NodeId;
  readonly remoteAddress: string;
  readonly request: JoinRequest;
}

export interface Link {
  readonly stageEngineId: EngineId;
  /** Loopback port for llama-server's `--rpc`. */
  readonly port: number;
  /** Latest counters, refreshed about every second. */
  observe(): LinkObservation;
  /** Fires once when the peer was silent for 5 s, refused, or the stage closed a stream that the leader used. */
  onLost(listener: (reason: CoveyError) => void): void;
  close(): void;
}
