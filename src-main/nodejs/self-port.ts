import type { SettingsView } from '#shared/api/access.ts';
import type { JoinView, StartJoinBody } from '#shared/api/joining.ts';
import type { DiscoveryView, DoctorReport, SelfView } from '#shared/api/self.ts';

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
}
