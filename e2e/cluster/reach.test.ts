import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { NodeOptions, RunningController, RunningNode } from '../support/cluster.ts';
import { predictText } from '../../src-worker/models/predictable.ts';
import { untilEvent } from '../support/events.ts';
import { predictableModel } from '../support/models.ts';
import {
  createNetwork,
  netnsMissing,
  removeLeftoverNetworks,
  type Host,
  type Network,
} from '../support/netns.ts';
import { complete } from '../support/openai-http.ts';
import { pair } from '../support/pairing.ts';
import { loadReady, untilEligible, untilStatus } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

const missing = netnsMissing();
const cluster = useCluster();
const prompt = 'Once upon a time';

/** New inbound connections are dropped; answers to those that the machine opened itself come through. */
const outboundOnly = [
  'input iif lo accept',
  'input ct state established,related accept',
  'input udp dport 5353 accept',
  'input drop',
];
const noMulticast = ['input ip daddr 224.0.0.0/4 drop', 'output ip daddr 224.0.0.0/4 drop'];

describe.skipIf(missing)(`machines that find and reach each other${missing ? ` (${missing})` : ''}`, () => {
  let network: Network;
  beforeAll(() => removeLeftoverNetworks());
  afterEach(async () => {
    await cluster.current.close().catch(() => undefined);
    await network.destroy();
  });
  afterAll(() => removeLeftoverNetworks());

  const host = (name: string): Host => {
    const found = network.hosts[name];
    if (!found) throw new Error(`no host ${name}`);
    return found;
  };
  const start = async (
    prepare: () => void = () => undefined,
  ): Promise<{ controller: RunningController; anna: RunningNode; ben: RunningNode }> => {
    network = createNetwork(['desk', 'left', 'right']);
    prepare();
    const on = (name: string): NodeOptions => ({ host: host(name), discovery: true, api: '127.0.0.1:0' });
    const controller = await cluster.current.startController(on('desk'));
    const anna = await cluster.current.startWorker({ name: 'anna', ...on('left') });
    const ben = await cluster.current.startWorker({ name: 'ben', ...on('right') });
    return { controller, anna, ben };
  };
  const found = async (by: RunningNode, whom: RunningNode): Promise<boolean> => {
    const { machines } = await by.client.call('discovery');
    return machines.some((machine) => machine.nodeId === whom.report.nodeId && machine.verified);
  };
  const answers = async (controller: RunningController): Promise<string> => {
    const { id } = await loadReady(controller, await predictableModel());
    const { model } = await controller.client.call('deployment', { params: { id } });
    expect(await complete(controller.api, model, prompt, 40)).toBe(predictText(prompt, 40));
    return id;
  };
  const pathOf = async (controller: RunningController, id: string): Promise<string> =>
    waitFor(
      'the path of the stage to be known',
      async () => {
        const { stages } = await controller.client.call('deployment', { params: { id } });
        return stages.find((stage) => stage.role === 'stage')?.path ?? null;
      },
      10_000,
    );

  test('they find each other both ways, are approved by their number, and answer together', async () => {
    const { controller, anna, ben } = await start();
    await pair(controller, anna);
    await pair(controller, ben);
    await untilEligible(controller, 2);
    for (const [by, whom] of [
      [controller, anna],
      [anna, controller],
      [anna, ben],
    ] as const) {
      await waitFor(`${by.name} to find ${whom.name}`, () => found(by, whom), 15_000);
    }
    const id = await answers(controller);
    expect(await pathOf(controller, id)).toBe('direct');
    await untilEvent(controller, 'audit-join-approved', /anna/);
    await untilEvent(controller, 'node-joined', /anna/);
  });

  test('with multicast dropped they are added by address', async () => {
    const { controller, anna, ben } = await start(() => {
      for (const name of ['desk', 'left', 'right']) host(name).firewall(noMulticast);
    });
    await expect(anna.client.call('join', { body: {} })).rejects.toMatchObject({
      code: 'controller_not_found',
    });
    await pair(controller, anna, { controller: host('desk').address });
    await pair(controller, ben, { controller: `${host('desk').address}:7879` });
    await untilEligible(controller, 2);
    await answers(controller);
  });

  test('workers that can only dial out are full members: reverse where one side can be dialled, else relayed', async () => {
    const { controller, anna, ben } = await start(() => host('right').firewall(outboundOnly));
    await pair(controller, anna);
    await pair(controller, ben);
    await untilEligible(controller, 2);
    const first = await answers(controller);
    expect(await pathOf(controller, first)).toBe('reverse');
    await controller.client.call('unload', { params: { id: first } });
    await waitFor(
      'the model to be gone',
      async () => {
        const { deployments } = await controller.client.call('deployments');
        return deployments.length === 0;
      },
      20_000,
    );
    // Now the leader cannot be dialled either, not even by the controller's gateway.
    host('left').firewall(outboundOnly);
    const second = await answers(controller);
    expect(await pathOf(controller, second)).toBe('relay');
    const { links } = await controller.client.call('links');
    const relayed = links.find(
      (link) => link.from === anna.report.nodeId && link.to === ben.report.nodeId && link.path === 'relay',
    );
    expect(relayed?.rttMs).toBeGreaterThan(0);
  });

  test('a worker whose address changes while a model is loaded heals by itself', async () => {
    const { controller, anna, ben } = await start();
    await pair(controller, anna);
    await pair(controller, ben);
    await untilEligible(controller, 2);
    const id = await answers(controller);
    host('right').move('10.77.0.77');
    await waitFor(
      'the worker to be seen at its new address',
      async () =>
        (await controller.client.call('nodes')).nodes.some(
          (node) => node.name === 'ben' && node.connected && node.address?.includes('10.77.0.77'),
        ),
      40_000,
    );
    await waitFor(
      'the model to be loaded again over the new address',
      async () => {
        const view = await controller.client.call('deployment', { params: { id } });
        return view.status === 'ready' && (view.epoch > 1 || null);
      },
      60_000,
    );
    await untilStatus(controller, id, 'ready');
    const { model } = await controller.client.call('deployment', { params: { id } });
    expect(await complete(controller.api, model, prompt, 40)).toBe(predictText(prompt, 40));
    expect(ben.process.hasExited).toBe(false);
  });

  test('a controller whose address changes is found again', async () => {
    const { controller, anna } = await start();
    await pair(controller, anna);
    await untilEligible(controller, 1);
    host('desk').move('10.77.0.99');
    await waitFor(
      'the worker to be back',
      async () =>
        (await anna.client.call('self')).membership?.addresses.some((one) => one.host === '10.77.0.99'),
      60_000,
    );
    await untilEligible(controller, 1);
  });

  test.each([
    ['reverse', ['right'], false],
    ['relay', ['left', 'right'], true],
  ] as const)(
    'when the controller is killed, a model with a %s stage is there after its restart',
    async (way, shut, reloads) => {
      const { controller, anna, ben } = await start(() => {
        for (const name of shut) host(name).firewall(outboundOnly);
      });
      await pair(controller, anna);
      await pair(controller, ben);
      await untilEligible(controller, 2);
      const id = await answers(controller);
      expect(await pathOf(controller, id)).toBe(way);
      await controller.crash();
      const again = await cluster.current.startController({
        host: host('desk'),
        discovery: true,
        api: '127.0.0.1:0',
        name: 'again',
        dataDirectory: controller.dataDirectory,
      });
      const view = await waitFor(
        'the model to serve again',
        async () => {
          const found = await again.client.call('deployment', { params: { id } });
          return found.status === 'ready' && (!reloads || found.epoch > 1) ? found : null;
        },
        60_000,
      );
      if (!reloads) expect(view.epoch).toBe(1);
      expect(await complete(again.api, view.model, prompt, 40)).toBe(predictText(prompt, 40));
    },
  );

  test('two machines on one cable, with link-local addresses, no route and another adapter first', async () => {
    network = createNetwork(['desk', 'left']);
    for (const [name, address] of [
      ['desk', '169.254.10.1'],
      ['left', '169.254.20.2'],
    ] as const) {
      const one = host(name);
      one.run(['ip', 'link', 'add', 'docker0', 'type', 'dummy']);
      one.run(['ip', 'address', 'add', '172.17.0.1/16', 'dev', 'docker0']);
      one.run(['ip', 'link', 'set', 'docker0', 'up']);
      one.run(['ip', 'address', 'flush', 'dev', 'eth0']);
      one.run(['ip', 'address', 'add', `${address}/16`, 'dev', 'eth0']);
    }
    const on = (name: string): NodeOptions => ({ host: host(name), discovery: true, api: '127.0.0.1:0' });
    const controller = await cluster.current.startController({ ...on('desk'), args: ['--lend'] });
    const anna = await cluster.current.startWorker({ name: 'anna', ...on('left') });
    await pair(controller, anna);
    await untilEligible(controller, 2);
    const { id } = await loadReady(controller, await predictableModel(), {
      nodes: [controller.name, 'anna'],
      split: { [controller.name]: 50, anna: 50 },
      leader: controller.name,
    });
    expect(await pathOf(controller, id)).toBe('direct');
    const { model } = await controller.client.call('deployment', { params: { id } });
    expect(await complete(controller.api, model, prompt, 40)).toBe(predictText(prompt, 40));
  });
});
