import type { Discovery } from '../nodejs/discovery/discovery.ts';
import { discoveryOff, type DiscoveryLook } from '../nodejs/discovery/view.ts';
import type { SelfView } from '#shared/api/self.ts';
import type { LendState } from '#shared/domain/lend.ts';
import { CoveyError, type ErrorBody } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { DoctorContext } from '../nodejs/doctor/context.ts';
import { gpusOf, type SelfPort } from '../nodejs/self-port.ts';
import type { LanPort, SettingsPort } from '../nodejs/settings/settings-port.ts';
import type { Transport } from '../nodejs/transport/transport.ts';
import type { DoctorReport, LendMeans } from '#shared/api/self.ts';
import type { LoginPort } from '../nodejs/access/machine-logins.ts';
import type { Runtime } from './runtime/runtime.ts';

/** The engine of this machine, for comparison; a controller needs none itself. */
export type OwnEngine =
  | { readonly directory: string; readonly buildId: string }
  | { readonly directory: null; readonly reason: string };

export interface ControllerSelf {
  readonly port: SelfPort;
  /** For the doctor, whoever asks it. */
  doctorContext(): DoctorContext;
}

/** What `/api` tells and does about the controller's own machine. */
export function createControllerSelf(options: {
  readonly nodeId: NodeId;
  readonly name: string;
  readonly version: string;
  readonly dataDirectory: string;
  readonly engine: OwnEngine;
  readonly runtime: Runtime;
  readonly transport: Transport;
  readonly discovery: Discovery | null;
  /** null: discovery is off. */
  readonly look: DiscoveryLook | null;
  readonly settings: SettingsPort;
  readonly lan: () => LanPort | null;
  readonly doctor: (signal: AbortSignal) => Promise<DoctorReport>;
  readonly apiAddress: () => string;
  /** As its worker has it; null: it has none. */
  readonly lend: () => LendState | null;
  /** Rules that its system cannot sense. */
  readonly unavailableRules: () => Promise<LendMeans['unavailable']>;
  readonly logins: LoginPort;
  readonly notices: () => readonly ErrorBody[];
}): ControllerSelf {
  const { transport, settings, discovery, runtime, nodeId, engine } = options;
  const joinsNothing = (): never => {
    throw new CoveyError(
      'invalid_request',
      'This machine is a controller: others join it. "covey invite" or "covey pending" here lets them in.',
    );
  };
  const self = (): SelfView => ({
    role: 'controller',
    nodeId,
    // One that lends itself may have been renamed as any other machine.
    name: runtime.state.nodes.get(nodeId)?.durable.name ?? options.name,
    version: options.version,
    apiAddress: options.apiAddress(),
    clusterAddress: transport.clusterAddress,
    dataDirectory: options.dataDirectory,
    membership: null,
    join: null,
    lend: options.lend(),
    notices: [...options.notices()],
  });
  return {
    port: {
      self,
      startJoin: async () => joinsNothing(),
      confirmJoin: joinsNothing,
      cancelJoin: joinsNothing,
      leave: async () => joinsNothing(),
      discovery: (signal) => (options.look ? options.look(signal) : Promise.resolve(discoveryOff())),
      doctor: options.doctor,
      settings: () => settings.view(),
      setSettings: (patch) => settings.patch(patch),
      async lendMeans() {
        const facts = runtime.state.nodes.get(nodeId)?.durable.facts;
        return { gpus: gpusOf(facts?.hardware ?? null), unavailable: await options.unavailableRules() };
      },
      logins: options.logins,
    },
    doctorContext() {
      const own = runtime.state.nodes.get(nodeId);
      const lan = options.lan();
      const { enabled } = settings.view().settings.lan;
      return {
        dataDirectory: options.dataDirectory,
        version: options.version,
        settings: settings.view().settings,
        settingsProblem: null,
        engine:
          engine.directory === null ? { buildId: null, reason: engine.reason } : { buildId: engine.buildId },
        node: {
          role: 'controller',
          lends: own !== undefined,
          apiAddress: options.apiAddress(),
          clusterAddress: transport.clusterAddress,
          hardware: own?.durable.facts?.hardware ?? null,
          compute: own?.live.compute ?? null,
          discovery: discovery && {
            interfaces: discovery.interfaces(),
            peers: discovery.peers().length,
          },
          controller: null,
          notices: self().notices,
          lan:
            lan && enabled
              ? {
                  addresses: lan.addresses,
                  certificateExpiresAt: lan.certificate?.expiresAt ?? null,
                  problems: lan.problems,
                }
              : null,
        },
      };
    },
  };
}
