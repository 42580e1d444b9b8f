import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { z } from 'zod';
import { artifactListQuerySchema, jobRoutes, uploadBodySchema } from '#shared/api/jobs.ts';
import { ARTIFACT_CHUNK_BYTES, type TreeManifest } from '#shared/domain/artifact.ts';
import { CoveyError } from '#shared/errors.ts';
import { artifactIdSchema } from '#shared/lib/ids.ts';
import { apiGroup } from '../../../nodejs/http/api-group.ts';
import { BodyBudget, check, readBody, readJson } from '../../../nodejs/http/body.ts';
import type { HttpCall } from '../../../nodejs/http/http-call.ts';
import { respondJson } from '../../../nodejs/http/respond.ts';
import type { RouteGroup } from '../../../nodejs/http/router.ts';
import type { ArtifactService } from '../../artifacts/artifact-service.ts';
import type { JobService } from '../../jobs/job-service.ts';
import { resultsFolder } from './job-results.ts';

/** A tree of 100,000 files, or the chunks of some terabytes. */
const uploadBytes = 64 * 1024 * 1024;
/** Bodies that are held at one time: announcements and chunks. */
const budgetBytes = 256 * 1024 * 1024;

/** Artifacts over HTTP. Bytes go in by chunks and come out as files or tar, those of a job's result together too. */
export function artifactRoutesGroup(artifacts: ArtifactService, jobs: Pick<JobService, 'job'>): RouteGroup {
  const budget = new BodyBudget(budgetBytes);
  const {
    artifacts: list,
    artifact,
    finishUpload,
    removeArtifact,
    collectArtifacts,
    startUpload,
  } = jobRoutes;
  const table = { list, artifact, finishUpload, removeArtifact, collectArtifacts };
  const group = apiGroup(table, {
    list: ({ call }) =>
      artifacts.list(check(artifactListQuerySchema, Object.fromEntries(call.query), 'The query')),
    artifact: ({ param }) => artifacts.view(artifacts.resolve(param('artifact')).id),
    finishUpload: ({ param, signal }) => artifacts.finishUpload(param('id'), signal),
    removeArtifact({ param }) {
      artifacts.remove(param('artifact'));
      return {};
    },
    collectArtifacts: () => artifacts.collectNow(),
  });
  return {
    ...group,
    routes: [
      ...group.routes,
      {
        ...startUpload,
        async handle({ req, res }) {
          respondJson(
            res,
            200,
            await artifacts.startUpload(await readJson(req, res, uploadBytes, uploadBodySchema, budget)),
          );
        },
      },
      {
        method: 'PUT',
        path: '/api/artifacts/uploads/:id/chunks/:sha256',
        access: 'admin',
        bytes: true,
        async handle({ req, res, params }) {
          const { id, sha256 } = check(chunkPath, params, 'The path');
          const pieces = await readBody(req, res, { limitBytes: ARTIFACT_CHUNK_BYTES, budget });
          try {
            await artifacts.putChunk(id, sha256, pieces);
          } finally {
            budget.give(pieces.reduce((sum, piece) => sum + piece.length, 0));
          }
          respondJson(res, 200, {});
        },
      },
      {
        method: 'GET',
        path: '/api/artifacts/:artifact/content',
        access: 'admin',
        handle: (call) => sendContent(artifacts, call),
      },
      {
        method: 'GET',
        path: '/api/jobs/:job/results',
        access: 'admin',
        async handle(call) {
          check(z.strictObject({}), Object.fromEntries(call.query), 'The query');
          const job = jobs.job(
            check(z.object({ job: z.string().min(1).max(256) }), call.params, 'The path').job,
          );
          return sendTar(artifacts, call, job.name, await resultsFolder(artifacts, job));
        },
      },
    ],
  };
}

const chunkPath = z.object({ id: z.string().max(64), sha256: artifactIdSchema });
const contentQuery = z.strictObject({ path: z.string().min(1).max(1024).optional() });

/** A file, or one of a tree by `path`, with ranges; a tree as tar. */
async function sendContent(artifacts: ArtifactService, call: HttpCall): Promise<void> {
  const { req, res } = call;
  const { path } = check(contentQuery, Object.fromEntries(call.query), 'The query');
  const ref = check(z.object({ artifact: z.string().min(1).max(256) }), call.params, 'The path').artifact;
  const { row, manifest } = await artifacts.open(ref);
  if (manifest && path === undefined) return sendTar(artifacts, call, row.name, manifest);
  const entry = manifest?.entries.find((candidate) => candidate.path === path);
  if (path !== undefined && entry?.type !== 'file') {
    throw new CoveyError('artifact_not_found', `${row.name} has no file ${JSON.stringify(path)}.`, {
      field: 'path',
    });
  }
  const file =
    entry?.type === 'file' ? { id: entry.sha256, bytes: entry.bytes } : { id: row.id, bytes: row.bytes };
  const name = path === undefined ? row.name : (path.split('/').at(-1) ?? path);
  const range = rangeOf(req.headers.range, file.bytes);
  const common = {
    ...headers,
    'content-type': 'application/octet-stream',
    'content-disposition': named(name),
    'accept-ranges': 'bytes',
    etag: `"${file.id}"`,
  };
  if (range === 'unsatisfiable') {
    res.writeHead(416, { ...common, 'content-range': `bytes */${file.bytes}`, 'content-length': 0 });
    return void res.end();
  }
  const { from, to } = range ?? { from: 0, to: file.bytes };
  res.writeHead(range ? 206 : 200, {
    ...common,
    'content-length': to - from,
    ...(range ? { 'content-range': `bytes ${from}-${to - 1}/${file.bytes}` } : {}),
  });
  if (req.method === 'HEAD' || to === from) return void res.end();
  const source = createReadStream(artifacts.filePath(file.id), {
    start: from,
    end: to - 1,
    highWaterMark: 1024 * 1024,
  });
  return finishStream(pipeline(source, res, { signal: call.closing }));
}

const headers = {
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'content-security-policy': 'sandbox',
};

function named(name: string): string {
  return `attachment; filename*=UTF-8''${encodeURIComponent(name).replace(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)}`;
}

async function sendTar(
  artifacts: Pick<ArtifactService, 'filePath'>,
  { req, res, closing }: HttpCall,
  name: string,
  manifest: TreeManifest,
): Promise<void> {
  const { packTree } = await import('../../../nodejs/artifacts/pack-tree.ts');
  res.writeHead(200, {
    ...headers,
    'content-type': 'application/x-tar',
    'content-disposition': named(`${name}.tar`),
  });
  if (req.method === 'HEAD') return void res.end();
  return finishStream(
    pipeline(
      packTree(manifest, (id) => artifacts.filePath(id)),
      res,
      { signal: closing },
    ),
  );
}

/** The status is out: what goes wrong now shows as a connection that ends too early. */
async function finishStream(sending: Promise<void>): Promise<void> {
  await sending.catch(() => undefined);
}

/** One range of bytes (RFC 9110, 14); null: all of it, also for what is asked in another way. */
function rangeOf(
  header: string | undefined,
  bytes: number,
): { from: number; to: number } | 'unsatisfiable' | null {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header ?? '');
  if (!match || (match[1] === '' && match[2] === '')) return null;
  const [, first, last] = match;
  const from = first === '' ? Math.max(0, bytes - Number(last)) : Number(first);
  const to = first === '' || last === '' ? bytes : Math.min(bytes, Number(last) + 1);
  return from >= to ? 'unsatisfiable' : { from, to };
}
