import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, test } from 'vitest';
import type { ArtifactView } from '#shared/domain/artifact.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { scriptedIo } from '../../../e2e/support/cli-io.ts';
import { smallContent, smallFile } from '../../../e2e/support/goldens/artifacts.ts';
import type { Scripts } from '../../../e2e/support/scripted-api.ts';
import { exampleJobId } from '../../../e2e/support/job-views.ts';
import { useCovey } from '../../../e2e/support/use-covey.ts';
import { displayWidth } from '../text.ts';

const { covey } = useCovey();

const numbered = (index: number): ArtifactView => ({
  ...smallFile,
  id: String(index).padStart(64, '0') as ArtifactId,
  name: `file-${index}`,
});

describe('artifacts list', () => {
  /** As a controller that has `total` of them; one more is used between the first page and the next. */
  const pages = (total: number): Scripts => ({
    artifacts: ({ query }) => {
      const [from, limit] = [Number(query['from']), Number(query['limit'])];
      const first = from === 0 ? 0 : from - 1;
      const count = Math.max(0, Math.min(limit, total - first));
      return {
        artifacts: Array.from({ length: count }, (_value, index) => numbered(first + index)),
        total,
        usedBytes: 16 * total,
        quotaBytes: 2 ** 36,
        unneeded: { due: 0, dueBytes: 0, later: 0, laterBytes: 0, nextAt: null },
      };
    },
  });

  it('asks for a bounded number at a time, and shows each once', async () => {
    const { stdout, api } = await covey('artifacts list --all --json', pages(2_500));
    expect(api.requests.map(({ query }) => query)).toEqual([
      { partial: '1', from: '0', limit: '1000' },
      { partial: '1', from: '1000', limit: '1000' },
      { partial: '1', from: '2000', limit: '1000' },
    ]);
    const { artifacts, total } = JSON.parse(stdout) as { artifacts: ArtifactView[]; total: number };
    expect(total).toBe(2_500);
    expect(artifacts.map(({ name }) => name)).toEqual(
      Array.from({ length: 2_500 }, (_value, index) => `file-${index}`),
    );
  });

  it('ends when there are fewer than was said', async () => {
    const short: Scripts = {
      artifacts: ({ query }) => ({
        artifacts: query['from'] === '0' ? [numbered(1)] : [],
        ...{ total: 9, usedBytes: 16, quotaBytes: 2 ** 36 },
        unneeded: { due: 0, dueBytes: 0, later: 0, laterBytes: 0, nextAt: null },
      }),
    };
    const { stdout, api } = await covey('artifacts', short);
    expect(stdout).toContain('file-1');
    expect(api.requests).toHaveLength(2);
  });
});

describe('a long sentence as a result', () => {
  const name = 'a name that somebody has made rather long for a file of numbers, and longer still';
  const scripts: Scripts = { artifact: () => ({ ...smallFile, name }), removeArtifact: () => ({}) };
  const sentence = new RegExp(`^${name} is not kept any more`);

  it('is broken between words on a terminal, at its width', async () => {
    const io = scriptedIo({ outIsTty: true, columns: 60 });
    const { stdout } = await covey('artifacts rm x', scripts, io);
    const lines = stdout.trimEnd().split('\n');
    expect(lines.length).toBeGreaterThan(1);
    for (const line of lines) expect(displayWidth(line), line).toBeLessThanOrEqual(60);
    expect(lines.join(' ')).toMatch(sentence);
  });

  it('is one line for a program', async () => {
    const { stdout } = await covey('artifacts rm x', scripts);
    expect(stdout.trimEnd()).toMatch(sentence);
    expect(stdout.trimEnd()).not.toContain('\n');
  });
});

describe('a list of results', () => {
  const list = (width: number, bytes: number) =>
    covey(
      'artifacts',
      {
        artifacts: () => ({
          artifacts: [1, 2].map((index) => ({
            ...numbered(index),
            ...{ bytes, pinned: index === 1, jobs: [exampleJobId] },
            resultOf: { jobId: exampleJobId, jobName: 'stories260K prompts', name: `${index}/out.jsonl` },
          })),
          ...{ total: 2, usedBytes: 16, quotaBytes: 2 ** 36 },
          unneeded: { due: 0, dueBytes: 0, later: 0, laterBytes: 0, nextAt: null },
        }),
      },
      scriptedIo({ outIsTty: true, columns: width }),
    );

  it('has room for names at 80 columns, and shows their ends in less', async () => {
    const { stdout } = await list(80, 738_197_504);
    for (const index of [1, 2]) expect(stdout).toContain(`stories260K prompts/${index}/out.jsonl `);
    const narrow = (await list(70, 738_197_504)).stdout;
    for (const index of [1, 2]) expect(narrow).toMatch(new RegExp(`…\\S*/${index}/out\\.jsonl `));
    for (const line of narrow.split('\n')) expect(displayWidth(line), line).toBeLessThanOrEqual(70);
  });

  it('says of each who keeps it, and where room is, on how many machines it is too', async () => {
    const { stdout } = await list(120, 16);
    expect(stdout).toMatch(/ by you, 1 job\n.* by 1 job\n/);
    expect(stdout).toMatch(/COPIES.*\n.* on 1 machine /);
  });
});

test('a file that is read is shown with its whole size', async () => {
  const workingDirectory = mkdtempSync(join(tmpdir(), 'covey-put-'));
  onTestFinished(() => rmSync(workingDirectory, { recursive: true }));
  writeFileSync(join(workingDirectory, 'data.csv'), smallContent);
  const { stderr } = await covey(
    'artifacts put data.csv',
    { startUpload: () => ({ id: 'upload', needed: [], expiresAt: 1 }), finishUpload: () => smallFile },
    scriptedIo({ workingDirectory }),
  );
  expect(stderr).toContain('Reading data.csv 16 B of 16 B\n');
});
