import type { ListenAddress } from '#shared/config.ts';
import type { EngineObservation } from '#shared/domain/engine.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { LocalAccess } from '../nodejs/access/local-access.ts';
import type { SelfPort } from '../nodejs/self-port.ts';
import type { SettingsStore } from '../nodejs/settings/settings-store.ts';
import type { Foundation } from './foundation.ts';

/** What a host (headless or the desktop app) decides for either role. */
export interface RoleOptions {
  readonly foundation: Foundation;
  /** Name of this machine in the covey. */
  readonly name: string;
  readonly cluster: ListenAddress;
  /** Announce this machine and listen for others; the settings may switch it off as well. */
  readonly discovery: boolean;
}

/** A role that runs in this process, whichever program hosts it. */
export interface RoleNode {
  readonly role: 'controller' | 'worker';
  readonly nodeId: NodeId;
  readonly name: string;
  /** `http://127.0.0.1:7878`, null when this process serves no API. */
  readonly apiAddress: string | null;
  /** `0.0.0.0:7879`, null when this process does not listen. */
  readonly clusterAddress: string | null;
  /** The right of this machine's owner, for programs of theirs. */
  readonly local: LocalAccess;
  readonly self: SelfPort;
  readonly settings: SettingsStore;
  /** What ends when this process ends. */
  serving(): Serving;
  /** What this worker's controller runs, by its own word; null: a controller itself, none, or not heard. */
  controllerVersion(): string | null;
  /** Ends everything the role has opened, last first, with the foundation. */
  readonly close: () => Promise<void>;
}

export interface Serving {
  /** Models that are served or being loaded, by their names in `/v1`; of a controller only. */
  readonly models: readonly string[];
  /** Engines that run on this machine. */
  readonly engines: number;
}

/** How many of a worker's engines are there still. */
export function runningEngines(engines: readonly Pick<EngineObservation, 'phase'>[]): number {
  return engines.filter(({ phase }) => phase !== 'stopped' && phase !== 'failed').length;
}

/** A role's address for people and reports. */
export function addressText(address: { readonly host: string; readonly port: number } | null): string | null {
  return address && `${address.host}:${address.port}`;
}
