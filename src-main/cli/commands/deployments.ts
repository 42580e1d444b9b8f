import type { Command } from 'commander';
import type { DeploymentView, StageView } from '#shared/domain/deployment.ts';
import type { CommandContext, Style } from '../context.ts';
import { describeError } from '../failure.ts';
import type { AddCommands } from '../registry.ts';
import { renderFields, renderTable } from '../table.ts';
import { bytes, duration, percent, plural, printable, wrap } from '../text.ts';
import { watching, watchOption, type WatchFlags } from '../watch.ts';

export const addDeploymentCommands: AddCommands = ({ add, act, group }) => {
  const deployments = group('deployments', 'the loaded models', listDeployments, 'watchable');
  watchOption(add('list', 'list the loaded models', deployments)).action(
    (flags: WatchFlags, command: Command) => act(command, watching(flags, listDeployments)),
  );
  watchOption(add('info <id>', 'all about one of them', deployments)).action(
    (id: string, flags: WatchFlags, command: Command) =>
      act(
        command,
        watching(flags, (context) => showDeployment(context, id)),
      ),
  );
};

export async function listDeployments(context: CommandContext): Promise<void> {
  const answer = await context.api.call('deployments');
  if (context.json) return context.io.out(`${JSON.stringify(answer)}\n`);
  if (answer.deployments.length === 0) {
    return context.io.out('Nothing is loaded. "covey load MODEL" loads a model.\n');
  }
  const { style, width } = context;
  context.io.out(
    renderTable<DeploymentView>(
      [
        { header: 'MODEL', value: (one) => one.model, shrinkTo: 12 },
        { header: 'STATUS', value: statusText, paint: (text, one) => statusStyle(style, one)(text) },
        { header: 'MACHINES', value: machines, shrinkTo: 12 },
        {
          header: 'CONTEXT',
          value: (one) => (one.contextPerRequest > 0 ? String(one.contextPerRequest) : ''),
          align: 'right',
        },
        {
          header: 'RUNNING',
          value: (one) => (one.parallel > 0 ? `${one.requestsRunning}/${one.parallel}` : ''),
          align: 'right',
        },
        { header: 'ID', value: (one) => one.id },
      ],
      answer.deployments,
      width,
    ),
  );
  const notes = answer.deployments.flatMap((one) =>
    one.reason ? wrap(`${printable(one.model)}: ${printable(one.reason.message)}`, width) : [],
  );
  if (notes.length > 0) context.io.out(`\n${notes.join('\n')}\n`);
}

export async function showDeployment(context: CommandContext, id: string): Promise<void> {
  const one = await context.api.call('deployment', { params: { id } });
  if (context.json) return context.io.out(`${JSON.stringify(one)}\n`);
  const { io } = context;
  const now = io.now();
  io.out(
    renderFields([
      ['Model', one.model],
      ['Id', one.id],
      ['Status', statusText(one)],
      ['Source', one.source],
      [
        'File',
        `${one.info.architecture}, ${one.info.fileType}, ${bytes(one.info.fileBytes)}, ${plural(one.info.layerCount, 'layer')}`,
      ],
      [
        'Context',
        one.contextPerRequest > 0
          ? `${one.contextPerRequest} tokens for each of ${plural(one.parallel, 'request')} at once`
          : null,
      ],
      ['Running', plural(one.requestsRunning, 'request')],
      [
        'Ready for',
        one.status === 'ready' && one.readyAt !== null ? duration(Math.max(0, now - one.readyAt)) : null,
      ],
      [
        'Next attempt',
        one.nextAttemptAt === null || one.nextAttemptAt <= now
          ? null
          : `in ${duration(one.nextAttemptAt - now)}`,
      ],
    ]),
  );
  if (one.reason) io.out(`\n${describeError(one.reason)}`);
  if (one.stages.length > 0) io.out(`\n${stagesTable(context, one)}`);
  if (one.failures.length > 0) {
    io.out('\nFailures:\n');
    for (const failure of one.failures) {
      io.out(`  ${new Date(failure.at).toISOString()}  ${printable(failure.error.message)}\n`);
    }
  }
}

export function stagesTable({ width }: CommandContext, one: DeploymentView, indent = ''): string {
  return renderTable<StageView>(
    [
      { header: 'MACHINE', value: (stage) => stage.nodeName, shrinkTo: 8 },
      { header: 'ROLE', value: (stage) => stage.role },
      { header: 'DEVICE', value: (stage) => stage.device, shrinkTo: 6 },
      { header: 'LAYERS', value: (stage) => `${stage.layers} of ${one.layersTotal}`, align: 'right' },
      { header: 'SHARE', value: (stage) => percent(stage.percent), align: 'right' },
      { header: 'PHASE', value: stageText },
      {
        header: 'MEMORY',
        value: (stage) => (stage.rssBytes === null ? '' : bytes(stage.rssBytes)),
        align: 'right',
      },
      { header: 'LINK', value: (stage) => link(stage) },
    ],
    one.stages,
    width,
    indent,
  );
}

/** `ready`, `loading 43%`. */
function stageText(stage: StageView): string {
  const done = stage.progress?.percent;
  if (stage.phase === null) return 'waiting';
  return stage.phase === 'ready' || done === null || done === undefined
    ? stage.phase
    : `${stage.phase} ${percent(done)}`;
}

function link(stage: StageView): string {
  if (stage.path === null) return '';
  return stage.rttMs === null ? stage.path : `${stage.path} ${duration(stage.rttMs)}`;
}

function statusText(one: DeploymentView): string {
  const done = one.status === 'loading' ? one.progress?.percent : null;
  return done === null || done === undefined ? one.status : `${one.status} ${percent(done)}`;
}

/** `desk 60% + attic 40%`. */
function machines(one: DeploymentView): string {
  return one.stages.map((stage) => `${stage.nodeName} ${percent(stage.percent)}`).join(' + ');
}

function statusStyle(style: Style, one: DeploymentView): (text: string) => string {
  switch (one.status) {
    case 'ready':
      return style.good;
    case 'failed':
      return style.bad;
    case 'loading':
    case 'waiting':
    case 'recovering':
    case 'draining':
    case 'unloading':
      return style.warn;
  }
}
