import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ArtifactId, JobId } from '#shared/lib/ids.ts';
import { taskId } from '#shared/lib/ids.ts';
import { runInference } from './run-inference.ts';
import type { InferenceWork } from './request-body.ts';

type Body = Record<string, unknown>;
type Script = (body: Body, response: ServerResponse, path: string) => void;

let directory: string;
let server: Server;
let script: Script;
let asked: Body[];
let refused: number;
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'covey-inference-'));
  asked = [];
  script = (body, response) => response.end(JSON.stringify({ echo: body['prompt'] ?? body['input'] }));
  server = createServer((request, response) => {
    void textOf(request).then((text) => {
      const body = JSON.parse(text) as Body;
      asked.push(body);
      script(body, response, request.url ?? '');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  rmSync(directory, { recursive: true, force: true });
});

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const piece of request as AsyncIterable<Buffer>) text += piece.toString();
  return text;
}

async function run(
  dataset: string | Buffer,
  records: number,
  change: Partial<InferenceWork> = {},
  outputPath = join(directory, 'answers'),
): Promise<Record<string, unknown>[]> {
  const datasetPath = join(directory, 'dataset');
  writeFileSync(datasetPath, dataset);
  refused = await runInference({
    work: {
      kind: 'inference',
      model: 'm',
      task: 'completion',
      dataset: {
        artifact: { id: 'a'.repeat(64) as ArtifactId, kind: 'file', bytes: dataset.length },
        format: 'jsonl',
        recordBytes: null,
        header: false,
      },
      prompt: null,
      system: null,
      parameters: {},
      concurrency: 4,
      ...change,
    },
    assignment: {
      taskId: taskId('j-00000001' as JobId, 0, 1),
      epoch: 1,
      attempt: 1,
      index: 0,
      range: { from: 0, to: records },
      seek: null,
    } as Parameters<typeof runInference>[0]['assignment'],
    datasetPath,
    outputPath,
    dial: () =>
      new Promise((resolve, reject) => {
        const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
        socket.once('connect', () => resolve(socket)).once('error', reject);
      }),
    signal: new AbortController().signal,
    onProgress: () => undefined,
    random: () => 0.5,
  });
  return readFileSync(outputPath, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

const refuse = (response: ServerResponse, status: number, code: string): void => {
  response.statusCode = status;
  response.end(JSON.stringify({ error: { code, message: `no: ${code}`, type: 'x', param: null } }));
};

describe('answers', () => {
  test('keep the order of the records, whatever comes first', async () => {
    script = (body, response) => {
      const number = Number(body['prompt']);
      setTimeout(() => response.end(JSON.stringify({ echo: number })), number % 4 === 0 ? 30 : 1);
    };
    const lines = Array.from({ length: 40 }, (_value, index) => `{"prompt":"${index}"}\n`).join('');
    const found = await run(lines, 40);
    expect(found.map(({ record, response }) => [record, (response as { echo: number }).echo])).toEqual(
      Array.from({ length: 40 }, (_value, index) => [index, index]),
    );
  });

  test('of a file from Windows: a byte order mark and carriage returns are no part of a record', async () => {
    expect(await run('\ufeff{"prompt":"a"}\r\n\r\n{"prompt":"b"}\r\n', 3)).toEqual([
      { record: 0, response: { echo: 'a' } },
      { record: 2, response: { echo: 'b' } },
    ]);
    const text = { artifact: { id: 'a'.repeat(64) as ArtifactId, kind: 'file' as const, bytes: 9 } };
    const dataset = { ...text, format: 'text' as const, recordBytes: null, header: false };
    expect(await run('\ufeffone\r\ntwo', 2, { dataset })).toEqual([
      { record: 0, response: { echo: 'one' } },
      { record: 1, response: { echo: 'two' } },
    ]);
  });

  test('embeddings are asked for where they are made', async () => {
    const paths: string[] = [];
    script = (_body, response, path) => {
      paths.push(path);
      response.end('{"data":[]}');
    };
    expect(await run('{"input":["a","b"],"model":"other"}\n', 1, { task: 'embedding' })).toEqual([
      { record: 0, response: { data: [] } },
    ]);
    expect(paths).toEqual(['/v1/embeddings']);
    expect(asked).toEqual([{ input: ['a', 'b'], model: 'm' }]);
  });
});

describe('a record that is wrong is said to be, and the others are done', () => {
  test('when it is no JSON, no UTF-8, or has not what is asked for', async () => {
    const bytes = Buffer.concat([
      Buffer.from('{"prompt":"a"}\nnonsense\n[1]\n{"x":1}\n{"prompt":"'),
      Buffer.from([0xff, 0xfe]),
      Buffer.from('"}\n{"prompt":"b"}\n'),
    ]);
    const found = await run(bytes, 6);
    expect(found.map(({ record, response, error }) => [record, response ?? (error as Body)['code']])).toEqual(
      [
        [0, { echo: 'a' }],
        [1, 'dataset_invalid'],
        [2, 'dataset_invalid'],
        [3, 'dataset_invalid'],
        [4, 'dataset_invalid'],
        [5, { echo: 'b' }],
      ],
    );
    expect(found[4]?.['error']).toMatchObject({ message: 'record 4 is not UTF-8' });
    expect(asked).toHaveLength(2);
    expect(refused).toBe(4);
  });

  test.each([
    [400, 1],
    [413, 1],
    [422, 1],
    // Engines answer so to messages that a model's template does not take.
    [500, 3],
  ])('when the model answers %i to it, after %i tries', async (status, tries) => {
    script = (body, response) => {
      if (body['prompt'] === 'bad') refuse(response, status, 'server_error');
      else response.end('{}');
    };
    const found = await run('{"prompt":"good"}\n{"prompt":"bad"}\n{"prompt":"good"}\n', 3);
    expect(found.map(({ error }) => error !== undefined)).toEqual([false, true, false]);
    expect(found[1]?.['error']).toMatchObject({ message: 'no: server_error' });
    expect(asked.filter(({ prompt }) => prompt === 'bad')).toHaveLength(tries);
  });
});

describe('what is no fault of a record', () => {
  test.each([429, 502, 503])('is tried again: %i', async (status) => {
    script = (_body, response) => {
      if (asked.length < 2) refuse(response, status, 'not_ready');
      else response.end('{"ok":true}');
    };
    expect(await run('{"prompt":"a"}\n', 1)).toEqual([{ record: 0, response: { ok: true } }]);
    expect(asked).toHaveLength(2);
  });

  test.each([
    [404, 'model_not_found'],
    [403, 'admin_required'],
  ])('ends the attempt at once: %i %s', async (status, code) => {
    script = (_body, response) => refuse(response, status, code);
    await expect(run('{"prompt":"a"}\n{"prompt":"b"}\n', 2)).rejects.toMatchObject({ code });
  });

  test.runIf(process.platform === 'linux')(
    'and answers that cannot be written end it, in place of waiting for ever',
    async () => {
      script = (_body, response) => response.end(JSON.stringify({ text: 'x'.repeat(100_000) }));
      const lines = '{"prompt":"a"}\n'.repeat(50);
      await expect(run(lines, 50, {}, '/dev/full')).rejects.toMatchObject({ code: 'disk_full' });
    },
  );
});
