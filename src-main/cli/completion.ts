import { everyCommand, type CommandNode } from './command-tree.ts';

export const shells = ['bash', 'zsh', 'fish', 'powershell'] as const;
export type Shell = (typeof shells)[number];

/**
 * The script that completes words, options and closed lists of values. It asks nobody: names of machines and jobs
 * are not completed.
 */
export function completionScript(shell: Shell, tree: CommandNode): string {
  switch (shell) {
    case 'bash':
      return bash(tree);
    case 'zsh':
      return zsh(tree);
    case 'fish':
      return fish(tree);
    case 'powershell':
      return powershell(tree);
  }
}

/** `covey jobs list` -> what may follow, one line for a case statement's pattern. */
interface Case {
  readonly key: string;
  readonly words: readonly string[];
}

/** By the words so far; aliases are cases of their own. */
function casesOf(tree: CommandNode): Case[] {
  const globals = tree.options.map(({ name }) => name);
  const cases: Case[] = [];
  const visit = (node: CommandNode, keys: readonly string[]): void => {
    const words = [
      ...node.children.flatMap((child) => [child.path.at(-1) ?? '', ...child.aliases]),
      ...node.choices,
      ...new Set([...node.options.map(({ name }) => name), ...globals, '--help']),
    ];
    for (const key of keys) cases.push({ key, words });
    for (const child of node.children) {
      const names = [child.path.at(-1) ?? '', ...child.aliases];
      visit(
        child,
        keys.flatMap((key) => names.map((name) => `${key} ${name}`)),
      );
    }
  };
  visit(tree, [tree.path[0] ?? 'covey']);
  return cases;
}

/** `--type` -> its values; only options that mean the same everywhere or are the only ones of their name. */
function valuesOf(tree: CommandNode): Map<string, readonly string[]> {
  const values = new Map<string, readonly string[]>();
  for (const node of everyCommand(tree)) {
    for (const { name, choices } of node.options) {
      if (choices.length > 0) values.set(name, [...new Set([...(values.get(name) ?? []), ...choices])]);
    }
  }
  return values;
}

function valueOptions(tree: CommandNode): string[] {
  const names = [...everyCommand(tree)].flatMap(({ options }) =>
    options.filter(({ takesValue }) => takesValue).map(({ name }) => name),
  );
  return [...new Set(names)].sort();
}

function bash(tree: CommandNode): string {
  const cases = casesOf(tree).map(({ key, words }) => `    "${key}") words="${words.join(' ')}" ;;`);
  const values = [...valuesOf(tree)].map(([name, choices]) => `    ${name}) words="${choices.join(' ')}" ;;`);
  return `# covey completion for bash: eval "$(covey completion bash)"
_covey() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}"
  local key="covey" words="" word skip=""
  local -i at
  case "$previous" in
${values.join('\n')}
    ${valueOptions(tree).join('|')}) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  if [[ -n "$words" ]]; then COMPREPLY=($(compgen -W "$words" -- "$current")); return; fi
  for ((at = 1; at < COMP_CWORD; at++)); do
    word="\${COMP_WORDS[at]}"
    if [[ -n "$skip" ]]; then skip=""; continue; fi
    case "$word" in
      ${valueOptions(tree).join('|')}) skip=1 ;;
      -*) ;;
      *) case "$key $word" in
${casesOf(tree)
  .slice(1)
  .map(({ key }) => `           "${key}") key="${key}" ;;`)
  .join('\n')}
         esac ;;
    esac
  done
  case "$key" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ \${#COMPREPLY[@]} -gt 0 || "$current" == -* ]] || COMPREPLY=($(compgen -f -- "$current"))
}
complete -o filenames -F _covey covey
`;
}

/** zsh runs the bash function by its own compatibility layer. */
function zsh(tree: CommandNode): string {
  return `#compdef covey
# covey completion for zsh: eval "$(covey completion zsh)"
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
${bash(tree).split('\n').slice(1).join('\n')}`;
}

function fish(tree: CommandNode): string {
  const lines = ['# covey completion for fish: covey completion fish | source', 'complete -c covey -f'];
  const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const visit = (node: CommandNode): void => {
    const words = node.path.slice(1);
    const condition =
      words.length === 0
        ? '__fish_use_subcommand'
        : words
            .map((word, depth) => {
              const at = depth === 0 ? [word, ...(tree.children.find(named(word))?.aliases ?? [])] : [word];
              return `__fish_seen_subcommand_from ${at.join(' ')}`;
            })
            .join('; and ');
    const childNames = node.children.map((child) => child.path.at(-1) ?? '');
    const open =
      words.length === 0 || childNames.length === 0
        ? condition
        : `${condition}; and not __fish_seen_subcommand_from ${childNames.join(' ')}`;
    for (const child of node.children) {
      for (const name of [child.path.at(-1) ?? '', ...child.aliases]) {
        lines.push(`complete -c covey -n ${quoted(open)} -a ${name} -d ${quoted(child.description)}`);
      }
    }
    for (const choice of node.choices) lines.push(`complete -c covey -n ${quoted(open)} -a ${choice}`);
    for (const option of node.options) {
      const where = words.length === 0 ? '' : ` -n ${quoted(condition)}`;
      const value =
        option.choices.length > 0
          ? ` -x -a ${quoted(option.choices.join(' '))}`
          : option.takesValue
            ? ' -r'
            : '';
      const long = option.name.replace(/^--/, '');
      lines.push(`complete -c covey${where} -l ${long}${value} -d ${quoted(option.description)}`);
    }
    for (const child of node.children) visit(child);
  };
  visit(tree);
  return `${lines.join('\n')}\n`;
}

function named(word: string): (node: CommandNode) => boolean {
  return (node) => node.path.at(-1) === word;
}

function powershell(tree: CommandNode): string {
  const list = (words: readonly string[]): string => words.map((word) => `'${word}'`).join(', ');
  const cases = casesOf(tree).map(({ key, words }) => `    '${key}' = @(${list(words)})`);
  const values = [...valuesOf(tree)].map(([name, choices]) => `    '${name}' = @(${list(choices)})`);
  return `# covey completion for PowerShell: covey completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName covey -ScriptBlock {
  param($wordToComplete, $commandAst, $cursorPosition)
  $next = @{
${cases.join('\n')}
  }
  $values = @{
${values.join('\n')}
  }
  $key = 'covey'
  $previous = ''
  foreach ($element in $commandAst.CommandElements | Select-Object -Skip 1) {
    $word = $element.ToString()
    if ($element.Extent.EndOffset -ge $cursorPosition -and $word -eq $wordToComplete) { break }
    if ($next.ContainsKey("$key $word")) { $key = "$key $word" }
    $previous = $word
  }
  $words = if ($values.ContainsKey($previous)) { $values[$previous] } else { $next[$key] }
  $words | Where-Object { $_ -like "$wordToComplete*" } |
    ForEach-Object { [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_) }
}
`;
}
