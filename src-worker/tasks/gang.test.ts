import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { NodeId, TaskId } from '#shared/lib/ids.ts';
import { createPortReserve } from './gang-ports.ts';
import { gangVariables } from './gang-variables.ts';

const node = (letter: string): NodeId => letter.repeat(64) as NodeId;

describe('ports of a rank', () => {
  const range = { interface: 'lo', ports: { from: 23_100, to: 23_103 } };
  const all = [23_100, 23_101, 23_102, 23_103];

  it('are kept until they are released, within the range', async () => {
    const first = await createPortReserve(() => 0.6).reserve(3, range);
    expect(new Set(first.ports).size).toBe(3);
    expect(first.ports.every((port) => port >= 23_100 && port <= 23_103)).toBe(true);
    const other = createPortReserve(() => 0);
    await expect(other.reserve(2, range)).rejects.toMatchObject({ code: 'gang_incomplete' });
    await first.release();
    const again = await other.reserve(4, range);
    expect(again.ports).toEqual(all);
    await again.release();
    await again.release();
    const server = createServer().listen(23_100, again.host);
    await new Promise((resolve) => server.once('listening', resolve));
    server.close();
  });

  it("are nobody else's before the rank is over, though it does not listen there yet", async () => {
    const reserve = createPortReserve(() => 0);
    const first = await reserve.reserve(3, range);
    await first.release();
    await expect(reserve.reserve(2, range)).rejects.toMatchObject({ code: 'gang_incomplete' });
    const second = await reserve.reserve(1, range);
    expect(second.ports).toEqual([23_103]);
    await first.end();
    await first.end();
    const third = await reserve.reserve(3, range);
    expect(third.ports).toEqual([23_100, 23_101, 23_102]);
    await Promise.all([second.end(), third.end()]);
    const last = await reserve.reserve(4, range);
    expect(last.ports).toEqual(all);
    await last.end();
  });

  it('need an interface that is there', async () => {
    const network = { interface: 'none0', ports: { from: 20_000, to: 20_001 } };
    const reserve = createPortReserve(() => 0);
    await expect(reserve.reserve(1, network)).rejects.toMatchObject({ code: 'network_forbidden' });
  });
});

it('tells a rank where the others are', () => {
  const ranks = [
    { rank: 1, nodeId: node('b'), host: '192.0.2.2', ports: [3, 4] },
    { rank: 0, nodeId: node('a'), host: '192.0.2.1', ports: [1, 2] },
    { rank: 2, nodeId: node('b'), host: '192.0.2.2', ports: [5, 6] },
  ];
  const variables = gangVariables(
    { rank: 2, worldSize: 3, start: 1 },
    { taskId: 'j-00000001.2.1' as TaskId, ranks },
    'eth0',
  );
  expect(variables).toMatchObject({
    RANK: '2',
    WORLD_SIZE: '3',
    LOCAL_RANK: '1',
    LOCAL_WORLD_SIZE: '2',
    MASTER_ADDR: '192.0.2.1',
    MASTER_PORT: '1',
    COVEY_HOSTS: '192.0.2.1,192.0.2.2,192.0.2.2',
    COVEY_PORTS: '5,6',
    COVEY_ALL_PORTS: '1,2;3,4;5,6',
    GLOO_SOCKET_IFNAME: 'eth0',
  });
});
