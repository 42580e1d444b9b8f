import type { Duplex } from 'node:stream';
import type { DeploymentId, NodeId } from '#shared/lib/ids.ts';
import type { Address } from '#shared/domain/node.ts';
import type { NodeHistory, Preview } from '#shared/api/dashboard.ts';
import type { DeploymentView } from '#shared/domain/deployment.ts';
import type {
  ApiEvent,
  EventHistory,
  EventHistoryQuery,
  LoadBody,
  LogLine,
  ModelView,
  NodeView,
  PingView,
  StatusView,
  TransferView,
} from '#shared/api/schema.ts';
import type { CoveyError } from '#shared/errors.ts';

/** What the gateway needs of the rest of the controller. It translates HTTP to these calls and decides nothing. */
export interface RouteTable {
  /** Deployments that clients can name, ready or not, oldest first. */
  models(): readonly ServedModel[];
  resolve(model: string): RouteResolution;
}

export interface ServedModel {
  readonly id: string;
  readonly createdAt: number;
  readonly ready: boolean;
  readonly contextPerRequest: number;
}

export type RouteResolution =
  | { readonly kind: 'ready'; readonly route: Route }
  | { readonly kind: 'unknown'; readonly known: readonly string[] }
  | { readonly kind: 'unavailable'; readonly error: CoveyError };

export interface Route {
  readonly deploymentId: DeploymentId;
  readonly upstream: Upstream;
  /** Registers a request from before it is sent until `end`; drain and unload wait for it. */
  begin(): RunningRequest;
}

export type Upstream =
  | { readonly kind: 'local'; readonly port: number; readonly apiKey: string }
  | {
      readonly kind: 'remote';
      readonly nodeId: NodeId;
      readonly addresses: readonly Address[];
      readonly grant: string;
      readonly apiKey: string;
    };

export interface RunningRequest {
  /** Aborts with a CoveyError as reason when the replica is lost, unloaded, or a drain's deadline passes. */
  readonly signal: AbortSignal;
  /** So many more tokens have been generated for it; about right, for live figures. */
  generated(tokens: number): void;
  /** Once. `unreachable`: the engine could not be reached or cut the connection; the controller looks closer. */
  end(outcome: 'done' | 'client_gone' | 'error' | 'unreachable'): void;
}

/** Opens an authenticated byte stream to a remote engine (ALPN `covey-http`, preamble done). */
export type DialUpstream = (
  upstream: Extract<Upstream, { kind: 'remote' }>,
  signal: AbortSignal,
) => Promise<Duplex>;

/** The operations behind `/api`; each throws CoveyError. Names follow `apiRoutes`. */
export interface ControllerService {
  status(): StatusView;
  nodes(): NodeView[];
  node(ref: string): NodeView;
  drain(ref: string, deadlineMs: number | undefined): NodeView;
  resume(ref: string): NodeView;
  pause(ref: string): NodeView;
  renameNode(ref: string, name: string): NodeView;
  ping(ref: string, signal: AbortSignal): Promise<PingView>;
  removeNode(ref: string): void;
  nodeHistory(ref: string): NodeHistory;
  models(signal: AbortSignal): Promise<ModelView[]>;
  importModel(node: string, path: string, name: string | undefined): TransferView;
  pullModel(source: string, node: string | undefined): TransferView;
  removeModel(node: string, name: string, signal: AbortSignal): Promise<void>;
  transfers(): TransferView[];
  transfer(id: string): TransferView;
  cancelTransfer(id: string): TransferView;
  deployments(): DeploymentView[];
  deployment(id: string): DeploymentView;
  /** Resolves once the request is accepted and recorded; loading goes on and is seen in events. */
  load(body: LoadBody, signal: AbortSignal): Promise<{ deployment: DeploymentView; existed: boolean }>;
  preview(body: LoadBody, signal: AbortSignal): Promise<Preview>;
  unload(id: string): DeploymentView;
  retry(id: string): DeploymentView;
  /** Past events after `lastId` that are still kept, then live ones, until the returned function is called. */
  subscribe(lastId: number | null, listener: (event: ApiEvent) => void): () => void;
  /** Live figures: everything, then what changes. */
  subscribeLive(listener: (event: ApiEvent) => void): () => void;
  /** Log lines as events of the kind `logs`: all that are kept, then new ones. */
  subscribeLogs(listener: (event: ApiEvent) => void): () => void;
  eventHistory(query: EventHistoryQuery): EventHistory;
  logs(filter: { node?: string; limit: number }): LogLine[];
}
