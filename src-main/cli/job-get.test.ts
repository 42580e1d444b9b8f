import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, mkdir, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { JobView } from '#shared/domain/job.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import { canonicalManifest, makeManifest } from '#shared/domain/tree-manifest.ts';
import { packTree } from '../nodejs/artifacts/pack-tree.ts';
import { scriptedIo } from '../../e2e/support/cli-io.ts';
import { doneJob, exampleJobId, failedJob } from '../../e2e/support/job-views.ts';
import type { RouteScript, Scripts } from '../../e2e/support/scripted-api.ts';
import { useCovey } from '../../e2e/support/use-covey.ts';

const { covey } = useCovey();
let here: string;
beforeEach(async () => {
  here = await mkdtemp(join(tmpdir(), 'covey-job-get-'));
});
afterEach(() => rm(here, { recursive: true }));

const idOf = (content: Buffer | string): ArtifactId =>
  createHash('sha256').update(content).digest('hex') as ArtifactId;
const contents = ['one\n', 'two, longer\n', 'three\n'];
const stakes = contents.map((content, index) => ({
  ...{ id: idOf(content), kind: 'file' as const, bytes: content.length },
  name: `${index}/o`,
}));
const render = (changes: Partial<JobView> = {}): JobView =>
  doneJob({
    ...{ name: 'render: all', kind: 'command' },
    result: { value: null, artifacts: stakes, missing: 0 },
    ...changes,
  });
/** Whole, or from where it is asked for. */
const artifactContent: RouteScript = ({ params, headers }, response) => {
  const content = contents.find((one) => idOf(one) === params['artifact']) ?? '';
  const from = Number(/bytes=(\d+)-/.exec(headers.range ?? '')?.[1] ?? 0);
  response.writeHead(from > 0 ? 206 : 200).end(content.slice(from));
};
const get = (words: string, scripts: Scripts) =>
  covey(
    `jobs get ${exampleJobId}${words}`,
    { artifactContent, ...scripts },
    scriptedIo({ workingDirectory: here }),
  );

test('all results come into a folder that is called as the job, and what is there does not come again', async () => {
  const first = await get('', { job: () => render() });
  expect([first.code, first.stdout]).toEqual([0, `3 results (22 B) are in ${here}/render_ all.\n`]);
  expect(first.stderr).toBe('Getting render: all [--------------------] 0% of 22 B, 0 of 3\n');
  for (const [index, content] of contents.entries()) {
    expect(await readFile(join(here, 'render_ all', String(index), 'o'), 'utf8')).toBe(content);
  }
  // One has been broken off.
  const [id = ''] = stakes.map((stake) => stake.id);
  await rm(join(here, 'render_ all/0/o'));
  await writeFile(join(here, `render_ all/0/o.${id.slice(0, 12)}.part`), contents[0]?.slice(0, 2) ?? '');
  const again = await get('', { job: () => render() });
  expect(again.stdout).toContain(', 2 of them as before.');
  const asked = again.api.requests.filter(({ route }) => route === 'artifactContent');
  expect(asked.map(({ headers }) => headers.range)).toEqual(['bytes=2-']);
  expect(await readdir(join(here, 'render_ all/0'))).toEqual(['o']);
  const third = await get(' --json', { job: () => render() });
  expect(JSON.parse(third.stdout)).toMatchObject({
    directory: join(here, 'render_ all'),
    results: [{ name: '0/o', wasHere: true }, { wasHere: true }, { wasHere: true }],
  });
});

test('nothing that is there is replaced, and nothing is fetched then', async () => {
  await mkdir(join(here, 'out/2'), { recursive: true });
  await writeFile(join(here, 'out/2/o'), 'theirs');
  const other = await get(' out', { job: () => render() });
  expect([other.code, other.stderr]).toEqual([
    1,
    expect.stringContaining('error: out/2/o is there already and is something else: nothing was replaced'),
  ]);
  await writeFile(join(here, 'file'), '');
  const file = await get(' file', { job: () => render() });
  expect(file.stderr).toContain('error: file is there already and is a file: ');
  await writeFile(join(here, 'out/0'), '');
  const inFolder = await get(' out', { job: () => render() });
  expect(inFolder.stderr).toContain('error: out/0 is there already and is a file, no folder: ');
  for (const { api } of [other, file, inFolder])
    expect(api.requests.map(({ route }) => route)).toEqual(['job']);
  expect(await readFile(join(here, 'out/2/o'), 'utf8')).toBe('theirs');
});

