import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { CoveyError } from '../../src-main/shared/errors.ts';
import type { RunningController, RunningNode } from '../support/cluster.ts';
import { untilEvent } from '../support/events.ts';
import { createNetwork, netnsMissing, removeLeftoverNetworks, type Network } from '../support/netns.ts';
import { pair, startJoin, untilJoin } from '../support/pairing.ts';
import { untilEligible } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

const cluster = useCluster();

/** A controller and a machine that belongs to no covey, on loopback. */
async function start(): Promise<{ controller: RunningController; anna: RunningNode; at: string }> {
  const controller = await cluster.current.startController();
  const anna = await cluster.current.startWorker({ name: 'anna', api: '127.0.0.1:0' });
  return { controller, anna, at: controller.report.clusterAddress ?? '' };
}

const pendingOf = async (controller: RunningController) => (await controller.client.call('pending')).pending;

async function ask(controller: RunningController, worker: RunningNode, at: string): Promise<string> {
  await startJoin(worker, { controller: at });
  const { code } = await untilJoin(worker, 'comparing');
  await waitFor(
    'the request to be listed',
    async () => (await pendingOf(controller)).some((request) => request.nodeId === worker.report.nodeId),
    5_000,
  );
  return code ?? '';
}

const other = (code: string): string => String((Number(code) + 1) % 1_000_000).padStart(6, '0');

describe('a machine that asks to join', () => {
  test('is let in by its number, typed there and confirmed here, in either order', async () => {
    const { controller, anna, at } = await start();
    const code = await ask(controller, anna, at);
    expect(code).toMatch(/^\d{6}$/);
    // The controller lists the request without the number: it is to be read off the machine.
    expect(JSON.stringify(await pendingOf(controller))).not.toContain(code);
    expect((await controller.client.call('nodes')).nodes).toEqual([]);
    await anna.client.call('confirmJoin');
    await controller.client.call('approve', { body: { code: `${code.slice(0, 3)} ${code.slice(3)}` } });
    await untilJoin(anna, 'joined');
    await untilEligible(controller, 1);

    const ben = await cluster.current.startWorker({ name: 'ben', api: '127.0.0.1:0' });
    const second = await ask(controller, ben, at);
    await controller.client.call('approve', { body: { code: second } });
    await untilJoin(ben, 'approved');
    expect((await controller.client.call('nodes')).nodes.map((node) => node.name)).toEqual(['anna']);
    await ben.client.call('confirmJoin');
    await untilJoin(ben, 'joined');
    await untilEligible(controller, 2);
  });

  test('is not let in by a wrong number, and five of them end all requests', async () => {
    const { controller, anna, at } = await start();
    const code = await ask(controller, anna, at);
    for (let wrong = 0; wrong < 5; wrong += 1) {
      await expect(controller.client.call('approve', { body: { code: other(code) } })).rejects.toMatchObject({
        code: expect.stringMatching(/^join_code_/),
      });
    }
    await expect(controller.client.call('approve', { body: { code } })).rejects.toThrow();
    await untilJoin(anna, 'failed');
    expect(await pendingOf(controller)).toEqual([]);
    expect((await controller.client.call('nodes')).nodes).toEqual([]);
    await untilEvent(controller, 'security-join-refused', /wrong numbers/);
  });

  test('can be denied, blocked, and unblocked', async () => {
    const { controller, anna, at } = await start();
    await ask(controller, anna, at);
    const [request] = await pendingOf(controller);
    await controller.client.call('deny', { params: { id: request?.id ?? '' }, body: {} });
    expect((await untilJoin(anna, 'failed')).error).toMatchObject({ code: 'join_denied' });

    await ask(controller, anna, at);
    const [again] = await pendingOf(controller);
    await controller.client.call('deny', { params: { id: again?.id ?? '' }, body: { block: true } });
    await untilJoin(anna, 'failed');
    await startJoin(anna, { controller: at });
    await waitFor(
      'the machine to hear that it is blocked',
      async () => (await anna.client.call('self')).join?.error?.code === 'join_blocked',
      5_000,
    );
    const { blocked } = await controller.client.call('pending');
    expect(blocked.map((one) => one.name)).toEqual(['anna']);
    await controller.client.call('unblock', { params: { id: blocked[0]?.nodeId ?? '' } });
    await pair(controller, anna, { controller: at });
    await untilEvent(controller, 'audit-join-denied', /anna/);
  });

  test('takes its request back, and one that ends takes it along', async () => {
    const { controller, anna, at } = await start();
    await ask(controller, anna, at);
    await anna.client.call('cancelJoin');
    await waitFor('the request to be gone', async () => (await pendingOf(controller)).length === 0, 5_000);
    await ask(controller, anna, at);
    await anna.crash();
    await waitFor('the request to be gone', async () => (await pendingOf(controller)).length === 0, 5_000);
  });

  test('leaves, and may come again', async () => {
    const { controller, anna, at } = await start();
    await pair(controller, anna, { controller: at });
    await untilEligible(controller, 1);
    await expect(anna.client.call('join', { body: { controller: at } })).rejects.toMatchObject({
      code: 'already_member',
    });
    const self = await anna.client.call('leave');
    expect(self.membership).toBeNull();
    await waitFor(
      'the controller to see that it left',
      async () => (await controller.client.call('node', { params: { node: 'anna' } })).status === 'offline',
      5_000,
    );
    await pair(controller, anna, { controller: at });
    await untilEligible(controller, 1);
  });

  test('names an address where nobody listens, and one that is no controller', async () => {
    const { anna } = await start();
    const ben = await cluster.current.startWorker({ name: 'ben', api: '127.0.0.1:0' });
    for (const address of ['127.0.0.1:9', ben.report.clusterAddress ?? '']) {
      await startJoin(anna, { controller: address });
      const { error } = await untilJoin(anna, 'failed');
      expect(error?.message).toContain(address);
    }
  });
});

