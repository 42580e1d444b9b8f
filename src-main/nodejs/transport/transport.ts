import type { EngineId, NodeId } from '#shared/lib/ids.ts';
import type { Address } from '#shared/domain/node.ts';
import type {
  ArtifactGrant,
  ArtifactRead,
  DialBack,
  DialOrder,
  Grant,
  LinkRequest,
  Member,
  RelayPass,
  TransportAudit,
} from '#shared/host/transport.ts';
import type { LinkObservation, LinkPath } from '#shared/domain/engine.ts';
import type { AddressAttempt, PathProbe } from '#shared/domain/network.ts';
import type { CoveyError } from '#shared/errors.ts';

export type {
  ArtifactGrant,
  ArtifactPart,
  ArtifactRead,
  DialBack,
  DialOrder,
  Grant,
  LinkRequest,
  Member,
  RelayPass,
  TransportAudit,
} from '#shared/host/transport.ts';

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
  /** Fires for every peer that begins a join, those that came before too. Set once. */
  onJoin(listener: (conversation: JoinConversation) => void): void;
  /** Refused peers and other facts for the log; bounded in rate. */
  onAudit(listener: (event: TransportAudit) => void): void;

  /** Dials the addresses in turn until one answers with the expected key. Rejects with a CoveyError. */
  dialSession(target: DialTarget): Promise<PeerSession>;
  /** As `dialSession`, over ALPN `covey-join`; `expectedNodeId` null takes any key, which `peerId` then tells. */
  dialJoin(target: JoinTarget): Promise<JoinConversation>;
  /** Dials each address at once (ALPN `covey-hello`) and tells which key answers there. Never rejects. */
  identify(addresses: readonly Address[], timeoutMs: number): Promise<AddressAttempt[]>;

  /** Lets `peer` open streams (and one pulse) to a loopback port here until removed or expired. */
  addGrant(grant: Grant): void;
  removeGrants(engineId: EngineId): void;
  /** All grants are good for their `ttlMs` again, from now. */
  renewGrants(): void;

  /**
   * Opens a loopback listener whose connections become tunnels to `link.grant` at `link.peer`, and the pulse
   * that watches the peer. Resolves when the pulse has been answered once, rejects with `stage_unreachable`.
   */
  openLink(link: LinkRequest): Promise<Link>;

  /**
   * Where this worker's controller is, for relays; null: there is none (or this is the controller itself, which
   * relays in its own process).
   */
  setRelay(controller: { readonly nodeId: NodeId; readonly addresses: readonly Address[] } | null): void;
  /**
   * Fires when a peer has to be reached the other way round; the listener carries it to the controller
   * (`dial-request`), which orders the peer to dial. What comes of it shows in the operation that needs it.
   */
  onDialRequest(listener: (request: DialBack) => void): void;
  /** The controller's `dial-order`: dial the peer (or the relay) and serve it as if it had dialled us. */
  dialBack(order: DialOrder): void;
  /** Controller: the two may join their connections with this token, once. */
  allowRelay(pass: RelayPass): void;
  /**
   * A byte stream to an engine on a peer by whatever path works, for the controller's gateway: resolves to a
   * local socket path or pipe that takes one connection, after the preamble was accepted.
   */
  openStream(request: StreamRequest): Promise<{ readonly socketPath: string; readonly path: LinkPath }>;
  /** Lets a peer read an artifact of this node's store, until it expires. */
  addArtifactGrant(grant: ArtifactGrant): void;
  /**
   * Reads a part of an artifact on a peer, by whatever path works, into a file here. Several at once travel on
   * connections of their own, which are kept for the next. Rejects with `artifact_unreachable`, the peer's refusal
   * (`artifact_not_found`, `grant_invalid`, `grant_expired`), or the signal's reason; what was written till then
   * stays.
   * @returns how many bytes came: all that were asked for
   */
  readArtifact(read: ArtifactRead, signal: AbortSignal): Promise<number>;
  /** How fast engines here may send to other machines, all together; null: as fast as it goes. */
  setUploadLimit(bytesPerS: number | null): void;
  /** Measures the way to a member. Rejects with `stage_unreachable` when there is none. */
  probe(target: ProbeTarget): Promise<PathProbe>;

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
  /** Our end of the connection; null inside one process. When this machine loses it, the session is dead. */
  readonly localAddress: string | null;
  /** Where it was dialled; null at the end that was dialled. */
  readonly dialledAddress: Address | null;
  /** Never blocks; a peer that does not read is cut when LIMITS.sessionBufferBytes wait. */
  send(text: string): void;
  onMessage(listener: (text: string) => void): void;
  /** Fires once, also when `close` was called here. */
  onClose(listener: (reason: CoveyError | null) => void): void;
  /** Sends what waits, then closes. */
  close(): void;
}

export interface JoinTarget extends Omit<DialTarget, 'expectedNodeId'> {
  readonly expectedNodeId: NodeId | null;
}

export interface StreamRequest {
  readonly peer: NodeId;
  readonly peerName: string;
  readonly addresses: readonly Address[];
  readonly grant: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export interface ProbeTarget {
  readonly peer: NodeId;
  readonly peerName: string;
  readonly addresses: readonly Address[];
  /** How much to send each way at most; 0 measures the round trip alone. */
  readonly bytes: number;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/**
 * One join, frames of JSON text both ways (LIMITS.joinBytes each). At the controller it ends after LIMITS.joinMs
 * unless it is held.
 */
export interface JoinConversation extends PeerSession {
  /**
   * 64 hex digits exported from this TLS connection (RFC 8446, 7.5): the same at both ends, and on no other
   * connection.
   */
  readonly binding: string;
  /** A person has to decide: it may last this long from now. false: too many wait already, the caller refuses. */
  hold(deadlineMs: number): boolean;
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