const linux = test.runIf(process.platform === 'linux');

linux('no link in the folder is followed, and nothing but a file is written to', async () => {
  const partial = `o.${idOf(contents[1] ?? '').slice(0, 12)}.part`;
  const outside = join(here, 'outside');
  const inside = join(here, 'out');
  const cases: readonly [place: string, make: (path: string) => unknown, what: string][] = [
    ['0', (path) => symlink(outside, path), 'is a link, no folder'],
    ['1', (path) => symlink(join(here, 'nowhere'), path), 'is a link, no folder'],
    ['0/o', (path) => symlink(join(outside, 'theirs'), path), 'is a link'],
    ['2/o', (path) => symlink(join(outside, 'new'), path), 'is a link'],
    ['2/o', (path) => promisify(execFile)('mkfifo', [path]), 'is a pipe'],
    [`1/${partial}`, (path) => symlink(join(outside, 'new'), path), 'is a link'],
    [`1/${partial}`, (path) => promisify(execFile)('mkfifo', [path]), 'is a pipe'],
  ];
  for (const [place, make, what] of cases) {
    await mkdir(outside);
    await writeFile(join(outside, 'theirs'), contents[0] ?? '');
    await mkdir(dirname(join(inside, place)), { recursive: true });
    await make(join(inside, place));
    const { code, stderr, api } = await get(' out', { job: () => render() });
    expect([code, stderr]).toEqual([1, expect.stringContaining(`error: out/${place} is there already`)]);
    expect(stderr).toContain(`already and ${what}: nothing was replaced`);
    expect(api.requests.map(({ route }) => route)).toEqual(['job']);
    expect(await readdir(outside)).toEqual(['theirs']);
    await rm(outside, { recursive: true });
    await rm(inside, { recursive: true });
  }
});

linux('a folder that is put in its place while results come is seen', async () => {
  await mkdir(join(here, 'outside'));
  const slow: RouteScript = async (request, response) => {
    // The fifth waits for one of the first four.
    await mkdir(join(here, 'out'), { recursive: true });
    await symlink(join(here, 'outside'), join(here, 'out/4')).catch(() => undefined);
    return artifactContent(request, response);
  };
  const artifacts = [0, 1, 2, 3, 4].flatMap((index) =>
    stakes.slice(0, 1).map((one) => ({ ...one, name: `${index}/o` })),
  );
  const job = render({ result: { value: null, artifacts, missing: 0 } });
  const { code, stderr } = await get(' out', { job: () => job, artifactContent: slow });
  expect([code, stderr]).toEqual([1, expect.stringContaining('error: out/4 is there already and is a link')]);
  expect(await readdir(join(here, 'outside'))).toEqual([]);
});

linux('the folder itself may be a link to one, but not to nothing, and not be below a file', async () => {
  await mkdir(join(here, 'real'));
  await symlink(join(here, 'real'), join(here, 'link'));
  expect((await get(' link', { job: () => render() })).code).toBe(0);
  expect(await readdir(join(here, 'real'))).toEqual(['0', '1', '2']);
  await symlink(join(here, 'nowhere'), join(here, 'dangling'));
  await writeFile(join(here, 'file'), '');
  for (const [place, message] of [
    ['dangling', 'dangling is there already and is a link to nothing: '],
    ['file/x', `${here}/file/x cannot be written: ${here}/file is no folder.`],
    ['/dev/null', '/dev/null is there already and is a device: '],
    // Node's own recursive mkdir never came back from there.
    ['/proc/covey-none', '/proc/covey-none cannot be written: nothing can be made in /proc.'],
  ]) {
    for (const job of [render(), doneJob()]) {
      const { code, stderr, api } = await get(` ${place}`, { job: () => job });
      expect([code, stderr]).toEqual([1, expect.stringContaining(`error: ${message}`)]);
      expect(api.requests.map(({ route }) => route)).toEqual(['job']);
    }
  }
});

