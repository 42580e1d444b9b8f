import type { Command } from 'commander';
import type { z } from 'zod';
import type { artifactListSchema } from '#shared/api/jobs.ts';
import { artifactTitle, type ArtifactView } from '#shared/domain/artifact.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ApiClient } from '../api-client.ts';
import { getArtifact } from '../artifact-get.ts';
import { putArtifact, type PutOptions, type PutResult } from '../artifact-put.ts';
import { tell, type CommandContext } from '../context.ts';
import { Exit, exitCodes } from '../failure.ts';
import type { AddCommands } from '../registry.ts';
import { renderTable, type Column } from '../table.ts';
import { bytes, duration, plural, printable, wrap } from '../text.ts';

type ArtifactList = z.infer<typeof artifactListSchema>;
const pageSize = 1_000;

export const addArtifactCommands: AddCommands = ({ add, act, group }) => {
  const artifacts = group('artifacts', 'files and folders that jobs use and make', (context) =>
    listArtifacts(context, false),
  );
  add('list', 'list them', artifacts)
    .alias('ls')
    .option('--all', 'partial results of jobs too, and what nothing needs any more', false)
    .action(({ all }: { all: boolean }, command: Command) =>
      act(command, (context) => listArtifacts(context, all)),
    );
  add('put <path>', 'put a file or folder of this machine into the covey', artifacts)
    .option('--name <name>', 'what to call it (default: its own name)')
    .option('--unpack', 'put what a tar or zip file holds, as a folder')
    .action((path: string, flags: PutOptions, command: Command) =>
      act(command, (context) => put(context, path, flags)),
    );
  add('get <artifact> [target]', 'get one as a file or folder here, verified', artifacts)
    .option('--force', 'in place of what is there')
    .action((ref: string, target: string | undefined, flags: { force?: boolean }, command: Command) =>
      act(command, (context) => get(context, ref, target, flags.force === true)),
    );
  add('rm <artifact...>', 'keep them no longer; they go with the next collection', artifacts)
    .alias('remove')
    .action((refs: string[], _flags, command: Command) => act(command, (context) => remove(context, refs)));
  add('gc', 'remove what nothing needs any more now', artifacts).action((_flags, command: Command) =>
    act(command, collect),
  );
};

/** For other commands that take a file of this machine. */
export function putPath(context: CommandContext, path: string): Promise<PutResult> {
  return interruptible(context, (signal) => putArtifact(context, path, { lookBefore: true }, signal));
}

async function listArtifacts({ api, io, json, width }: CommandContext, all: boolean): Promise<void> {
  const answer = await everyArtifact(api, all ? '1' : '0');
  if (json) return io.out(`${JSON.stringify(answer)}\n`);
  const { leftOut } = answer;
  const hidden =
    leftOut &&
    `${leftOut.count} more (${bytes(leftOut.bytes)}) ${leftOut.count === 1 ? 'is' : 'are'} not shown: partial results ` +
      'of jobs, and what nothing needs any more. --all shows them.';
  const others = hidden === undefined ? '' : `${wrap(hidden, width).join('\n')}\n`;
  if (answer.artifacts.length === 0) {
    return io.out(
      `There are no artifacts. "covey artifacts put PATH" puts a file or folder here.\n${others}`,
    );
  }
  const now = io.now();
  io.out(
    renderTable<ArtifactView>(
      [
        { header: 'ARTIFACT', value: ({ id }) => id.slice(0, 12) },
        { header: 'NAME', value: artifactTitle, shrinkTo: 8, cut: 'inside' },
        ...(answer.artifacts.some(({ kind }) => kind === 'tree') ? [files] : []),
        { header: 'SIZE', value: (artifact) => bytes(artifact.bytes), align: 'right' },
        ...(width < roomyColumns ? [] : [copies]),
        { header: 'USED', value: ({ lastUsedAt }) => `${briefly(now - lastUsedAt)} ago` },
        { header: 'KEPT', value: (artifact) => keptBy(artifact, now) },
      ],
      answer.artifacts,
      width,
    ),
  );
  io.out(`${bytes(answer.usedBytes)} of ${bytes(answer.quotaBytes)} used.\n${others}`);
}

/** Names need the room of a narrower terminal. */
const roomyColumns = 100;

/** Of folders, and there where there are any. */
const files: Column<ArtifactView> = {
  header: 'FILES',
  value: ({ kind, files: count }) => (kind === 'file' ? '' : String(count)),
  align: 'right',
};

/** The controller has each of them. */
const copies: Column<ArtifactView> = {
  header: 'COPIES',
  value: ({ holders }) => (holders.length === 0 ? '' : `on ${plural(holders.length, 'machine')}`),
};

/** `3 h` of `3 h 20 min`. */
function briefly(ms: number): string {
  return duration(Math.max(0, ms)).split(' ').slice(0, 2).join(' ');
}

