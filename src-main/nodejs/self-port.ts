import type { SettingsView } from '#shared/api/access.ts';
import type { JoinView, StartJoinBody } from '#shared/api/joining.ts';
import type { DiscoveryView, DoctorReport, LendMeans, SelfView } from '#shared/api/self.ts';
import type { Hardware } from '#shared/domain/node.ts';
import type { LoginPort } from './access/machine-logins.ts';

/**
 * What `/api` tells and does about this machine itself, whatever its role: `selfRoutes` (but `links`) and the
 * settings. Each throws CoveyError.
 */
export interface SelfPort {
  self(): SelfView;
  /** Begins; how it goes on shows in `self().join`. On a controller: `invalid_request`. */
  startJoin(body: StartJoinBody): Promise<JoinView>;
  confirmJoin(): JoinView;
  cancelJoin(): JoinView;
  leave(): Promise<SelfView>;
  discovery(signal: AbortSignal): Promise<DiscoveryView>;
  doctor(signal: AbortSignal): Promise<DoctorReport>;
  settings(): SettingsView;
  setSettings(patch: unknown): Promise<SettingsView>;
  lendMeans(): Promise<LendMeans>;
  /** For a browser that shows the page of this machine. */
  readonly logins: LoginPort;
}

/** The graphics cards that the engine found; null: nobody has looked, or it could not be told. */
export function gpusOf(hardware: Hardware | null): LendMeans['gpus'] {
  const devices = hardware?.devices;
  return devices?.known === true ? devices.value.filter(({ kind }) => kind === 'gpu') : null;
}
