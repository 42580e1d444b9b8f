import type { CommandNode, OptionNode } from './command-tree.ts';
import type { NameKind, Offered } from './completion-names.ts';

/** What may stand in one place of a command line. */
export interface Slot {
  readonly choices?: readonly string[];
  readonly names?: readonly NameKind[];
  readonly files?: true;
  /** Several, with commas between them. */
  readonly list?: true;
  /** After each name. */
  readonly suffix?: string;
}

/** What a shell offers for the word that is being typed. */
export interface Completion {
  readonly words: readonly Offered[];
  readonly files: boolean;
  /** More of the same word follows. */
  readonly open: boolean;
}

/** What was read from the words before the one that is typed. */
export interface CommandLine {
  readonly path: readonly CommandNode[];
  /** How many operands stand there already. */
  readonly operands: number;
  /** Its value comes next. */
  readonly option: OptionNode | null;
  /** After `--`: the words of a program. */
  readonly program: boolean;
  /** Values of options of all commands, by their name. */
  readonly globals: ReadonlyMap<string, string>;
}

const nothing: Slot = {};
const node: Slot = { names: ['nodes'] };
const shares: Slot = { names: ['nodes'], list: true, suffix: '=' };
const data: Slot = { names: ['artifacts'], files: true };
const files: Slot = { files: true };
const deployment: Slot = { names: ['deployments'] };

/** By the operand's name, or `command operand` where a name means several things. */
const operandSlots: Readonly<Record<string, Slot>> = {
  node,
  shares,
  job: { names: ['jobs'] },
  artifact: { names: ['artifacts'] },
  input: data,
  second: data,
  spec: files,
  command: files,
  path: files,
  target: files,
  directory: files,
  file: files,
  page: { choices: ['dashboard', 'machine'] },
  'load model': { names: ['models'], files: true },
  'run inference model': deployment,
  'unload id': deployment,
  'retry id': deployment,
  'deployments info id': deployment,
  'distribution id': { names: ['jobs', 'deployments'] },
  'distribution show id': { names: ['jobs', 'deployments'] },
  'keys revoke id': { names: ['keys'] },
  'deny id': { names: ['pending'] },
  'unblock id': { names: ['blocked'] },
};

const optionSlots: Readonly<Record<string, Slot>> = {
  '--node': node,
  '--leader': node,
  '--nodes': { names: ['nodes'], list: true },
  '--split': shares,
  '--shares': shares,
  '--job': { names: ['jobs'] },
  '--before': { names: ['jobs'] },
  '--dataset': data,
  '--input': data,
  '--script': files,
  '--data': files,
};

export function readLine(tree: CommandNode, before: readonly string[]): CommandLine {
  const path = [tree];
  const globals = new Map<string, string>();
  let operands = 0;
  let option: OptionNode | null = null;
  let program = false;
  for (const word of before) {
    const here = path.at(-1) ?? tree;
    if (option !== null) {
      if (tree.options.includes(option)) globals.set(option.name, word);
      option = null;
    } else if (program) {
      operands += 1;
    } else if (word === '--') {
      program = true;
    } else if (word.startsWith('-') && word !== '-') {
      const [name = '', value] = word.split(/=(.*)/s, 2);
      const known = optionsOf(path).find((one) => one.name === name);
      if (known === undefined || !known.takesValue) continue;
      if (value === undefined) option = known;
      else if (tree.options.includes(known)) globals.set(name, value);
    } else {
      const child = operands === 0 ? childOf(here, word) : undefined;
      if (child) path.push(child);
      else operands += 1;
    }
  }
  return { path, operands, option, program, globals };
}

/** Names that have to be asked for. */
export function namesAt(line: CommandLine, current: string): readonly NameKind[] {
  const { slot, prefix } = slotAt(line, current);
  return beginsOption(line, current) && prefix === '' ? [] : (slot.names ?? []);
}

/** What may stand for an operand that is named as in `operandSlots`, where another part of the program knows it. */
export type ClosedLists = Readonly<Record<string, () => readonly string[]>>;

