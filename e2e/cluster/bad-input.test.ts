import { mkdir, open, readFile, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { encodeTestModelLargerThanMemory } from '../support/huge-model.ts';
import { predictableModel } from '../support/models.ts';
import { complete } from '../support/openai-http.ts';
import {
  load,
  loadReady,
  startSplitCluster,
  untilStatus,
  type SplitCluster,
} from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

const cluster = useCluster('file');

describe('what cannot be loaded is refused by name and leaves nothing behind', () => {
  let split: SplitCluster;
  let directory: string;
  beforeAll(async () => {
    split = await startSplitCluster(cluster.current);
    directory = path.join(cluster.current.directory, 'models');
    await mkdir(directory);
  });

  const refused = async (request: Promise<unknown>, code: string, message: RegExp): Promise<void> => {
    await expect(request).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
    const { deployments } = await split.controller.client.call('deployments');
    expect(deployments).toEqual([]);
    expect([...split.anna.engines(), ...split.ben.engines()]).toEqual([]);
  };

  test('a path that does not exist', () =>
    refused(
      load(split.controller, '/no/such/model.gguf'),
      'model_file_not_found',
      /\/no\/such\/model\.gguf/,
    ));

  test('a path as long as one may be: the machine says so and stays connected', async () => {
    const long = `/${'b'.repeat(4_090)}.gguf`;
    expect(long.length).toBe(4_096);
    await refused(load(split.controller, long), 'model_file_not_found', /^[^]{1,4096}$/);
    const { id } = await split.controller.client.call('importModel', { body: { path: long, node: 'anna' } });
    const ended = await waitFor(
      'the import to end',
      async () => {
        const transfer = await split.controller.client.call('transfer', { params: { id } });
        return transfer.status !== 'running' && transfer;
      },
      20_000,
    );
    expect(ended).toMatchObject({ status: 'failed', error: { code: expect.stringMatching(/^model_file_/) } });
    const { nodes } = await split.controller.client.call('nodes');
    expect(nodes.map((node) => [node.name, node.eligible])).toEqual(
      expect.arrayContaining([
        ['anna', true],
        ['ben', true],
      ]),
    );
    const { events } = await split.controller.client.call('eventHistory', { query: { limit: '200' } });
    expect(events.filter(({ kind }) => kind === 'session-closed')).toEqual([]);
    expect(events.map(({ kind }) => kind)).toContain('transfer-failed');
  });

  test('a truncated GGUF', async () => {
    const file = path.join(directory, 'truncated.gguf');
    const whole = await readFile(await predictableModel());
    await writeFile(file, whole.subarray(0, Math.floor(whole.length * 0.7)));
    await refused(load(split.controller, file), 'model_truncated', new RegExp(String(whole.length)));
  });

  test('a model with far more bytes than its tensors have', async () => {
    const file = path.join(directory, 'padded.gguf');
    await writeFile(file, await readFile(await predictableModel()));
    await truncate(file, 500 * 2 ** 30);
    await refused(load(split.controller, file), 'model_invalid', /500|536870912000/);
  });

  test('a name with control characters', async () => {
    const body = { name: 'a\u001b[31mb' };
    await refused(load(split.controller, await predictableModel(), body), 'invalid_request', /name/);
  });

  test('a text file that is called .gguf', async () => {
    const file = path.join(directory, 'text.gguf');
    await writeFile(file, 'This is a text file.\n'.repeat(100));
    await refused(load(split.controller, file), 'model_not_gguf', /GGUF/);
  });

  test('a model larger than all memory', async () => {
    const file = path.join(directory, 'huge.gguf');
    await encodeTestModelLargerThanMemory(file);
    await refused(load(split.controller, file), 'placement_refused', /GB|GiB|TB|TiB/);
  });

  test.each([
    ['a share of nothing', { split: { anna: 100, ben: 0 } }, 'invalid_request', /ben.*0/],
    ['a negative share', { split: { anna: 110, ben: -10 } }, 'invalid_request', /ben.*-10/],
    ['less than one layer', { split: { anna: 1000, ben: 1 } }, 'placement_refused', /ben.*layer/],
    [
      'machines that do not exist',
      { nodes: ['anna', 'cleo'], split: { anna: 1, cleo: 1 } },
      'node_not_found',
      /cleo.*anna, ben/,
    ],
    [
      'a share for a machine outside the list',
      { nodes: ['anna'], split: { anna: 1, ben: 1 } },
      'invalid_request',
      /ben/,
    ],
    ['a leader that does not exist', { leader: 'cleo' }, 'node_not_found', /cleo/],
    ['one machine twice', { nodes: ['anna', 'anna'], split: { anna: 1 } }, 'invalid_request', /twice/],
  ])('%s', async (_name, body, code, message) => {
    await refused(load(split.controller, await predictableModel(), body), code, message);
  });

  test('a context that is out of bounds names the field', async () => {
    await refused(
      load(split.controller, await predictableModel(), { contextPerRequest: 3 }),
      'invalid_request',
      /contextPerRequest/,
    );
  });

  test('a second load of the same model is the same deployment, with other settings it is refused', async () => {
    const model = await predictableModel();
    const first = await loadReady(split.controller, model);
    expect((await load(split.controller, model)).id).toBe(first.id);
    await expect(load(split.controller, model, { split: { anna: 1, ben: 2 } })).rejects.toMatchObject({
      code: 'already_loaded',
    });
    await complete(split.controller.api, first.model, 'Once', 4);
    await expect(split.controller.client.call('retry', { params: { id: first.id } })).rejects.toMatchObject({
      code: 'already_loaded',
      message: expect.stringContaining('ready'),
    });
    await split.controller.client.call('unload', { params: { id: first.id } });
    await untilNothingRuns();
  });

  test('unload during load ends everything that was started', async () => {
    const { id } = await load(split.controller, await predictableModel());
    await split.controller.client.call('unload', { params: { id } });
    await untilNothingRuns();
    await loadReady(split.controller, await predictableModel()).then(({ id: next }) =>
      split.controller.client.call('unload', { params: { id: next } }),
    );
    await untilNothingRuns();
  });

  test('a file that vanishes between the check and the load fails with a reason', async () => {
    const file = path.join(directory, 'fleeting.gguf');
    await writeFile(file, await readFile(await predictableModel()));
    const { id } = await load(split.controller, file);
    const handle = await open(file, 'w');
    await handle.close();
    const view = await untilStatus(split.controller, id, 'failed').catch(() => null);
    // Whoever was faster: either the engine had it mapped already, or the load failed and says why.
    if (view) expect(view.reason?.message).toBeTruthy();
    await split.controller.client.call('unload', { params: { id } });
    await untilNothingRuns();
  });

  const untilNothingRuns = (): Promise<unknown> =>
    waitFor(
      'nothing to run any more',
      async () => {
        const { deployments } = await split.controller.client.call('deployments');
        return (
          deployments.length === 0 && split.anna.engines().length === 0 && split.ben.engines().length === 0
        );
      },
      20_000,
    );
});
