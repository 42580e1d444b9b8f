import { createHash } from 'node:crypto';
import { z } from 'zod';
import { artifactViewSchema, type ArtifactView } from '../../../src-main/shared/domain/artifact.ts';
import type { ArtifactId } from '../../../src-main/shared/lib/ids.ts';
import { exampleJobId } from '../job-views.ts';
import { at, nodeIdOf } from '../views.ts';
import { type GoldenCase, missing } from './golden-case.ts';

const artifact: ArtifactView = {
  id: 'd'.repeat(64) as ArtifactId,
  kind: 'file',
  name: 'numbers.f64',
  bytes: 1_073_741_824,
  files: 1,
  createdAt: at - 86_400_000,
  lastUsedAt: at - 60_000,
  pinned: true,
  jobs: [exampleJobId],
  holders: [{ nodeId: nodeIdOf('a'), nodeName: 'desk' }],
  collectableAt: null,
};

export const smallContent = 'name,age\nAda,36\n';
export const smallFile: ArtifactView = {
  ...artifact,
  id: createHash('sha256').update(smallContent).digest('hex') as ArtifactId,
  name: 'data.csv',
  bytes: smallContent.length,
  jobs: [],
};

export const noArtifact = missing('artifact_not_found', 'There is no artifact "numbers".');

const unneeded = { due: 0, dueBytes: 0, later: 0, laterBytes: 0, nextAt: null };
/** So many go with one of the next collections. */
const stillNeeded = (later: number) => () => ({
  artifacts: [],
  total: 0,
  usedBytes: 0,
  quotaBytes: 2 ** 36,
  unneeded: { ...unneeded, later, laterBytes: later * 1_024, nextAt: later > 0 ? at + 3_540_000 : null },
});

/** Commands of artifacts. */
export const artifactCases: Readonly<Record<string, GoldenCase>> = {
  'artifacts list': {
    happy: {
      words: 'artifacts list',
      scripts: {
        artifacts: () => ({
          artifacts: [artifact],
          total: 1,
          leftOut: { count: 23, bytes: 3_145_728 },
          usedBytes: artifact.bytes,
          quotaBytes: 2 ** 36,
          unneeded,
        }),
      },
    },
    more: [
      {
        words: 'artifacts list --all',
        scripts: {
          artifacts: () => ({
            artifacts: [
              {
                ...artifact,
                jobs: [],
                name: 'a folder with a name as long as people like',
                kind: 'tree',
                files: 1_200,
              },
              {
                ...smallFile,
                ...{ pinned: false, holders: [], jobs: [exampleJobId] },
                resultOf: { jobId: exampleJobId, jobName: 'render', name: '17/frame.png' },
              },
              {
                ...{ ...smallFile, id: 'e'.repeat(64) as ArtifactId, pinned: false },
                ...{ name: 'output', collectableAt: at + 3_000_000 },
              },
              {
                ...{
                  ...smallFile,
                  id: 'f'.repeat(64) as ArtifactId,
                  bytes: 738_197_504,
                  jobs: [exampleJobId],
                },
                lastUsedAt: at - 9_000_000,
                resultOf: {
                  ...{ jobId: exampleJobId, jobName: 'stories260K prompts.jsonl' },
                  name: '1023/checkpoints/last.safetensors',
                },
              },
            ],
            total: 4,
            usedBytes: artifact.bytes,
            quotaBytes: 2 ** 36,
            unneeded,
          }),
        },
      },
    ],
    empty: {
      words: 'artifacts',
      scripts: {
        artifacts: () => ({ artifacts: [], total: 0, usedBytes: 0, quotaBytes: 2 ** 36, unneeded }),
      },
    },
    wrong: 'artifacts lits',
    json: 'artifacts',
  },
  'artifacts put': {
    happy: {
      words: 'artifacts put data.csv',
      scripts: {
        startUpload: () => ({ id: 'upload', needed: [smallFile.id], expiresAt: at }),
        artifactChunk: ({ body }) => (String(body) === smallContent ? {} : undefined),
        finishUpload: () => smallFile,
      },
      files: { 'data.csv': smallContent },
    },
    empty: { words: 'artifacts put data.csv', scripts: {}, code: 2 },
    wrong: 'artifacts put',
    json: artifactViewSchema.extend({ sentBytes: z.number() }),
  },
  'artifacts get': {
    happy: {
      words: 'artifacts get data.csv',
      scripts: { artifact: () => smallFile, artifactContent: () => Buffer.from(smallContent) },
      files: {},
    },
    empty: { words: 'artifacts get numbers', scripts: { artifact: noArtifact }, code: 1 },
    wrong: 'artifacts get',
    json: artifactViewSchema.extend({ path: z.string() }),
  },
  'artifacts rm': {
    happy: {
      words: 'artifacts rm numbers.f64',
      scripts: { artifact: () => artifact, removeArtifact: () => ({}) },
    },
    empty: {
      words: 'artifacts rm numbers',
      scripts: { artifact: noArtifact, removeArtifact: noArtifact },
      code: 1,
    },
    wrong: 'artifacts rm',
    json: z.strictObject({ artifacts: z.array(artifactViewSchema) }),
  },
  'artifacts gc': {
    happy: {
      words: 'artifacts gc',
      scripts: {
        collectArtifacts: () => ({ removed: 3, freedBytes: 52_428_800 }),
        artifacts: stillNeeded(0),
      },
    },
    empty: {
      words: 'artifacts gc',
      scripts: { collectArtifacts: () => ({ removed: 0, freedBytes: 0 }), artifacts: stillNeeded(0) },
    },
    more: [
      {
        words: 'artifacts gc',
        scripts: { collectArtifacts: () => ({ removed: 0, freedBytes: 0 }), artifacts: stillNeeded(60) },
      },
    ],
    wrong: 'artifacts gc all',
    json: 'collectArtifacts',
  },
};
