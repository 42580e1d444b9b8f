import type { Command } from 'commander';
import type { DoctorReport } from '#shared/api/self.ts';
import type { DoctorCheck } from '#shared/domain/doctor.ts';
import { CoveyError } from '#shared/errors.ts';
import { hostname } from 'node:os';
import { productVersion } from '../../nodejs/version.ts';
import type { CommandContext, Style } from '../context.ts';
import { Exit, exitCodes } from '../failure.ts';
import type { AddCommands } from '../registry.ts';
import { pad, plural, printable, wrap } from '../text.ts';
import { linksTable } from './links.ts';

export const addDoctorCommand: AddCommands = (registry) => {
  registry
    .add('doctor', 'look for what is wrong, on this machine and between all of them')
    .action((_flags, command: Command) => registry.act(command, showDoctor));
};

/** Longer than a controller takes at most for its nodes and pairs. */
const doctorMs = 180_000;

/**
 * The report of the node that answers; without one, the checks of this machine alone. Ends with exit code 1 when a
 * check has failed.
 */
async function showDoctor(context: CommandContext): Promise<void> {
  const { io, json } = context;
  if (!json && io.errIsTty) io.err('Asking, which takes a few seconds for each machine...\n');
  const { report, note } = await context.api.call('doctor', { timeoutMs: doctorMs }).then(
    (answer) => ({ report: answer, note: null }),
    async (error: unknown) => {
      if (!(error instanceof CoveyError) || error.code !== 'controller_unreachable') throw error;
      return { report: await localReport(context.dataDirectory), note: error.message };
    },
  );
  if (json) io.out(`${JSON.stringify(note === null ? report : { ...report, note })}\n`);
  else io.out(renderReport(context, report, note));
  const failed = report.nodes.some(({ checks }) => checks.some(({ status }) => status === 'fail'));
  if (failed) throw new Exit(exitCodes.failed);
}

/** As a node would report; without a key yet, there is no node id. */
interface LocalReport {
  readonly nodes: readonly (Omit<DoctorReport['nodes'][number], 'nodeId'> & {
    readonly nodeId: string | null;
  })[];
  readonly pairs: DoctorReport['pairs'];
}

async function localReport(dataDirectory: string): Promise<LocalReport> {
  // Seldom needed, and no other command should pay for loading it.
  const { runDoctor } = await import('../../nodejs/doctor/doctor.ts');
  const { localDoctorContext, localNodeId } = await import('../../nodejs/doctor/local-context.ts');
  const [nodeId, checks] = await Promise.all([
    localNodeId(dataDirectory),
    localDoctorContext(dataDirectory, productVersion).then((local) => runDoctor(local)),
  ]);
  return { nodes: [{ nodeId, name: hostname(), checks, error: null }], pairs: [] };
}

function renderReport(context: CommandContext, report: LocalReport, note: string | null): string {
  const { style, width } = context;
  const intro =
    note === null
      ? []
      : wrap(`${printable(note)} These are the checks of this machine alone, without a node.`, width);
  const nodes = report.nodes.map(({ name, checks }) =>
    [printable(name), ...checks.flatMap((check) => renderCheck(check, style, width))].join('\n'),
  );
  const pairs = report.pairs.length === 0 ? [] : [linksTable(context, report.pairs).trimEnd()];
  const blocks = [...(intro.length > 0 ? [intro.join('\n')] : []), ...nodes, ...pairs, totals(report)];
  return `${blocks.join('\n\n')}\n`;
}

const titleWidth = 14;
const words = { ok: 'ok', warn: 'warn', fail: 'FAIL', skipped: 'skip' } as const;

/** `  warn  Sleep           what was found`, and below it what to do. */
function renderCheck({ status, title, summary, action }: DoctorCheck, style: Style, width: number): string[] {
  const paint = { ok: style.good, warn: style.warn, fail: style.bad, skipped: style.dim }[status];
  const indent = 2 + 4 + 2 + titleWidth + 2;
  const room = Math.max(20, width - indent);
  const blank = ' '.repeat(indent);
  const [first = '', ...rest] = wrap(printable(summary), room);
  const head = `  ${paint(pad(words[status], 4))}  ${pad(printable(title), titleWidth)}  `;
  const todo = action === null ? [] : wrap(printable(action), room - 3);
  return [
    `${head}${status === 'skipped' ? style.dim(first) : first}`,
    ...rest.map((line) => `${blank}${status === 'skipped' ? style.dim(line) : line}`),
    ...todo.map((line, index) => `${blank}${index === 0 ? '-> ' : '   '}${line}`),
  ];
}

function totals({ nodes }: LocalReport): string {
  const all = nodes.flatMap(({ checks }) => checks);
  const count = (status: DoctorCheck['status']): number =>
    all.filter((check) => check.status === status).length;
  const [fail, warn, skipped] = [count('fail'), count('warn'), count('skipped')];
  const bad = fail === 0 && warn === 0 ? 'Nothing is wrong' : `${fail} failed, ${plural(warn, 'warning')}`;
  return `${bad}: ${plural(all.length, 'check')} on ${plural(nodes.length, 'machine')}${skipped > 0 ? `, ${skipped} skipped` : ''}.`;
}
