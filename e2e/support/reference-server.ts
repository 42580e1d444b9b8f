import path from 'node:path';
import { engineDirectory } from './checkout.ts';
import { startProcess } from './managed-process.ts';
import { freePort } from './ports.ts';
import { waitFor } from './wait.ts';

/** One plain llama-server without RPC: what a split must equal. */
export async function startReference(
  model: string,
  args: readonly string[] = [],
): Promise<{ api: string; stop(): Promise<void> }> {
  const port = await freePort();
  const server = startProcess({
    label: 'reference',
    argv: [
      path.join(engineDirectory(), 'llama-server'),
      ...[
        '-m',
        model,
        '--host',
        '127.0.0.1',
        '--port',
        String(port),
        '-ngl',
        '0',
        '-fit',
        'off',
        '-c',
        '8192',
        '-t',
        '1',
      ],
      ...args,
    ],
  });
  const api = `http://127.0.0.1:${port}`;
  await waitFor('the reference server', async () => (await fetch(`${api}/health`)).ok, 60_000);
  return {
    api,
    stop: async () => {
      await server.stop();
    },
  };
}
