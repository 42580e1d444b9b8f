import { everyCommand, type CommandNode, type OptionNode } from './command-tree.ts';

/** Text for roff: backslashes, leading dots and quotes mean themselves, hyphens stay hyphens. */
function roff(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/^([.'])/gm, '\\&$1');
}

const exitCodeLines = [
  ['0', 'done'],
  ['1', 'failed or refused; the reason is on standard error'],
  ['2', 'wrong usage; nothing was asked of anyone'],
  ['3', 'no controller answers there'],
  ['130', 'interrupted by Ctrl-C'],
] as const;

/** The manual page covey(1), made from the commands themselves. */
export function manualPage(tree: CommandNode, version: string): string {
  const lines = [
    `.TH COVEY 1 "" "covey ${roff(version)}" "Covey"`,
    '.SH NAME',
    `covey \\- ${roff(uncapital(tree.description.replace(/\.$/, '')))}`,
    '.SH SYNOPSIS',
    '.B covey',
    '.RI [ options ] " command " [ arguments ]',
    '.SH DESCRIPTION',
    roff(
      'Commands are clients of the HTTP API of the node that runs on this machine, or of the one that --api names. ' +
        '"covey controller" and "covey worker" run a node.',
    ),
    '.SH OPTIONS',
    ...tree.options.flatMap(optionLines),
    '.SH COMMANDS',
  ];
  for (const node of everyCommand(tree)) {
    if (node === tree) continue;
    const usage = [...node.path.slice(1), ...node.operands].join(' ');
    const also = node.aliases.length === 0 ? '' : ` Also: ${node.aliases.join(', ')}.`;
    lines.push('.TP', `.B ${roff(usage)}`, roff(`${capital(node.description)}.${also}`));
    // Of roles the words are known, and "--help" explains them.
    const plain = node.options.filter(({ description }) => description === '').map(({ flags }) => flags);
    if (plain.length > 0) lines.push(roff(`Options: ${plain.join(', ')}.`));
    const described = node.options.filter(({ description }) => description !== '');
    if (described.length > 0) {
      lines.push('.RS', ...described.flatMap(optionLines), '.RE');
    }
  }
  lines.push(
    '.SH EXIT STATUS',
    ...exitCodeLines.flatMap(([code, meaning]) => ['.TP', `.B ${code}`, roff(meaning)]),
    '.SH ENVIRONMENT',
    ...['.TP', '.B COVEY_API', roff('HOST:PORT of the API')],
    ...['.TP', '.B COVEY_DATA', roff("data directory of this machine's node")],
    ...['.TP', '.B NO_COLOR', 'no colour'],
  );
  return `${lines.join('\n')}\n`;
}

function optionLines({ flags, description, choices }: OptionNode): string[] {
  const values = choices.length === 0 ? '' : ` (${choices.join(', ')})`;
  return ['.TP', `.B ${roff(flags)}`, roff(`${description}${values}`)];
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

function uncapital(text: string): string {
  return text.slice(0, 1).toLowerCase() + text.slice(1);
}
