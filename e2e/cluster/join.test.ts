import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { decodeJoinString, encodeJoinString } from '../../src-main/nodejs/join-string.ts';
import { NodeEnded } from '../support/cluster.ts';
import { untilEligible } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

const cluster = useCluster();

describe('joining', () => {
  const tampered = (
    joinString: string,
    change: (content: { secret: string; controllerId: string; expiresAt: number }) => object,
  ): string => {
    const content = decodeJoinString(joinString);
    if (!content.ok) throw content.error;
    return encodeJoinString({ ...content.value, ...change(content.value) });
  };
  const flip = (hex: string): string => (hex.startsWith('0') ? '1' : '0') + hex.slice(1);

  test.each([
    [
      'a wrong secret',
      (join: string) => tampered(join, ({ secret }) => ({ secret: flip(secret) })),
      /not one of this controller/,
    ],
    [
      'another controller key',
      (join: string) => tampered(join, ({ controllerId }) => ({ controllerId: flip(controllerId) })),
      /key|controller/i,
    ],
    ['a damaged string', (join: string) => join.slice(0, -20), /join string/],
    ['something else', () => 'hello', /join string/],
  ])('%s is refused in a sentence', async (_name, change, sentence) => {
    const controller = await cluster.current.startController();
    const join = change(await controller.invite());
    const outcome = cluster.current.startWorker({ name: 'anna', join });
    await expect(outcome).rejects.toBeInstanceOf(NodeEnded);
    const { output } = (await outcome.catch((error: unknown) => error)) as NodeEnded;
    expect(output).toMatch(sentence);
    expect(output).not.toMatch(/at .*\.js:\d+/);
    expect((await controller.client.call('nodes')).nodes).toEqual([]);
  });

  test('a join string works once', async () => {
    const controller = await cluster.current.startController();
    const join = await controller.invite();
    await cluster.current.startWorker({ name: 'anna', join });
    const second = cluster.current.startWorker({ name: 'ben', join });
    await expect(second).rejects.toThrow(/used already/);
    await untilEligible(controller, 1);
    expect((await controller.client.call('nodes')).nodes.map((node) => node.name)).toEqual(['anna']);
  });

  test('a machine whose name is taken calls itself as the covey does, until it leaves', async () => {
    const controller = await cluster.current.startController();
    await cluster.current.startWorker({ name: 'attic', join: await controller.invite() });
    const second = await cluster.current.startWorker({
      name: 'attic',
      join: await controller.invite(),
      api: '127.0.0.1:0',
    });
    const name = async () => (await second.client.call('self')).name;
    await waitFor('the new name', async () => (await name()) === 'attic-2', 10_000);
    await second.client.call('leave', { timeoutMs: 30_000 });
    expect(await name()).toBe('attic');
  });

  test('a member that starts again needs no string, and an old one does not stop it', async () => {
    const controller = await cluster.current.startController();
    const join = await controller.invite();
    const anna = await cluster.current.startWorker({ name: 'anna', join });
    await untilEligible(controller, 1);
    await anna.stop();
    await waitFor(
      'anna to be offline',
      async () => (await controller.client.call('node', { params: { node: 'anna' } })).status === 'offline',
      5_000,
    );
    await cluster.current.startWorker({ name: 'anna', join, dataDirectory: anna.dataDirectory });
    await untilEligible(controller, 1);
  });

  test('a machine that never joined says what to do', async () => {
    await expect(cluster.current.startWorker({ name: 'anna' })).rejects.toThrow(/covey invite/);
  });

  test('keys are for their owner alone, and no secret stands in the log', async () => {
    const controller = await cluster.current.startController();
    const join = await controller.invite();
    const anna = await cluster.current.startWorker({ name: 'anna', join });
    for (const node of [controller, anna]) {
      expect((await stat(node.dataDirectory)).mode & 0o777).toBe(0o700);
      expect((await stat(path.join(node.dataDirectory, 'identity', 'key.pem'))).mode & 0o777).toBe(0o600);
    }
    const content = decodeJoinString(join);
    const secret = content.ok ? content.value.secret : '';
    expect(secret).toHaveLength(64);
    for (const node of [controller, anna]) expect(node.process.output()).not.toContain(secret);
    expect((await readFile(path.join(controller.dataDirectory, 'covey.db'))).includes(secret)).toBe(false);
  });

  test('the same data directory twice, and a port that is taken, are named', async () => {
    const controller = await cluster.current.startController();
    await expect(
      cluster.current.startController({ dataDirectory: controller.dataDirectory }),
    ).rejects.toThrow(new RegExp(`in use by process ${controller.report.pid}`));
    const taken = new URL(controller.api).port;
    await expect(cluster.current.startController({ api: `127.0.0.1:${taken}` })).rejects.toThrow(
      new RegExp(taken),
    );
    await expect(
      cluster.current.startController({ cluster: controller.report.clusterAddress ?? '' }),
    ).rejects.toThrow(new RegExp((controller.report.clusterAddress ?? '').split(':')[1] ?? '?'));
  });

  test('a controller that lends its own machine serves alone', async () => {
    const controller = await cluster.current.startController({ args: ['--lend'], name: 'home' });
    await untilEligible(controller, 1);
    const { nodes } = await controller.client.call('nodes');
    expect(nodes).toMatchObject([{ name: 'home', id: controller.report.nodeId, status: 'ready' }]);
    await expect(controller.client.call('removeNode', { params: { node: 'home' } })).rejects.toThrow(
      /restart without --lend/,
    );
    await controller.stop();

    const { dataDirectory } = controller;
    const apart = await cluster.current.startController({ dataDirectory, name: 'home' });
    expect(await apart.client.call('nodes')).toEqual({ nodes: [] });
    await apart.stop();

    const again = await cluster.current.startController({ dataDirectory, args: ['--lend'], name: 'home' });
    await untilEligible(again, 1);
  });
});
