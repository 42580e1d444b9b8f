import type { InterfaceView } from '#shared/domain/network.ts';
import type { Address, Hardware } from '#shared/domain/node.ts';
import type { ComputeFacts } from '#shared/domain/task.ts';
import type { ErrorBody } from '#shared/errors.ts';
import type { Settings } from '#shared/settings.ts';

/** What a node knows of itself; the checks ask the machine for the rest (see DoctorSystem). */
export interface DoctorContext {
  readonly dataDirectory: string;
  /** Of the program. */
  readonly version: string;
  readonly settings: Settings;
  /** `config.json` does not read, and `settings` are the defaults. A node does not start so. */
  readonly settingsProblem: ErrorBody | null;
  /** The engine directory in use, or why there is none. */
  readonly engine: { readonly buildId: string } | { readonly buildId: null; readonly reason: string };
  /** null: no node runs, these are the checks of the command line alone. */
  readonly node: RunningNode | null;
}

export interface RunningNode {
  readonly role: 'controller' | 'worker';
  /** Lends this machine: a worker, or a controller with `--lend`. */
  readonly lends: boolean;
  /** `http://HOST:PORT`, null or empty when it serves no API. */
  readonly apiAddress: string | null;
  /** null: it does not listen. */
  readonly clusterAddress: Address | null;
  /** null: not probed yet, or it does not lend. */
  readonly hardware: Hardware | null;
  /** What it computes for others besides models; null: it does not lend. */
  readonly compute: ComputeFacts | null;
  /** What discovery says of its interfaces; null: the node was started without it. */
  readonly discovery: { readonly interfaces: readonly InterfaceView[]; readonly peers: number } | null;
  /** A worker's controller; null: it belongs to no covey, or is the controller. */
  readonly controller: ControllerContact | null;
  /** See `SelfView.notices`. */
  readonly notices: readonly ErrorBody[];
  /** LAN access: the certificate in use and what is wrong with it; null: it is off. */
  readonly lan: {
    readonly addresses: readonly string[];
    readonly certificateExpiresAt: number | null;
    readonly problems: readonly string[];
  } | null;
}

export interface ControllerContact {
  readonly name: string;
  readonly connected: boolean;
  /** Known ways to it, the one in use or the best first. */
  readonly addresses: readonly Address[];
  /** Why there is no session. */
  readonly trouble: ErrorBody | null;
  /** This machine's clock minus the controller's when the session began, ms; null: not known. */
  readonly clockAheadMs: number | null;
  /** When its address last turned out to be another one; null: it did not since the start. */
  readonly addressChangedAt: number | null;
}
