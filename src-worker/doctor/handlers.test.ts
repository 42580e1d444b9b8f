import { expect, it } from 'vitest';
import type { NodeId } from '#shared/lib/ids.ts';
import { workerRequests } from '#shared/protocol/requests.ts';
import { at, exampleContext, fakeSystem } from '../../src-main/nodejs/doctor/fixtures.ts';
import type { ProbeTarget } from '../../src-main/nodejs/transport/transport.ts';
import { createDoctorHandlers } from './handlers.ts';

const context = { signal: new AbortController().signal, progress: () => undefined };

it('answers with its checks and the time at their end, and measures what it is told to', async () => {
  const targets: ProbeTarget[] = [];
  let now = at;
  const handlers = createDoctorHandlers({
    context: async () => {
      now += 500;
      return exampleContext();
    },
    transport: {
      probe: async (target) => {
        targets.push(target);
        return { path: 'relay', rttMs: 3, bytesPerS: null, attempts: [] };
      },
    },
    clock: { now: () => now },
    system: fakeSystem(),
  });
  const report = workerRequests['doctor.run'].result.parse(await handlers['doctor.run']({}, context));
  expect(report.at).toBe(at + 500);
  expect(report.checks.map(({ id }) => id)).toContain('port-cluster');

  const peer = 'b'.repeat(64) as NodeId;
  const params = { peer, peerName: 'ben', addresses: [{ host: '192.0.2.2', port: 7879 }], bytes: 8 };
  expect(await handlers['network.probe'](params, context)).toMatchObject({ path: 'relay' });
  expect(targets).toEqual([{ ...params, timeoutMs: 14_000, signal: context.signal }]);
});
