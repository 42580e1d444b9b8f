import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { predictText } from '../../src-worker/models/predictable.ts';
import { heavyModel, predictableModel, storiesModel } from '../support/models.ts';
import { createNetwork, netnsMissing, removeLeftoverNetworks, type Network } from '../support/netns.ts';
import { complete, postLongCompletion, readStream } from '../support/openai-http.ts';
import {
  loadReady,
  startSplitCluster,
  untilEligible,
  untilStatus,
  type SplitCluster,
} from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

const missing = netnsMissing();
const cluster = useCluster();
const prompt = 'Once upon a time';

describe.skipIf(missing)(`machines with addresses of their own${missing ? ` (${missing})` : ''}`, () => {
  let network: Network;
  beforeAll(() => removeLeftoverNetworks());
  afterEach(async () => {
    await cluster.current.close().catch(() => undefined);
    await network.destroy();
  });
  afterAll(() => removeLeftoverNetworks());

  const start = (): Promise<SplitCluster> => {
    network = createNetwork(['desk', 'left', 'right', 'stranger']);
    const { desk, left, right } = network.hosts;
    return startSplitCluster(cluster.current, {
      controller: { ...(desk ? { host: desk } : {}), api: '127.0.0.1:0' },
      anna: { ...(left ? { host: left } : {}), api: '127.0.0.1:0' },
      ben: right ? { host: right } : {},
    });
  };
  const host = (name: string) => {
    const found = network.hosts[name];
    if (!found) throw new Error(`no host ${name}`);
    return found;
  };

  test('a model split over two of them answers, also through the worker that has no controller', async () => {
    const { controller, anna } = await start();
    const stories = storiesModel();
    const file = stories ?? (await predictableModel());
    const { id, model } = await loadReady(controller, file);
    await waitFor(
      'the path of the link to be known',
      async () =>
        (await controller.client.call('deployment', { params: { id } })).stages.some(
          (stage) => stage.path === 'direct',
        ),
      5_000,
    );
    const text = await complete(controller.api, model, prompt, 60);
    if (stories) expect(text).toMatch(/^, there was a little girl named Lily\./);
    else expect(text).toBe(predictText(prompt, 60));
    expect(await complete(anna.api ?? '', model, prompt, 60)).toBe(text);
  });

  test('a stranger gets handshake failures on the cluster port and nothing on any other', async () => {
    const { controller, anna, ben } = await start();
    await loadReady(controller, await predictableModel());
    const stranger = host('stranger');
    for (const [name, node] of [
      ['desk', controller],
      ['left', anna],
      ['right', ben],
    ] as const) {
      // The API listens on both loopback addresses, the cluster port on all.
      const ports = node.ports();
      const loopback = new Set(ports.filter((port) => port.host === '127.0.0.1').map((port) => port.port));
      const open = ports.map((port) => port.port).filter((port) => !loopback.has(port));
      expect([...new Set(open)]).toEqual([7879]);
      const scan = stranger.run(
        [
          'bash',
          '-c',
          `for p in $(seq 1 200) 7878 7879 $(seq 30000 97 60000); do (exec 3<>/dev/tcp/${host(name).address}/$p) 2>/dev/null && echo open $p; done; true`,
        ],
        60_000,
      );
      expect(scan.stdout.trim()).toBe('open 7879');
    }
    const address = host('desk').address;
    const plain = stranger.run([
      'bash',
      '-c',
      `exec 3<>/dev/tcp/${address}/7879; printf 'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; timeout 5 cat <&3 | od -c | head -3`,
    ]);
    expect(plain.stdout).not.toMatch(/H\s+T\s+T\s+P/);
    const tls = (alpn: string): string => {
      const { stdout, stderr } = stranger.run([
        'bash',
        '-c',
        `printf 'hello' | timeout 5 openssl s_client -connect ${address}:7879 ${alpn} -quiet 2>&1 | tail -c 600`,
      ]);
      return stdout + stderr;
    };
    for (const alpn of ['', '-alpn h2', '-alpn covey-session', '-alpn covey-tunnel', '-alpn covey-http']) {
      expect(tls(alpn)).not.toMatch(/refused|welcome|\{"/);
    }
  });

  test('a cable that is pulled during decode: error, loss, and it loads again when it is back', async () => {
    const { controller, anna, ben } = await start();
    const before = await loadReady(controller, await heavyModel());
    const stream = postLongCompletion(controller.api, before.model);
    await stream.received(2_000);
    const pulledAt = Date.now();
    host('right').unplug();
    const answer = await stream.done;
    expect(Date.now() - pulledAt).toBeLessThan(12_000);
    expect(answer.cut).toBe(false);
    expect(readStream(answer.body).error).toMatchObject({ type: 'server_error' });
    const view = await untilStatus(controller, before.id, 'waiting', 30_000);
    expect(view.failures[0]?.error.message).toMatch(/ben/);
    await waitFor('the leader to be free', () => anna.engines().length === 0, 20_000);
    await waitFor(
      'ben to be lost',
      async () => (await controller.client.call('node', { params: { node: 'ben' } })).status === 'lost',
      30_000,
    );
    host('right').plug();
    await untilEligible(controller, 2, 40_000);
    await untilStatus(controller, before.id, 'ready', 60_000);
    await waitFor('one stage only', () => ben.engines().length === 1, 10_000);
    await complete(controller.api, before.model, 'once', 4);
  });
});