/** Page by page, so that no answer is without bound; what moved between two pages meanwhile is there once. */
async function everyArtifact(api: ApiClient, partial: '0' | '1'): Promise<ArtifactList> {
  const page = (from: number) =>
    api.call('artifacts', { query: { partial, from: String(from), limit: String(pageSize) } });
  const first = await page(0);
  const found = new Map(first.artifacts.map((one) => [one.id, one]));
  let from = first.artifacts.length;
  while (from > 0 && from < first.total) {
    const { artifacts } = await page(from);
    if (artifacts.length === 0) break;
    from += artifacts.length;
    for (const one of artifacts) found.set(one.id, one);
  }
  return { ...first, artifacts: [...found.values()] };
}

/** As short as it can be: names need the room. */
function keptBy({ pinned, jobs, collectableAt }: ArtifactView, now: number): string {
  const by = [pinned ? 'you' : '', jobs.length > 0 ? plural(jobs.length, 'job') : ''].filter(Boolean);
  if (by.length > 0) return `by ${by.join(', ')}`;
  const leftMs = (collectableAt ?? now) - now;
  return leftMs > 0 ? `for ${duration(leftMs)}` : 'can go';
}

async function put(context: CommandContext, path: string, options: PutOptions): Promise<void> {
  const result: PutResult = await interruptible(context, (signal) =>
    putArtifact(context, path, options, signal),
  );
  const { artifact, sentBytes } = result;
  const { io, json } = context;
  if (json) return io.out(`${JSON.stringify({ ...artifact, sentBytes })}\n`);
  const sent = sentBytes === artifact.bytes ? '' : `, of which ${bytes(sentBytes)} had to be sent`;
  tell(
    io,
    `${printable(artifact.name)} is artifact ${artifact.id.slice(0, 12)} (${bytes(artifact.bytes)}${sent}).\n`,
  );
}

async function get(
  context: CommandContext,
  ref: string,
  target: string | undefined,
  force: boolean,
): Promise<void> {
  const { artifact, path } = await interruptible(
    context,
    (signal) => getArtifact(context, ref, target, force, signal),
    'Cancelled; of a file, the same command goes on from here.',
  );
  const { io, json } = context;
  if (json) return io.out(`${JSON.stringify({ ...artifact, path })}\n`);
  tell(io, `${printable(artifact.name)} (${bytes(artifact.bytes)}) is at ${printable(path)}.\n`);
}

async function remove({ api, io, json }: CommandContext, refs: readonly string[]): Promise<void> {
  const removed: ArtifactView[] = [];
  for (const ref of refs) {
    const artifact = await api.call('artifact', { params: { artifact: ref } });
    await api.call('removeArtifact', { params: { artifact: artifact.id } });
    removed.push(await api.call('artifact', { params: { artifact: artifact.id } }));
  }
  if (json) return io.out(`${JSON.stringify({ artifacts: removed })}\n`);
  for (const { jobs, ...one } of removed) {
    const why =
      jobs.length > 0 ? `when ${plural(jobs.length, 'job')} is removed too` : 'after its grace time';
    tell(io, `${printable(artifactTitle(one))} is not kept any more; it goes ${why}.\n`);
  }
}

async function collect({ api, io, json, width }: CommandContext): Promise<void> {
  const answer = await api.call('collectArtifacts', { timeoutMs: 10 * 60_000 });
  if (json) return io.out(`${JSON.stringify(answer)}\n`);
  if (answer.removed > 0 || answer.freedBytes > 0) {
    io.out(`${plural(answer.removed, 'artifact')} removed, ${bytes(answer.freedBytes)} freed.\n`);
  }
  const { unneeded } = await api.call('artifacts', { query: { limit: '1' } });
  if (unneeded.later > 0) {
    const inMs = Math.max(0, (unneeded.nextAt ?? 0) - io.now());
    const what = `${plural(unneeded.later, 'artifact')} (${bytes(unneeded.laterBytes)}) that nothing needs any more`;
    const when = `go an hour after their last use, the first in ${duration(inMs)}.`;
    io.out(`${wrap(`${what} ${when}`, width).join('\n')}\n`);
  } else if (answer.removed === 0 && answer.freedBytes === 0) io.out('Nothing to remove.\n');
}

/** Ctrl-C gives up; what was sent or came till then is of use to the next time. */
export async function interruptible<T>(
  { io }: CommandContext,
  work: (signal: AbortSignal) => Promise<T>,
  cancelled = 'Cancelled; the same command goes on from here.',
): Promise<T> {
  const stop = new AbortController();
  const removeListener = io.onInterrupt(() => stop.abort(new CoveyError('cancelled', 'Cancelled.')));
  try {
    return await work(stop.signal);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    io.err(`${cancelled}\n`);
    throw new Exit(exitCodes.interrupted);
  } finally {
    removeListener();
  }
}
