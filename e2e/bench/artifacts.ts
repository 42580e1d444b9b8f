import { execFile } from 'node:child_process';
import { randomFillSync } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startArtifactMachines } from '../support/artifact-machines.ts';
import { createCluster, type RunningController } from '../support/cluster.ts';
import { runCovey } from '../support/cli.ts';
import { nginxProgram, startNginx, type Nginx } from './artifacts-nginx.ts';
import { describeMachine, median, type BenchOptions, type BenchResult, type BenchRun } from './result.ts';

/**
 * 1 GB of random bytes, in memory where the system has a place for that (else on the disk, which then counts on
 * both sides):
 *
 * - ours: a file of one machine becomes an artifact of the controller, and is then fetched by another machine; both
 *   over the cluster port (TLS, keys pinned) and verified.
 * - theirs: curl puts the file to nginx over TLS, `sha256sum` there; curl gets it into a file, `sha256sum` here.
 *
 * Further: the same by `covey artifacts put` and `get` on the controller's own machine (no TLS), and how much of a
 * tree of which 1 % has changed is sent when it is put again.
 */
/** nginx is in no ordinary user's PATH. */
export const programs = ['/usr/sbin/nginx', 'curl'];
const fileBytes = 1_000_000_000;
const rounds = 3;
const treeFiles = 1_000;
const treeFileBytes = 100_000;

const run_ = promisify(execFile);

export async function run({ log }: BenchOptions): Promise<BenchResult> {
  const place = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
  const directory = await mkdtemp(join(place, 'covey-bench-artifacts-'));
  const closers: Array<() => Promise<unknown>> = [() => rm(directory, { recursive: true, force: true })];
  const runs: BenchRun[] = [];
  try {
    const file = join(directory, 'file');
    log('making a file of 1 GB ...');
    await randomFile(file, fileBytes);
    const program = nginxProgram();
    const curl = await run_('curl', ['--version']).then(
      () => true,
      () => false,
    );
    const missing = [program === null ? 'nginx (Debian package nginx-light)' : '', curl ? '' : 'curl'].filter(
      Boolean,
    );
    if (missing.length > 0) {
      log(`There is no ${missing.join(' and no ')}: install it, as root by apt-get, to have a ratio.`);
    }
    const nginx = program === null || !curl ? null : await startNginx(program, join(directory, 'nginx'));
    if (nginx) closers.push(() => nginx.close());
    for (let round = 0; round <= rounds; round += 1) {
      log(round === 0 ? 'warm-up ...' : `round ${round} of ${rounds} ...`);
      const sides = [
        async () => ({ side: 'covey', figures: await ours(join(directory, 'covey'), file) }),
        ...(nginx ? [async () => ({ side: 'nginx', figures: await theirs(nginx, file, directory) })] : []),
      ];
      for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
        const result = await side();
        if (round > 0) runs.push(result);
      }
    }
    log('the command line, and a tree of which 1 % changes ...');
    const more = await byCommandLine(directory, file, closers);
    const total = (side: string): number =>
      median(runs.filter((one) => one.side === side).map(({ figures }) => figures['total'] ?? NaN));
    const theirTotal = nginx ? total('nginx') : null;
    return {
      name: 'artifacts',
      ratio: theirTotal === null ? null : theirTotal / total('covey'),
      ratioOf: 'nginx / covey, seconds to put and get 1 GB, verified; higher is better',
      ours: total('covey'),
      theirs: theirTotal,
      unit: 's',
      runs,
      more,
      targets: { ratio: { atLeast: 0.9 }, secondPutShare: { atMost: 0.02 } },
      machine: describeMachine(),
    };
  } finally {
    for (const closer of closers.reverse()) await closer();
  }
}

async function randomFile(path: string, bytes: number): Promise<void> {
  const file = await open(path, 'w');
  const piece = Buffer.alloc(10_000_000);
  for (let at = 0; at < bytes; at += piece.length)
    await file.write(randomFillSync(piece), 0, piece.length, at);
  await file.close();
}

const seconds = async (work: () => Promise<unknown>): Promise<number> => {
  const startedAt = performance.now();
  await work();
  return (performance.now() - startedAt) / 1_000;
};

async function ours(directory: string, file: string): Promise<Record<string, number>> {
  const machines = await startArtifactMachines(directory, 2);
  const { signal } = new AbortController();
  try {
    const [from, to] = machines.workers;
    if (!from || !to) throw new Error('two machines were asked for');
    const put = await seconds(async () => {
      const stake = await from.cache.addFile(file, signal);
      await machines.controller.fetch(stake, 'file', from.nodeId, signal);
    });
    // From the controller alone, as nginx is alone.
    from.setConnected(false);
    const stake = machines.controller.resolve('file');
    const get = await seconds(() => to.cache.ensure(stake, signal));
    return { put, get, total: put + get };
  } finally {
    await machines.close();
    await rm(directory, { recursive: true, force: true });
  }
}

async function theirs(
  { url, root }: Nginx,
  file: string,
  directory: string,
): Promise<Record<string, number>> {
  const target = join(directory, 'got');
  const put = await seconds(async () => {
    await run_('curl', ['-sSfk', '-T', file, `${url}file`]);
    await run_('sha256sum', [join(root, 'file')]);
  });
  const get = await seconds(async () => {
    await run_('curl', ['-sSfk', '-o', target, `${url}file`]);
    await run_('sha256sum', [target]);
  });
  await rm(join(root, 'file'));
  await rm(target);
  return { put, get, total: put + get };
}

async function byCommandLine(
  directory: string,
  file: string,
  closers: Array<() => Promise<unknown>>,
): Promise<Record<string, number>> {
  const cluster = createCluster();
  closers.push(() => cluster.close());
  const controller = await cluster.startController({ dataDirectory: join(directory, 'data') });
  const target = join(directory, 'back');
  const putSeconds = await seconds(() => artifacts(controller, 'put', file));
  const getSeconds = await seconds(() => artifacts(controller, 'get', 'file', target));
  const tree = join(directory, 'tree');
  await mkdir(tree);
  for (let index = 0; index < treeFiles; index += 1) {
    await writeFile(join(tree, `f${index}`), randomFillSync(Buffer.alloc(treeFileBytes)));
  }
  await artifacts(controller, 'put', tree);
  for (let index = 0; index < treeFiles / 100; index += 1) {
    await writeFile(join(tree, `f${index * 100}`), randomFillSync(Buffer.alloc(treeFileBytes)));
  }
  const again = JSON.parse(await artifacts(controller, 'put', tree, '--name', 'again')) as {
    bytes: number;
    sentBytes: number;
  };
  return { putSeconds, getSeconds, secondPutShare: again.sentBytes / again.bytes };
}

async function artifacts(controller: RunningController, ...args: string[]): Promise<string> {
  const outcome = await runCovey(controller, ['artifacts', ...args, '--json'], { timeoutMs: 300_000 });
  if (outcome.code !== 0) throw new Error(`covey artifacts ${args.join(' ')}: ${outcome.stderr}`);
  return outcome.stdout;
}
