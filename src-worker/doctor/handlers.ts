import type { Clock } from '#shared/lib/clock.ts';
import type { DoctorContext } from '../../src-main/nodejs/doctor/context.ts';
import type { DoctorSystem } from '../../src-main/nodejs/doctor/system.ts';
import type { Transport } from '../../src-main/nodejs/transport/transport.ts';
import type { RequestHandlers } from '../runtime/requests.ts';

/** Connecting by every path and, with volume, five seconds of it. */
const probeMs = 14_000;

/** What this worker answers when its controller asks how it is and how well it reaches the others. */
export function createDoctorHandlers(options: {
  /** What this node knows of itself now. */
  readonly context: () => Promise<DoctorContext>;
  readonly transport: Pick<Transport, 'probe'>;
  readonly clock: Clock;
  /** Default: this machine. */
  readonly system?: DoctorSystem;
}): Pick<RequestHandlers, 'doctor.run' | 'network.probe' | 'node.ping'> {
  const { transport, clock, system } = options;
  return {
    'node.ping': async () => ({}),
    async 'doctor.run'() {
      // Many checks that most machines never make: loaded when somebody asks.
      const { runDoctor } = await import('../../src-main/nodejs/doctor/doctor.ts');
      const checks = await runDoctor(await options.context(), system);
      // Read last: the controller compares it with its own clock when the answer arrives.
      return { checks, at: clock.now() };
    },
    'network.probe': ({ peer, peerName, addresses, bytes }, { signal }) =>
      transport.probe({ peer, peerName, addresses, bytes, timeoutMs: probeMs, signal }),
  };
}
