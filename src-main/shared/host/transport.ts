import type { ArtifactId, EngineId, NodeId } from '../lib/ids.ts';
import type { Address } from '../domain/node.ts';
import type { LinkObservation, LinkPath } from '../domain/engine.ts';
import type { AddressAttempt, PathProbe } from '../domain/network.ts';
import type { ErrorBody } from '../errors.ts';
import type { LogLevel } from '../lib/logger.ts';

/**
 * Main process <-> transport process. Types only, no schemas: both ends are the same build on a private
 * channel, and the transport process stays small. Texts that come from other machines (`text`) pass through
 * unread and are parsed by schema in the main process.
 */

/** A key that may speak to us. */
export interface Member {
  readonly nodeId: NodeId;
  readonly role: 'controller' | 'worker';
  readonly name: string;
  /** A known key that is refused by name (removed node): gets one refusal frame, then the end. */
  readonly refusal?: ErrorBody;
}

export interface Grant {
  /** 64 hex digits, the right itself. */
  readonly token: string;
  readonly engineId: EngineId;
  /** Loopback port of the engine. */
  readonly port: number;
  /** The keys that may use it. */
  readonly peers: readonly NodeId[];
  /** Stages serve one client: at most this many streams at once. */
  readonly maxStreams: number;
  readonly alpn: 'tunnel' | 'http';
  /** No new stream after this time without `renew-grants`; those that are open go on. */
  readonly ttlMs: number;
}

/** The right of one peer to read one artifact here. */
export interface ArtifactGrant {
  /** 64 hex digits, the right itself. */
  readonly token: string;
  readonly artifact: ArtifactId;
  readonly peer: NodeId;
  readonly ttlMs: number;
}

/** What is read of an artifact on a peer, at most `artifactReadBytes` at once. */
export type ArtifactPart =
  /** A tree's manifest. */
  | { readonly what: 'manifest' }
  /** The digests of a file's chunks, 32 bytes each. */
  | { readonly what: 'chunks'; readonly file: ArtifactId }
  | {
      readonly what: 'bytes';
      readonly file: ArtifactId;
      readonly offset: number;
      readonly length: number;
    };

export interface ArtifactRead {
  readonly target: PeerTarget;
  readonly grant: string;
  readonly part: ArtifactPart;
  /** Written there, which must exist for `bytes`, at `offset`; else it is made. */
  readonly path: string;
}

/** How a peer that we cannot dial is to be reached; see `Transport.onDialRequest`. */
export interface DialBack {
  readonly peer: NodeId;
  /** 64 hex digits, single use. */
  readonly token: string;
  readonly route: 'reverse' | 'relay';
}

/** Our part in a connection that a peer has asked for. */
export interface DialOrder extends DialBack {
  readonly peerName: string;
  /** The peer's for `reverse`, the controller's for `relay`. */
  readonly addresses: readonly Address[];
}

/** The controller's leave to join two connections into one. */
export interface RelayPass {
  readonly token: string;
  readonly between: readonly [NodeId, NodeId];
  readonly ttlMs: number;
}

export interface LinkRequest {
  readonly engineId: EngineId;
  readonly stageEngineId: EngineId;
  readonly peer: NodeId;
  readonly peerName: string;
  readonly addresses: readonly Address[];
  readonly grant: string;
  readonly connectTimeoutMs: number;
}

export interface TransportAudit {
  readonly kind:
    | 'peer_unknown'
    | 'peer_refused'
    | 'grant_refused'
    | 'protocol_error'
    | 'join_limited'
    | 'relay_refused'
    | 'flood';
  readonly remoteAddress: string;
  readonly peerId: NodeId | null;
  readonly detail: string;
}

export interface TransportInit {
  readonly nodeId: NodeId;
  /** PKCS #8. Over the private channel only: never in argv or environment. */
  readonly keyPem: string;
  readonly certPem: string;
  /** A `controller` takes joins, sessions and `/v1` of members; both roles take streams for grants. */
  readonly role: 'controller' | 'worker';
  readonly listen: { readonly host: string; readonly port: number } | null;
  /** Unix socket or named pipe of the gateway, for members' `/v1`. */
  readonly gatewaySocket: string | null;
  readonly pulseMs: number;
  readonly pulseLostMs: number;
  readonly members: readonly Member[];
  readonly grants: readonly Grant[];
  /** Of this node's artifact store, which members with a grant may read; null: it has none. */
  readonly artifactDirectory: string | null;
  readonly artifactGrants: readonly ArtifactGrant[];
  /** See `Transport.setRelay`. */
  readonly relay: RelayController | null;
  /** See `Transport.setUploadLimit`. */
  readonly uploadBytesPerS: number | null;
}

export interface RelayController {
  readonly nodeId: NodeId;
  readonly addresses: readonly Address[];
}

export interface DialRequest {
  readonly addresses: readonly Address[];
  readonly expectedNodeId: NodeId;
  readonly timeoutMs: number;
}

