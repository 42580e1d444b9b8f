import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { jobViewSchema, type JobView } from '#shared/domain/job.ts';
import type { JobSpec } from '#shared/domain/job-spec.ts';
import { jobJsonSchema } from '#shared/domain/job-schema.ts';
import { CoveyError } from '#shared/errors.ts';
import { exampleJob } from '../../../../e2e/support/job-views.ts';
import { everybody, recordingLogger } from '../../../nodejs/http/fixtures.ts';
import { startHttpServer, type HttpServer } from '../../../nodejs/http/http-server.ts';
import type { JobService } from '../../jobs/job-service.ts';
import { jobRoutesGroup } from './job-routes.ts';

let server: HttpServer;
let calls: [string, ...unknown[]][];
const view: JobView = exampleJob();

beforeEach(async () => {
  calls = [];
  const noted =
    <T>(name: string, answer: T) =>
    (...args: unknown[]): T => {
      calls.push([name, ...args.filter((one) => !(one instanceof AbortSignal))]);
      return answer;
    };
  const service: JobService = {
    submit: noted('submit', view),
    list: noted('list', { jobs: [view], total: 1, more: false }),
    job(ref) {
      if (ref === view.id) return view;
      throw new CoveyError('job_not_found', `There is no job "${ref}".`, { field: 'job' });
    },
    spec: noted('spec', { kind: 'command' } as JobSpec),
    stats: noted('stats', {
      jobId: view.id,
      wallMs: 1,
      cpuMs: null,
      tasks: {},
      partitionMs: null,
      stagedBytes: 0,
      peakBytes: null,
    }),
    partitions: noted('partitions', { partitions: [], total: 0 }),
    log: noted(
      'log',
      Promise.resolve({ taskId: `${view.id}.0.1`, output: '', truncated: false, running: false }),
    ) as JobService['log'],
    cancel: noted('cancel', view),
    retry: noted('retry', view),
    remove: noted('remove', undefined),
    setDistribution: noted('setDistribution', view),
    tasks: noted('tasks', []),
  };
  server = await startHttpServer({
    listen: { loopback: { host: '127.0.0.1', port: 0 } },
    groups: [jobRoutesGroup(service)],
    authenticate: everybody,
    logger: recordingLogger(),
  });
});
afterEach(() => server.close());

async function call(
  method: string,
  path: string,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ status: number; body: unknown }> {
  const answer = await fetch(`http://127.0.0.1:${server.port}/api${path}`, {
    method,
    ...(body === undefined
      ? {}
      : { body: JSON.stringify(body), headers: { 'content-type': 'application/json', ...headers } }),
  });
  return { status: answer.status, body: await answer.json() };
}

describe('the routes of jobs', () => {
  test('a specification gets its defaults and becomes a job', async () => {
    const { status, body } = await call('POST', '/jobs', { kind: 'command', command: ['./x'] });
    expect(status).toBe(201);
    expect(jobViewSchema.parse(body).id).toBe(view.id);
    expect(calls[0]?.[1]).toMatchObject({ partitions: 1, retry: { attempts: 3 }, network: 'none' });
  });

  test('a submission may have a key, which is checked', async () => {
    const spec = { kind: 'command', command: ['./x'] };
    await call('POST', '/jobs', spec, { 'Idempotency-Key': 'a1b2c3d4-0001' });
    await call('POST', '/jobs', spec);
    expect(calls.map(([, , key]) => key)).toEqual(['a1b2c3d4-0001', null]);
    for (const key of ['short', 'with a blank', 'x'.repeat(129)]) {
      const { status, body } = await call('POST', '/jobs', spec, { 'Idempotency-Key': key });
      expect([status, body]).toMatchObject([400, { error: { field: 'idempotency-key' } }]);
    }
  });

  test.each([
    [{ kind: 'nothing' }, 'kind'],
    [{ kind: 'command', command: [1] }, 'command.0'],
    [{ kind: 'command', colour: 'red' }, 'colour'],
  ])('%j is refused: %s', async (spec, field) => {
    const { status, body } = await call('POST', '/jobs', spec);
    expect(status).toBe(400);
    expect(body).toMatchObject({ error: { code: 'invalid_request', field } });
    expect(calls).toEqual([]);
  });

  test('a number that does not fit is refused with its limit, once', async () => {
    const { body } = await call('POST', '/jobs', { kind: 'command', command: ['./x'], partitions: 1e300 });
    const message = 'must be at most 100000';
    const reasons = [{ code: 'too_big', field: 'partitions', message }];
    expect(body).toMatchObject({ error: { message: `partitions: ${message}`, reasons } });
    expect((await call('GET', '/jobs?limit=many')).body).toMatchObject({
      error: { message: 'limit: must be a number', field: 'limit' },
    });
  });

  test('queries are numbers with defaults, others are refused', async () => {
    await call('GET', '/jobs?limit=5&status=done,failed&kind=map&text=sum&from=7');
    await call('GET', `/jobs/${view.id}/partitions?from=3`);
    await call('GET', `/jobs/${view.id}/log?index=2`);
    await call('GET', `/tasks?node=desk`);
    expect(calls).toEqual([
      ['list', { limit: 5, status: ['done', 'failed'], kind: ['map'], text: 'sum', from: 7 }],
      ['partitions', view.id, { from: 3, limit: 200 }],
      ['log', view.id, { index: 2 }],
      ['tasks', { node: 'desk', limit: 200 }],
    ]);
    expect((await call('GET', '/jobs?limit=0')).status).toBe(400);
    expect((await call('GET', '/jobs?status=bored')).body).toMatchObject({ error: { field: 'status.0' } });
    expect((await call('GET', '/tasks?job=x')).body).toMatchObject({ error: { field: 'job' } });
  });

  test('the schema is no job of that name', async () => {
    expect((await call('GET', '/jobs/schema')).body).toEqual(JSON.parse(JSON.stringify(jobJsonSchema())));
    expect((await call('GET', '/jobs/other')).status).toBe(404);
  });

  test('changes', async () => {
    const shares = { mode: 'manual', shares: [{ node: 'desk', percent: 10 }] };
    expect((await call('PUT', `/jobs/${view.id}/distribution`, shares)).status).toBe(200);
    expect((await call('PUT', `/jobs/${view.id}/distribution`, { mode: 'manual' })).status).toBe(400);
    expect((await call('POST', `/jobs/${view.id}/cancel`)).status).toBe(200);
    expect((await call('POST', `/jobs/${view.id}/retry`)).status).toBe(202);
    expect((await call('DELETE', `/jobs/${view.id}`)).body).toEqual({});
    expect(calls.map(([name]) => name)).toEqual(['setDistribution', 'cancel', 'retry', 'remove']);
    expect(calls[0]).toEqual(['setDistribution', view.id, shares]);
  });
});
