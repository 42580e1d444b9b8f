import { z } from 'zod';
import { idempotencyKeySchema } from '#shared/api/calls.ts';
import {
  jobListQuerySchema,
  jobLogQuerySchema,
  jobRoutes,
  partitionListQuerySchema,
  taskListQuerySchema,
} from '#shared/api/jobs.ts';
import { jobJsonSchema } from '#shared/domain/job-schema.ts';
import { ApiAnswer, apiGroup } from '../../../nodejs/http/api-group.ts';
import { check } from '../../../nodejs/http/body.ts';
import type { HttpCall } from '../../../nodejs/http/http-call.ts';
import type { RouteGroup } from '../../../nodejs/http/router.ts';
import type { JobService } from '../../jobs/job-service.ts';

const {
  submitJob,
  jobs,
  jobSchema,
  job,
  jobSpec,
  jobStats,
  jobPartitions,
  jobLog,
  cancelJob,
  retryJob,
  removeJob,
  setDistribution,
  tasks,
} = jobRoutes;

/** Jobs, their partitions and tasks, over HTTP. */
export function jobRoutesGroup(service: JobService): RouteGroup {
  return apiGroup(
    {
      submitJob,
      jobs,
      // Before `job`: its path is the more particular one.
      jobSchema,
      job,
      jobSpec,
      jobStats,
      jobPartitions,
      jobLog,
      cancelJob,
      retryJob,
      removeJob,
      setDistribution,
      tasks,
    },
    {
      submitJob: ({ body, call }) => new ApiAnswer(201, service.submit(body, submissionKey(call))),
      jobs: ({ call }) => service.list(query(jobListQuerySchema, call)),
      jobSchema: () => asJson(jobJsonSchema()),
      job: ({ param }) => service.job(param('job')),
      jobSpec: ({ param }) => asJson(service.spec(param('job'))),
      jobStats: ({ param }) => service.stats(param('job')),
      jobPartitions: ({ param, call }) =>
        service.partitions(param('job'), query(partitionListQuerySchema, call)),
      jobLog: ({ param, call, signal }) => service.log(param('job'), query(jobLogQuerySchema, call), signal),
      cancelJob: ({ param }) => service.cancel(param('job')),
      retryJob: ({ param }) => new ApiAnswer(202, service.retry(param('job'))),
      removeJob({ param }) {
        service.remove(param('job'));
        return {};
      },
      setDistribution: ({ param, body }) => service.setDistribution(param('job'), body),
      tasks: ({ call }) => ({ tasks: service.tasks(query(taskListQuerySchema, call)) }),
    },
  );
}

const keyHeaders = z.object({ 'idempotency-key': idempotencyKeySchema.optional() });

function submissionKey({ req }: HttpCall): string | null {
  return check(keyHeaders, req.headers, 'The headers')['idempotency-key'] ?? null;
}

function query<T>(schema: z.ZodType<T>, call: HttpCall): T {
  return check(schema, Object.fromEntries(call.query), 'The query');
}

type Json = z.output<ReturnType<typeof z.json>>;
/** Without what JSON has no word for. */
function asJson(value: unknown): Json {
  return JSON.parse(JSON.stringify(value)) as Json;
}