export interface JoinDialRequest extends Omit<DialRequest, 'expectedNodeId'> {
  /** null: any key. */
  readonly expectedNodeId: NodeId | null;
}

/** A member that is to be reached by whatever path works. */
export interface PeerTarget {
  readonly peer: NodeId;
  readonly peerName: string;
  readonly addresses: readonly Address[];
  readonly timeoutMs: number;
}

/**
 * `operation` numbers are the main process's, unique per transport process: whatever has to be answered.
 * `session` numbers are the transport process's; joins have them too.
 */
export type TransportCommand =
  | { readonly type: 'init'; readonly init: TransportInit }
  | { readonly type: 'members'; readonly members: readonly Member[] }
  | { readonly type: 'add-grant'; readonly grant: Grant }
  | { readonly type: 'remove-grants'; readonly engineId: EngineId }
  | { readonly type: 'renew-grants' }
  | { readonly type: 'add-artifact-grant'; readonly grant: ArtifactGrant }
  | { readonly type: 'read-artifact'; readonly operation: number; readonly read: ArtifactRead }
  | { readonly type: 'dial-session'; readonly operation: number; readonly target: DialRequest }
  | { readonly type: 'dial-join'; readonly operation: number; readonly target: JoinDialRequest }
  | {
      readonly type: 'identify';
      readonly operation: number;
      readonly addresses: readonly Address[];
      readonly timeoutMs: number;
    }
  | { readonly type: 'open-link'; readonly operation: number; readonly link: LinkRequest }
  | {
      readonly type: 'open-stream';
      readonly operation: number;
      readonly target: PeerTarget;
      readonly grant: string;
    }
  | {
      readonly type: 'probe';
      readonly operation: number;
      readonly target: PeerTarget;
      readonly bytes: number;
    }
  /** Ends an operation or a link, whatever state it is in. Nothing more is heard of it. */
  | { readonly type: 'cancel'; readonly operation: number }
  | { readonly type: 'set-relay'; readonly controller: RelayController | null }
  | { readonly type: 'limit-upload'; readonly bytesPerS: number | null }
  | { readonly type: 'dial-back'; readonly order: DialOrder }
  | { readonly type: 'allow-relay'; readonly pass: RelayPass }
  | { readonly type: 'send'; readonly session: number; readonly text: string }
  /** The main process has taken in this many bytes of a session's messages since the last time. */
  | { readonly type: 'taken'; readonly session: number; readonly bytes: number }
  | { readonly type: 'close-session'; readonly session: number }
  /** The join may last this long from now. */
  | { readonly type: 'hold-join'; readonly session: number; readonly deadlineMs: number }
  | { readonly type: 'stop' };

export interface LinkBeat extends LinkObservation {
  readonly operation: number;
}

export type TransportEvent =
  /** Answer to `init`. */
  | { readonly type: 'ready'; readonly clusterAddress: Address | null }
  | { readonly type: 'failed'; readonly error: ErrorBody }
  | {
      readonly type: 'session';
      readonly session: number;
      /** The dial that this answers; null: a peer dialled us. */
      readonly operation: number | null;
      readonly peerId: NodeId;
      readonly remoteAddress: string;
      readonly localAddress: string;
      /** null: a peer dialled us. */
      readonly dialledAddress: Address | null;
    }
  | { readonly type: 'message'; readonly session: number; readonly text: string }
  | { readonly type: 'session-closed'; readonly session: number; readonly error: ErrorBody | null }
  /** A peer begins a join, or a dial for one has come about; frames follow as `message`. */
  | {
      readonly type: 'join';
      readonly session: number;
      /** As for `session`. */
      readonly operation: number | null;
      readonly peerId: NodeId;
      readonly remoteAddress: string;
      readonly localAddress: string;
      /** See `JoinConversation.binding`. */
      readonly binding: string;
      readonly dialledAddress: Address | null;
    }
  | {
      readonly type: 'identified';
      readonly operation: number;
      readonly attempts: readonly AddressAttempt[];
    }
  | {
      readonly type: 'stream-open';
      readonly operation: number;
      readonly socketPath: string;
      readonly path: LinkPath;
    }
  | { readonly type: 'artifact-read'; readonly operation: number; readonly bytes: number }
  | { readonly type: 'probed'; readonly operation: number; readonly probe: PathProbe }
  | { readonly type: 'dial-request'; readonly request: DialBack }
  | { readonly type: 'link-open'; readonly operation: number; readonly port: number; readonly beat: LinkBeat }
  | { readonly type: 'link-lost'; readonly operation: number; readonly error: ErrorBody }
  /** An operation came to nothing. */
  | { readonly type: 'operation-failed'; readonly operation: number; readonly error: ErrorBody }
  | { readonly type: 'audit'; readonly audit: TransportAudit }
  | { readonly type: 'log'; readonly level: LogLevel; readonly message: string }
  /** Every `pulseMs`; also tells that the process is not stuck. */
  | { readonly type: 'beat'; readonly rssBytes: number; readonly links: readonly LinkBeat[] };