/** @param names what there is of the kinds of `namesAt` */
export function complete(
  line: CommandLine,
  current: string,
  names: readonly Offered[],
  lists: ClosedLists,
): Completion {
  const { slot, prefix } = slotAt(line, current);
  const here = line.path.at(-1);
  const plain = prefix === '' && line.option === null && !line.program;
  const start = slot.list ? current.slice(0, current.lastIndexOf(',') + 1) || prefix : prefix;
  const closed = plain ? (lists[`${wordsOf(here)} ${operandOf(line) ?? ''}`]?.() ?? []) : [];
  const offered = [
    ...[...(slot.choices ?? []), ...closed].map((word) => ({ word, about: '' })),
    ...names.map(({ word, about }) => ({ word: word + (slot.suffix ?? ''), about })),
  ].map(({ word, about }) => ({ word: start + word, about }));
  if (plain && line.operands === 0) offered.unshift(...childrenOf(here));
  // Options are many: they are offered to those who begin one, or where nothing else can stand.
  const noOperand = offered.length === 0 && !slot.files && slot.names === undefined;
  if (plain && (beginsOption(line, current) || (current === '' && noOperand)))
    offered.push(...optionWords(line));
  const seen = new Set<string>();
  const words = offered.filter(({ word }) => {
    if (!word.startsWith(current) || seen.has(word)) return false;
    seen.add(word);
    return true;
  });
  const open = slot.list === true || slot.suffix !== undefined;
  return { words, files: slot.files === true && !(plain && beginsOption(line, current)), open };
}

function beginsOption({ option, program }: CommandLine, current: string): boolean {
  return option === null && !program && current.startsWith('-');
}

/** `prefix`: what stands before the value in the same word, as `--type=`. */
function slotAt(line: CommandLine, current: string): { slot: Slot; prefix: string } {
  if (line.option !== null) return { slot: slotOfOption(line.option), prefix: '' };
  if (line.program) return { slot: files, prefix: '' };
  const [name] = /^--[^=]+=/.exec(current) ?? [];
  if (name !== undefined) {
    const option = optionsOf(line.path).find((one) => one.name === name.slice(0, -1));
    return { slot: option ? slotOfOption(option) : nothing, prefix: name };
  }
  return { slot: slotOfOperand(line), prefix: '' };
}

function slotOfOption({ name, choices }: OptionNode): Slot {
  return choices.length > 0 ? { choices } : (optionSlots[name] ?? nothing);
}

function slotOfOperand(line: CommandLine): Slot {
  const here = line.path.at(-1);
  const name = operandOf(line);
  if (name === null) return nothing;
  if (line.operands === 0 && here && here.choices.length > 0) return { choices: here.choices };
  return operandSlots[`${wordsOf(here)} ${name}`] ?? operandSlots[name] ?? nothing;
}

/** The name of the operand that comes next. */
function operandOf({ path, operands }: CommandLine): string | null {
  const all = path.at(-1)?.operands ?? [];
  const last = all.at(-1);
  const operand = all[operands] ?? (last?.includes('...') ? last : undefined);
  return operand?.replaceAll(/[<>[\].]/g, '') ?? null;
}

function wordsOf(here: CommandNode | undefined): string {
  return here?.path.slice(1).join(' ') ?? '';
}

function optionsOf(path: readonly CommandNode[]): OptionNode[] {
  return path.flatMap(({ options }) => options);
}

function optionWords({ path }: CommandLine): Offered[] {
  const own = [...path].reverse().flatMap(({ options }) => options);
  const help = { word: '--help', about: 'how it is used' };
  return [...own.map(({ name, description }) => ({ word: name, about: description })), help];
}

function childOf(here: CommandNode, word: string): CommandNode | undefined {
  return here.children.find(({ path, aliases }) => path.at(-1) === word || aliases.includes(word));
}

function childrenOf(here: CommandNode | undefined): Offered[] {
  return (here?.children ?? []).flatMap(({ path, aliases, description }) =>
    [path.at(-1) ?? '', ...aliases].map((word) => ({ word, about: description })),
  );
}