test('a folder that cannot be made is said with the reason', async () => {
  const directory = 'x'.repeat(300);
  for (const job of [render(), doneJob()]) {
    const { code, stderr, api } = await get(` ${directory}`, { job: () => job });
    expect([code, stderr]).toEqual([1, expect.stringContaining('cannot be written: its name is too long.')]);
    expect(api.requests.map(({ route }) => route)).toEqual(['job']);
  }
});

test('something else than the artifact is not kept', async () => {
  const { code, stderr } = await get(' out', {
    job: () => render(),
    artifactContent: () => Buffer.from('four'),
  });
  expect([code, stderr]).toEqual([1, expect.stringContaining('is something else: try again.')]);
  for (const index of ['0', '1', '2']) {
    expect(await readdir(join(here, 'out', index)).catch(() => [])).not.toContain('o');
  }
});

test('a folder comes as one, and is known again', async () => {
  const content = '#!/bin/sh\n';
  const made = makeManifest(
    [{ path: 'bin/run', executable: true, bytes: content.length, sha256: idOf(content) }],
    ['bin', 'empty'],
  );
  if (!made.ok) throw new Error(made.problem);
  const file = join(here, 'content');
  await writeFile(file, content);
  const tree = {
    ...{ id: idOf(canonicalManifest(made.manifest)), kind: 'tree' as const, bytes: content.length },
    name: 'tools',
  };
  const scripts: Scripts = {
    job: () => render({ result: { value: null, artifacts: [tree], missing: 0 } }),
    artifactContent: (_request, response) => void packTree(made.manifest, () => file).pipe(response),
  };
  const first = await get(' out', scripts);
  expect([first.code, first.stderr]).toEqual([0, expect.any(String)]);
  expect(await readFile(join(here, 'out/tools/bin/run'), 'utf8')).toBe(content);
  expect((await get(' out', scripts)).stdout).toContain('tools, as before.');
  // What a process that was killed has left goes with the next attempt.
  await rm(join(here, 'out/tools'), { recursive: true });
  await mkdir(join(here, `out/tools.${tree.id.slice(0, 12)}.part/bin`), { recursive: true });
  expect((await get(' out', scripts)).code).toBe(0);
  expect(await readdir(join(here, 'out'))).toEqual(['tools']);
  await writeFile(join(here, 'out/tools/mine'), '');
  expect((await get(' out', scripts)).stderr).toContain('out/tools is there already and is something else: ');
});

test('a value is a file of JSON, also the one of nothing', async () => {
  const value = { low: 0, high: 1, counts: [1, 2] };
  await get(' out', { job: () => doneJob({ result: { value, artifacts: [], missing: 0 } }) });
  expect(JSON.parse(await readFile(join(here, 'out/value.json'), 'utf8'))).toEqual(value);
  await get(' none', { job: () => doneJob({ result: { value: null, artifacts: [], missing: 0 } }) });
  expect(await readFile(join(here, 'none/value.json'), 'utf8')).toBe('null\n');
});

test('what is missing is said; a job without results has a reason to look at', async () => {
  const [one] = stakes;
  const some = { value: null, artifacts: one ? [one] : [], missing: 2 };
  const map = await get(' out', { job: () => failedJob({ kind: 'map', result: some }) });
  expect([map.code, map.stderr]).toEqual([
    0,
    expect.stringContaining('The file is not whole: 2 partitions of it are missing.'),
  ]);
  const command = await get(' each', { job: () => failedJob({ result: some }) });
  expect([command.code, command.stderr]).toEqual([
    0,
    expect.stringContaining('Results are missing: 2 of 3 partitions have none.'),
  ]);
  const gang = await get(' each', {
    job: () => failedJob({ kind: 'gang', result: { ...some, missing: 1 } }),
  });
  expect(gang.stderr).toContain('Results are missing: 1 of 3 ranks has none.');
  const none = { value: null, artifacts: [], missing: 3 };
  const empty = await get(' out', { job: () => failedJob({ kind: 'map', result: none }) });
  expect([empty.code, empty.stderr]).toEqual([1, expect.stringContaining('render has no results')]);
});
