import { once } from 'node:events';
import { access, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { hasClosed, refusalOf, until, within } from '../fixtures.ts';
import { startTrio, type Trio } from './trio.ts';

const cleanup: Array<() => unknown> = [];
afterEach(async () => {
  for (const step of cleanup.splice(0).reverse()) await step();
});

async function trioOf(): Promise<Trio> {
  const trio = await startTrio({ routes: ['reverse'], stageListens: false });
  cleanup.push(() => trio.close());
  return trio;
}

function openStream(trio: Trio, grant: string, operation = 1): void {
  trio.controller.host.handle({
    type: 'open-stream',
    operation,
    target: {
      peer: trio.stage.identity.nodeId,
      peerName: 'the laptop',
      addresses: [{ host: '127.0.0.1', port: 1 }],
      timeoutMs: 5_000,
    },
    grant,
  });
}

it('a controller reaches an engine of a member that it cannot dial, by a private socket for one', async () => {
  const trio = await trioOf();
  openStream(trio, trio.grant);
  const { socketPath, path } = await trio.controller.event('stream-open');
  expect(path).toBe('reverse');
  expect(trio.requests.map(({ route }) => route)).toEqual(['reverse']);
  if (process.platform !== 'win32') {
    expect((await stat(dirname(socketPath))).mode & 0o777).toBe(0o700);
  }
  const socket = connect(socketPath);
  cleanup.push(() => socket.destroy());
  await once(socket, 'connect');
  socket.write('a request');
  const [answer] = (await once(socket, 'data')) as [Buffer];
  expect(answer.toString()).toBe('a request');
  // Its name is gone with the first connection.
  await until(() => trio.engine.sockets.size === 1, 'the stream');
  if (process.platform !== 'win32') {
    await within(
      (async () => {
        while (
          await access(dirname(socketPath)).then(
            () => true,
            () => false,
          )
        ) {
          await new Promise((resolve) => setTimeout(resolve, 10));
        }
      })(),
      2_000,
      'the end of the socket',
    );
  }
  const second = connect(socketPath);
  const [error] = (await once(second, 'error')) as [NodeJS.ErrnoException];
  expect(['ENOENT', 'ECONNREFUSED']).toContain(error.code);
  for (const engineEnd of trio.engine.sockets) engineEnd.end();
  await within(hasClosed(socket), 3_000, 'the end of the stream');
});

it('a stream that nobody picks up ends, and a refusal is told as it was said', async () => {
  const trio = await trioOf();
  openStream(trio, 'f'.repeat(64), 7);
  const refused = await refusalOf(
    trio.controller.event(
      'stream-open',
      ({ operation }) => operation === 7,
      (event) => event.type === 'operation-failed',
    ),
  );
  expect(refused.code).toBe('grant_invalid');
  openStream(trio, trio.grant, 8);
  await until(() => trio.engine.sockets.size === 1, 'the stream');
  await until(() => trio.engine.sockets.size === 0, 'its end', 8_000);
}, 20_000);
