import type { Argument, Option } from 'commander';
import { kernelTypes } from '#shared/domain/kernel-call.ts';
import { displayWidth, pad, wrap } from './text.ts';

/** `bash, zsh or fish`. */
function listed(values: readonly string[]): string {
  return values.length < 2 ? values.join('') : `${values.slice(0, -1).join(', ')} or ${values.at(-1) ?? ''}`;
}

/** As people say it; nothing for what is not given, empty or off anyhow. */
function defaultText(value: unknown, described: string | undefined): string | null {
  if (described !== undefined) return described;
  return typeof value === 'string' || typeof value === 'number' ? String(value) : null;
}

function extended(description: string, choices: readonly string[], value: string | null): string {
  // A default that is no value is told in the description.
  const [, text = description, told = value] = /^(.*) \(default: (.*)\)$/.exec(description) ?? [];
  const parts = [listed(choices), told === null ? '' : `default: ${told}`].filter(Boolean);
  return parts.length === 0 ? text : `${text} (${parts.join('; ')})`.trim();
}

export function optionDescription(option: Option): string {
  const value = defaultText(option.defaultValue, option.defaultValueDescription);
  return extended(option.description, option.argChoices ?? [], value);
}

export function argumentDescription(argument: Argument): string {
  const value = defaultText(argument.defaultValue, argument.defaultValueDescription);
  return extended(argument.description, argument.argChoices ?? [], value);
}

/** Commander's sentence about a word that is none of a list, in ours. */
export function plainUsageError(text: string): string {
  return text.replace(
    /^error: command-argument value '(.*)' is invalid for argument '(.*)'\. Allowed choices are (.*)\.$/m,
    "error: '$1' is no $2. There are: $3.",
  );
}

/** A paragraph below the help of a command: of whole sentences, broken here and nowhere else. */
export function helpParagraph(text: string): string {
  return `\n${wrap(text, helpColumns).join('\n')}`;
}

/** Rows of words in columns, of which the last may go on below itself. */
export function helpRows(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_word, column) =>
    Math.max(...rows.map((row) => displayWidth(row[column] ?? ''))),
  );
  return rows
    .map((row) => {
      const head = row
        .slice(0, -1)
        .map((word, column) => `${pad(word, widths[column] ?? 0)}  `)
        .join('');
      const indent = 2 + displayWidth(head);
      const lines = wrap(row.at(-1) ?? '', helpColumns - indent);
      return `  ${head}${lines.join(`\n${' '.repeat(indent)}`)}`;
    })
    .join('\n');
}

const helpColumns = 80;

/** Which kernels there are, and of what: below the help of `run kernel`. */
export function kernelHelp(): string {
  const rows = Object.entries(kernelTypes).map(
    ([kernel, types]) => `  ${kernel.padEnd(13)}${types.join(' ')}`,
  );
  return `\nKernels and the types that each takes:\n${rows.join('\n')}\n\ndot_product takes two files; histogram needs --bins, --low and --high.`;
}

/** Below the help of what runs a program. @param more variables of this kind of work */
export function programHelp(more: readonly string[], last = ''): string {
  const variables = ['index', 'attempt', 'cpus', ...more].map((name) => `{${name}}`).join(' ');
  const text =
    `The program and its arguments come after "--". In arguments and values of --env stand ${variables}, ` +
    '{input} {input.NAME} for paths of inputs, {output} for the folder that outputs are taken from; ' +
    `"{{" is a brace. ${last}`;
  return helpParagraph(text.trim());
}

/**
 * Lines of at most `width` columns, broken between words, each under the beginning of its line. What moves the cursor
 * is left as it is.
 */
export function wrapLines(text: string, width: number): string {
  return text
    .split('\n')
    .map((line) => {
      if (displayWidth(line) <= width || /[\r\u001b]/.test(line)) return line;
      const indent = /^ *(?:- )?/.exec(line)?.[0].length ?? 0;
      const lines = wrap(line.slice(indent), Math.max(20, width - indent));
      return line.slice(0, indent) + lines.join(`\n${' '.repeat(indent)}`);
    })
    .join('\n');
}
