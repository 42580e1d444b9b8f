import { networkInterfaces } from 'node:os';
import type { Address } from '#shared/domain/node.ts';
import type { Member } from '#shared/host/transport.ts';
import { entries } from '../entries.ts';
import type { Identity } from '../identity/identity.ts';
import { createChildProcessHost } from '../process-host/child-process-host.ts';
import type { HostProcess, ProcessHost } from '../process-host/process-host.ts';
import { silentLogger } from './fixtures.ts';
import { createTransport, type TransportOptions } from './transport-client.ts';
import type { DialTarget, Transport } from './transport.ts';

/** For tests with real transport processes: starts them, and ends what a test left. */
export interface Testbed {
  start(
    identity: Identity,
    role: 'controller' | 'worker',
    overrides?: Partial<TransportOptions>,
  ): Promise<Transport>;
  /** Called in reverse order by `end`. */
  onEnd(step: () => unknown): void;
  end(): Promise<void>;
}

export function createTestbed(): Testbed {
  const steps: Array<() => unknown> = [];
  return {
    async start(identity, role, overrides = {}) {
      const transport = await createTransport({
        processHost: createChildProcessHost(entries),
        identity,
        role,
        listen: { host: '127.0.0.1', port: 0 },
        gatewaySocket: null,
        logger: silentLogger,
        ...overrides,
      });
      steps.push(() => transport.close());
      return transport;
    },
    onEnd: (step) => void steps.push(step),
    async end() {
      for (const step of steps.splice(0).reverse()) await step();
    },
  };
}

/** Children of the real kind, with a handle for the test to kill them. */
export function watchedHost(): ProcessHost & { readonly children: HostProcess[] } {
  const inner = createChildProcessHost(entries);
  const children: HostProcess[] = [];
  return {
    children,
    fork(entry, options) {
      const child = inner.fork(entry, options);
      children.push(child);
      return child;
    },
  };
}

export function addressOf(transport: Transport): Address {
  if (!transport.clusterAddress) throw new Error('this node does not listen');
  return transport.clusterAddress;
}

export function dialTo(transport: Transport, identity: Identity): DialTarget {
  return { addresses: [addressOf(transport)], expectedNodeId: identity.nodeId, timeoutMs: 5_000 };
}

export function memberOf(identity: Identity, role: Member['role'] = 'worker'): Member {
  return { nodeId: identity.nodeId, role, name: `${role} ${identity.nodeId.slice(0, 4)}` };
}

export const hasIpv6 = Object.values(networkInterfaces()).some((list) =>
  list?.some(({ address }) => address === '::1'),
);
