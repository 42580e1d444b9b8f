import { cp, readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { runCovey } from '../support/cli.ts';
import { eventsOf } from '../support/events.ts';
import type { RunningNode } from '../support/cluster.ts';
import { untilEligible } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

const cluster = useCluster();
const api = '127.0.0.1:0';
const passphrase = 'correct horse battery staple\n';

/** As copying a disk does; but the lock would name a process that runs here. */
async function copied(node: RunningNode, name: string): Promise<string> {
  const target = path.join(cluster.current.directory, name);
  await cp(node.dataDirectory, target, {
    recursive: true,
    filter: (file) => !/\/(lock|[^/]*\.sock)$/.test(file),
  });
  return target;
}

const notices = async (node: RunningNode) => (await node.client.call('self')).notices;
const trouble = async (node: RunningNode) => (await node.client.call('self')).membership?.trouble ?? null;

describe('a copied data directory', () => {
  test('of a worker is named on both machines and in the events, and repaired by one command', async () => {
    const controller = await cluster.current.startController();
    const anna = await cluster.current.startWorker({ name: 'anna', join: await controller.invite(), api });
    await untilEligible(controller, 1);
    const copy = await cluster.current.startWorker({
      name: 'bert',
      dataDirectory: await copied(anna, 'bert'),
      api,
    });
    expect(copy.report.nodeId).toBe(anna.report.nodeId);

    const both = /anna \(host .*, 127\.0\.0\.1\) and bert \(host .*, 127\.0\.0\.1\).*covey identity new/;
    const refusal = await waitFor(
      'the copy to be refused',
      async () => ((await trouble(copy))?.code === 'identity_in_use' ? trouble(copy) : null),
      20_000,
    );
    expect(refusal.message).toMatch(both);
    const notice = await waitFor(
      'the first to be told',
      async () => (await notices(anna)).find((one) => one.code === 'identity_in_use'),
      10_000,
    );
    expect(notice.message).toMatch(both);
    const told = (await eventsOf(controller)).filter((one) => one.kind === 'security-identity-duplicate');
    expect(told).toHaveLength(1);
    expect(told[0]?.message).toMatch(both);
    await untilEligible(controller, 1);
    expect(await trouble(anna)).toBeNull();

    const running = await runCovey(copy, ['identity', 'new', '--yes']);
    expect(running).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(String(copy.report.pid)) as string,
    });
    await copy.stop();
    const repaired = await runCovey(copy, ['identity', 'new', '--yes']);
    expect(repaired, repaired.stderr).toMatchObject({ code: 0 });
    const own = await cluster.current.startWorker({
      name: 'bert',
      dataDirectory: copy.dataDirectory,
      join: await controller.invite(),
      api,
    });
    expect(own.report.nodeId).not.toBe(anna.report.nodeId);
    await untilEligible(controller, 2);
  });

  test('of a controller is noticed by both from their announcements', async () => {
    const first = await cluster.current.startController({ name: 'hall', discovery: true });
    const copy = await cluster.current.startController({
      name: 'attic',
      dataDirectory: await copied(first, 'attic'),
      discovery: true,
    });
    for (const [node, other] of [
      [first, copy],
      [copy, first],
    ] as const) {
      const notice = await waitFor(
        `${node.name} to notice ${other.name}`,
        async () => (await notices(node)).find((one) => one.code === 'identity_in_use'),
        90_000,
        500,
      );
      expect(notice.message).toContain(`${other.name} at 127.0.0.1:`);
      expect(notice.message).toContain('covey identity new');
    }
  });

  test('is not suspected in a worker that was killed and started again', async () => {
    const controller = await cluster.current.startController();
    let anna = await cluster.current.startWorker({ name: 'anna', join: await controller.invite(), api });
    for (let round = 0; round < 3; round += 1) {
      await untilEligible(controller, 1);
      await anna.crash();
      anna = await cluster.current.startWorker({ name: 'anna', dataDirectory: anna.dataDirectory, api });
      await waitFor(
        'anna to be connected again',
        async () => (await anna.client.call('self')).membership?.connected,
        15_000,
      );
    }
    expect((await eventsOf(controller)).filter((one) => one.kind.startsWith('security-'))).toEqual([]);
  });
});

describe('backup and restore', () => {
  test('a controller comes back on a fresh directory, and workers reconnect without being added again', async () => {
    const controller = await cluster.current.startController({ name: 'hall' });
    const anna = await cluster.current.startWorker({ name: 'anna', join: await controller.invite() });
    await cluster.current.startWorker({ name: 'ben', join: await controller.invite() });
    await untilEligible(controller, 2);
    const file = path.join(cluster.current.directory, 'hall.covey');
    const saved = await runCovey(controller, ['backup', file], { input: passphrase });
    expect(saved, saved.stderr).toMatchObject({ code: 0 });
    expect((await readFile(file, 'latin1')).includes('anna')).toBe(false);
    const known = (await controller.client.call('nodes')).nodes.map(({ id, name }) => [id, name]);
    const clusterAddress = controller.report.clusterAddress ?? '';
    await controller.stop();

    const fresh = { dataDirectory: path.join(cluster.current.directory, 'fresh') };
    const wrong = await runCovey(fresh, ['restore', file], { input: 'incorrect horse battery\n' });
    expect(wrong).toMatchObject({ code: 1, stderr: expect.stringMatching(/passphrase/) as string });
    await expect(readdir(fresh.dataDirectory)).rejects.toThrow();
    const restored = await runCovey(fresh, ['restore', file], { input: passphrase });
    expect(restored, restored.stderr).toMatchObject({ code: 0 });

    const again = await cluster.current.startController({
      name: 'hall',
      cluster: clusterAddress,
      ...fresh,
    });
    expect(again.report.nodeId).toBe(controller.report.nodeId);
    await untilEligible(again, 2, 60_000);
    expect((await again.client.call('nodes')).nodes.map(({ id, name }) => [id, name])).toEqual(known);
    expect(anna.process.hasExited).toBe(false);

    const occupied = await runCovey(again, ['restore', file, '--force'], { input: passphrase });
    expect(occupied).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(String(again.report.pid)) as string,
    });
  });
});