const missing = netnsMissing();

describe.skipIf(missing)(`on a network of their own${missing ? ` (${missing})` : ''}`, () => {
  let network: Network;
  beforeAll(() => removeLeftoverNetworks());
  afterEach(async () => {
    await cluster.current.close().catch(() => undefined);
    await network.destroy();
  });
  afterAll(() => removeLeftoverNetworks());

  const on = (name: string) => {
    const host = network.hosts[name];
    if (!host) throw new Error(`no host ${name}`);
    return { host, discovery: true, api: '127.0.0.1:0' };
  };
  const secretFile = (node: RunningNode): string => path.join(node.dataDirectory, 'cluster-secret');

  test('machines that hold the cluster secret join by themselves; removing one makes another secret', async () => {
    network = createNetwork(['desk', 'left', 'right']);
    const controller = await cluster.current.startController(on('desk'));
    const { secret } = await controller.client.call('newClusterSecret');
    const anna = await cluster.current.startWorker({ name: 'anna', ...on('left') });
    const ben = await cluster.current.startWorker({ name: 'ben', ...on('right') });
    for (const worker of [anna, ben]) await startJoin(worker, { clusterSecret: secret });
    await untilEligible(controller, 2);
    expect((await stat(secretFile(anna))).mode & 0o777).toBe(0o600);

    await controller.client.call('removeNode', { params: { node: 'ben' } });
    const renewed = await waitFor(
      'the member that stays to hold the new secret',
      async () => {
        const text = await readFile(secretFile(anna), 'utf8');
        return text.includes(secret) ? null : text;
      },
      10_000,
    );
    expect(renewed).toContain((await controller.client.call('clusterSecret')).secret);
    // The removed machine still holds the old one, and it opens nothing.
    await startJoin(ben, { clusterSecret: secret });
    await waitFor(
      'the removed machine to be refused',
      async () => {
        const { join } = await ben.client.call('self');
        return join?.phase === 'connecting' || join?.error !== null;
      },
      10_000,
    );
    expect((await controller.client.call('nodes')).nodes.map((node) => node.name)).toEqual(['anna']);
  });

  test('with two controllers in sight a machine asks which', async () => {
    network = createNetwork(['desk', 'shelf', 'left']);
    const desk = await cluster.current.startController({ name: 'desk', ...on('desk') });
    await cluster.current.startController({ name: 'shelf', ...on('shelf') });
    const anna = await cluster.current.startWorker({ name: 'anna', ...on('left') });
    await waitFor(
      'both to be found',
      async () => {
        const { machines } = await anna.client.call('discovery');
        return machines.filter((machine) => machine.role === 'controller').length === 2;
      },
      15_000,
    );
    const refused = await anna.client.call('join', { body: {} }).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'controllers_ambiguous' });
    const named = (refused as CoveyError).details.reasons?.map((reason) => reason.message).join() ?? '';
    expect(named).toContain('desk');
    expect(named).toContain('shelf');
    await pair(desk, anna, { controller: 'desk' });
    await untilEligible(desk, 1);
  });
});
