import { expect, test } from 'vitest';
import type { NodeId } from '#shared/lib/ids.ts';
import { stateOnly } from '../doctor/fixtures.ts';
import { joined, nodeId } from '../state/fixtures.ts';
import { createControllerService, type ServiceOptions } from './controller-service.ts';

test('the own machine of the controller is not removed, others are', () => {
  const runtime = stateOnly(joined('c', 'hall'), joined('a', 'anna'));
  const closed: NodeId[] = [];
  // Removing needs nothing else.
  const options = {
    runtime: Object.assign(runtime, { commit: runtime.dispatch }),
    clock: { now: () => 1 },
    about: () => ({ nodeId: nodeId('c'), name: 'hall' }),
    onRemoved: (id: NodeId) => void closed.push(id),
  } as unknown as ServiceOptions;
  const service = createControllerService(options);

  expect(() => service.removeNode('hall')).toThrow(
    expect.objectContaining({
      code: 'invalid_request',
      message: "hall is the controller's own machine: restart without --lend to take it out of the covey.",
    }),
  );
  expect([runtime.state.nodes.size, closed]).toEqual([2, []]);
  service.removeNode('anna');
  expect([[...runtime.state.nodes.keys()], closed]).toEqual([[nodeId('c')], [nodeId('a')]]);
});
