import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import tar from 'tar-stream';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { JobResult } from '#shared/domain/job.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { doneJob, exampleJob, exampleJobId } from '../../../../e2e/support/job-views.ts';
import { everybody, recordingLogger } from '../../../nodejs/http/fixtures.ts';
import { startHttpServer, type HttpServer } from '../../../nodejs/http/http-server.ts';
import type { ArtifactService } from '../../artifacts/artifact-service.ts';
import { artifactRoutesGroup } from './artifact-routes.ts';

let directory: string;
let server: HttpServer;
let result: JobResult | null;
const idOf = (content: string): ArtifactId =>
  createHash('sha256').update(content).digest('hex') as ArtifactId;
const treeId = 'e'.repeat(64) as ArtifactId;
const fileOf = (content: string) => ({ id: idOf(content), kind: 'file' as const, bytes: content.length });

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-results-'));
  for (const content of ['one', 'two, longer', '#!'])
    await writeFile(join(directory, idOf(content)), content);
  const artifacts: Pick<ArtifactService, 'open' | 'filePath'> = {
    filePath: (id) => join(directory, id),
    open: async (ref) => ({
      row: { id: ref } as Awaited<ReturnType<ArtifactService['open']>>['row'],
      manifest: {
        version: 1,
        entries: [
          { type: 'directory', path: 'bin' },
          { type: 'file', path: 'bin/run', bytes: 2, sha256: idOf('#!'), executable: true },
        ],
      },
    }),
  };
  server = await startHttpServer({
    listen: { loopback: { host: '127.0.0.1', port: 0 } },
    groups: [
      artifactRoutesGroup(artifacts as ArtifactService, {
        job(ref) {
          if (ref === exampleJobId) return doneJob({ name: 'render', kind: 'command', result });
          if (ref === 'running') return exampleJob();
          throw new CoveyError('job_not_found', `There is no job "${ref}".`);
        },
      }),
    ],
    authenticate: everybody,
    logger: recordingLogger(),
  });
});
afterEach(async () => {
  await server.close();
  await rm(directory, { recursive: true });
});

const get = (job: string, query = '') =>
  fetch(`http://127.0.0.1:${server.port}/api/jobs/${job}/results${query}`);

test('all results of a job come as one tar, under safe names, folders with what they hold', async () => {
  const artifacts = [
    { ...fileOf('one'), name: '0/frame.png' },
    { ...fileOf('two, longer'), name: '../frame.png' },
    { id: treeId, kind: 'tree' as const, bytes: 2, name: '2/tools' },
  ];
  result = { value: null, artifacts, missing: 0 };
  const answer = await get(exampleJobId);
  expect(answer.status).toBe(200);
  expect(answer.headers.get('content-type')).toBe('application/x-tar');
  expect(answer.headers.get('content-disposition')).toBe("attachment; filename*=UTF-8''render.tar");
  const extract = tar.extract();
  Readable.from(Buffer.from(await answer.arrayBuffer())).pipe(extract);
  const found: Array<[name: string, mode: number | undefined, content: string]> = [];
  for await (const entry of extract) {
    found.push([entry.header.name, entry.header.mode, await text(entry)]);
  }
  expect(found).toEqual([
    ['0/frame.png', 0o644, 'one'],
    ['__/frame.png', 0o644, 'two, longer'],
    ['2/tools', 0o755, ''],
    ['2/tools/bin', 0o755, ''],
    ['2/tools/bin/run', 0o755, '#!'],
  ]);
});

test('a job without files, one that is not there, and too many files have their answer before anything is sent', async () => {
  const codes = async (job: string, query = ''): Promise<unknown[]> => {
    const answer = await get(job, query);
    return [answer.status, ((await answer.json()) as { error: { code: string } }).error.code];
  };
  result = { value: 1, artifacts: [], missing: 0 };
  expect(await codes(exampleJobId)).toEqual([404, 'artifact_not_found']);
  result = null;
  expect(await codes(exampleJobId)).toEqual([404, 'artifact_not_found']);
  expect(await codes('j-00000000')).toEqual([404, 'job_not_found']);
  expect(await codes('running')).toEqual([409, 'job_not_finished']);
  for (const query of ['?x=1', '?partition=-1'])
    expect(await codes(exampleJobId, query)).toEqual([400, 'invalid_request']);
  const many = Array.from({ length: 20_001 }, (_value, index) => ({ ...fileOf('one'), name: `${index}/o` }));
  result = { value: null, artifacts: many, missing: 0 };
  expect(await codes(exampleJobId)).toEqual([413, 'job_too_large']);
});
