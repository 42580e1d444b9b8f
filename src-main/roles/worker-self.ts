import type { SelfView } from '#shared/api/self.ts';
import { CoveyError, type ErrorBody, type ErrorCode } from '#shared/errors.ts';
import type { Discovery } from '../nodejs/discovery/discovery.ts';
import { discoveryOff, type DiscoveryLook } from '../nodejs/discovery/view.ts';
import type { DoctorContext } from '../nodejs/doctor/context.ts';
import type { LoginPort } from '../nodejs/access/machine-logins.ts';
import { gpusOf, type SelfPort } from '../nodejs/self-port.ts';
import type { SettingsPort } from '../nodejs/settings/settings-port.ts';
import type { Transport } from '../nodejs/transport/transport.ts';
import { productVersion } from '../nodejs/version.ts';
import type { Joiner } from '../../src-worker/joining/joiner.ts';
import type { Foundation } from './foundation.ts';
import type { Lending } from './lending.ts';
import type { Member, MemberLife } from './member-life.ts';

/** Troubles in which a member may join (again) without leaving first: nobody has it any more. */
const outcast: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'node_removed',
  'not_a_member',
  'controller_key_mismatch',
]);

export interface WorkerSelf {
  readonly port: SelfPort;
  /** For the doctor, whoever asks it. */
  doctorContext(): DoctorContext;
}

/** What `/api` tells and does about a machine that is only a worker. */
export function createWorkerSelf(options: {
  readonly foundation: Foundation;
  readonly transport: Transport;
  readonly discovery: Discovery | null;
  /** null: discovery is off. */
  readonly look: DiscoveryLook | null;
  readonly joiner: Joiner;
  readonly lend: Pick<Lending, 'state' | 'unavailableRules'>;
  readonly logins: LoginPort;
  readonly life: MemberLife;
  readonly settings: SettingsPort;
  readonly apiAddress: () => string;
  /** What this machine itself has noticed, a copy of its identity for instance. */
  readonly notices: () => readonly ErrorBody[];
}): WorkerSelf {
  const { foundation, transport, joiner, life, settings, discovery } = options;
  const { data, identity, engine } = foundation;

  const membershipView = ({ membership, worker, controller }: Member): SelfView['membership'] => {
    const { connected, controllerName, trouble } = worker.status();
    return {
      controllerId: membership.controllerId,
      controllerName: controllerName ?? membership.controllerName,
      connected,
      addresses: [...controller.addresses()],
      trouble,
    };
  };
  const self = (): SelfView => ({
    role: 'worker',
    nodeId: identity.nodeId,
    name: life.name,
    version: productVersion,
    apiAddress: options.apiAddress(),
    clusterAddress: transport.clusterAddress,
    dataDirectory: data.path,
    membership: life.current && membershipView(life.current),
    join: joiner.view(),
    lend: options.lend.state(),
    notices: [...life.notices, ...options.notices()],
  });

  const context = (): DoctorContext => {
    const { current } = life;
    const status = current?.worker.status() ?? null;
    return {
      dataDirectory: data.path,
      version: productVersion,
      settings: settings.view().settings,
      settingsProblem: null,
      engine:
        engine.directory === null ? { buildId: null, reason: engine.reason } : { buildId: engine.buildId },
      node: {
        role: 'worker',
        lends: true,
        apiAddress: options.apiAddress(),
        clusterAddress: transport.clusterAddress,
        hardware: status?.hardware ?? null,
        compute: status?.compute ?? null,
        discovery: discovery && {
          interfaces: discovery.interfaces(),
          peers: discovery.peers().length,
        },
        controller:
          current && status
            ? {
                name: status.controllerName ?? current.membership.controllerName,
                connected: status.connected,
                addresses: current.controller.addresses(),
                trouble: status.trouble,
                clockAheadMs: status.clockAheadMs,
                addressChangedAt: current.controller.changedAt(),
              }
            : null,
        notices: self().notices,
        lan: null,
      },
    };
  };

  const port: SelfPort = {
    self,
    async startJoin(body) {
      const { current } = life;
      if (current) {
        const { trouble, controllerName } = current.worker.status();
        if (!trouble || !outcast.has(trouble.code)) {
          const whose = controllerName ?? current.membership.controllerName;
          throw new CoveyError(
            'already_member',
            `This machine lends itself to ${whose}. Run "covey leave" here first.`,
          );
        }
      }
      return joiner.start(body);
    },
    confirmJoin: () => joiner.confirm(),
    cancelJoin: () => joiner.cancel(),
    async leave() {
      if (!life.current) throw new CoveyError('not_a_member', 'This machine belongs to no covey.');
      await life.leave();
      return self();
    },
    discovery: (signal) => (options.look ? options.look(signal) : Promise.resolve(discoveryOff())),
    async doctor() {
      const { runDoctor } = await import('../nodejs/doctor/doctor.ts');
      const checks = await runDoctor(context());
      return { nodes: [{ nodeId: identity.nodeId, name: life.name, checks, error: null }], pairs: [] };
    },
    settings: () => settings.view(),
    setSettings: (patch) => settings.patch(patch),
    lendMeans: async () => ({
      gpus: gpusOf(life.current?.worker.status().hardware ?? null),
      unavailable: await options.lend.unavailableRules(),
    }),
    logins: options.logins,
  };
  return { port, doctorContext: context };
}
