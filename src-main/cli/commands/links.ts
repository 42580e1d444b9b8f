import type { PairCheck } from '#shared/api/self.ts';
import type { AddressAttempt } from '#shared/domain/network.ts';
import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import type { AddCommands } from '../registry.ts';
import { renderTable } from '../table.ts';
import { bytes, duration, printable, wrap } from '../text.ts';

export const addLinksCommand: AddCommands = (registry) => {
  registry
    .add('links', 'the connections between the machines, as last measured')
    .action((_flags, command: Command) => registry.act(command, showLinks));
};

async function showLinks(context: CommandContext): Promise<void> {
  const answer = await context.api.call('links');
  if (context.json) return context.io.out(`${JSON.stringify(answer)}\n`);
  if (answer.links.length === 0) {
    return context.io.out(
      'Nothing is measured yet: it begins some seconds after a second machine is there.\n"covey doctor" measures at once.\n',
    );
  }
  context.io.out(linksTable(context, answer.links));
}

/** A line for each direction, then what went wrong in full. */
export function linksTable({ style, width, io }: CommandContext, links: readonly PairCheck[]): string {
  const table = renderTable<PairCheck>(
    [
      { header: 'FROM', value: (link) => link.fromName, shrinkTo: 8 },
      { header: 'TO', value: (link) => link.toName, shrinkTo: 8 },
      {
        header: 'PATH',
        value: (link) => link.path ?? 'none',
        paint: (text, link) =>
          (link.path === null ? style.bad : link.path === 'relay' ? style.warn : style.good)(text),
      },
      {
        header: 'ROUND TRIP',
        value: (link) => (link.rttMs === null ? '' : duration(link.rttMs)),
        align: 'right',
      },
      {
        header: 'BANDWIDTH',
        value: (link) => (link.bytesPerS === null ? '' : `${bytes(link.bytesPerS)}/s`),
        align: 'right',
      },
      {
        header: 'MEASURED',
        value: (link) => {
          const ageMs = Math.max(0, io.now() - link.measuredAt);
          return ageMs < 2_000 ? 'now' : `${duration(ageMs)} ago`;
        },
        align: 'right',
      },
    ],
    links,
    width,
  );
  const notes = links.flatMap((link) => {
    const pair = `${printable(link.fromName)} to ${printable(link.toName)}`;
    if (link.error) return [`${pair}: ${printable(link.error.message)}`];
    if (link.path !== 'relay' && link.path !== 'reverse') return [];
    const failed = link.attempts.filter(({ problem }) => problem !== null).slice(0, 3);
    return failed.length === 0 ? [] : [`${pair}, not directly: ${failed.map(attemptText).join('; ')}`];
  });
  return notes.length === 0 ? table : `${table}\n${notes.flatMap((note) => wrap(note, width)).join('\n')}\n`;
}

function attemptText({ address, problem }: AddressAttempt): string {
  const host = address.host.includes(':') ? `[${address.host}]` : address.host;
  return `${printable(host)}:${address.port} ${printable(problem ?? '')}`;
}
