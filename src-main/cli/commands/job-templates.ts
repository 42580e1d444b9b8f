import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { appRoot } from '../../nodejs/app-root.ts';
import { UsageError } from '../failure.ts';
import type { CliIo } from '../io.ts';
import { suggest } from '../suggest.ts';
import { renderTable } from '../table.ts';

/** Specifications of gangs, and programs that they run, as they come with Covey (docs/gangs.md). */
export function listTemplates(io: CliIo, json: boolean): void {
  const rows = templateNames().map((name) => ({ name, about: aboutOf(readTemplate(name)) }));
  if (json) return io.out(`${JSON.stringify({ templates: rows })}\n`);
  const columns = [
    { header: 'NAME', value: ({ name }: (typeof rows)[number]) => name },
    { header: 'WHAT IT IS', value: ({ about }: (typeof rows)[number]) => about, shrinkTo: 20 },
  ];
  io.out(renderTable(columns, rows, io.columns));
  io.out('\nTo copy one: covey jobs templates NAME > NAME\n');
}

/** @throws UsageError for a name that none has */
export function printTemplate(io: CliIo, name: string): void {
  const names = templateNames();
  const found = names.find((one) => one === name || one === `${name}.yaml`);
  if (found !== undefined) return io.out(readTemplate(found));
  const near = suggest(
    name,
    names.map((one) => one.replace(/\.yaml$/, '')),
  );
  const hint = near === null ? `There are: ${names.join(', ')}.` : `Did you mean "${near}"?`;
  throw new UsageError(`There is no template ${JSON.stringify(name)}.`, hint);
}

/** In a checkout they lie among the resources, in an installed program beside it. */
function directory(): string {
  const installed = join(appRoot, 'templates');
  return existsSync(installed) ? installed : join(appRoot, 'resources', 'templates');
}

export function templateNames(): string[] {
  return readdirSync(directory()).sort();
}

function readTemplate(name: string): string {
  return readFileSync(join(directory(), name), 'utf8');
}

/** The first words of the comment at its top. */
function aboutOf(text: string): string {
  return /^(?:# |""")([^.,:\n]+)/.exec(text)?.[1] ?? '';
}
