export const shells = ['bash', 'zsh', 'fish', 'powershell'] as const;
export type Shell = (typeof shells)[number];

/**
 * The script that makes a shell complete `covey`. All of them ask the command itself, which knows its own words and
 * asks the covey for names: `covey complete --current=WORD -- WORDS BEFORE IT` answers with a line that says how
 * (`words` or `files`: files fit too; `open`: no blank comes after it), then a line for each word: the word, a tab,
 * what it is.
 */
export function completionScript(shell: Shell): string {
  return { bash, zsh, fish, powershell }[shell];
}

// Words as bash has them end at "=" and ":" too; they are put together, and what bash does not replace is cut off.
const bash = `# covey completion for bash: eval "$(covey completion bash)"
_covey() {
  local raw="\${COMP_WORDS[COMP_CWORD]}" piece="" last="" current="" head="" how="" word about
  local -a before=()
  COMPREPLY=()
  for piece in "\${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ $piece == [=:]* || $last == [=:] ]]; then
      current+="$piece"
    else
      [[ -z $last ]] || before+=("$current")
      current="$piece"
    fi
    last="\${piece:- }"
  done
  if [[ $raw == [=:] ]]; then head="$current"; else head="\${current%"$raw"}"; fi
  while IFS=$'\\t' read -r word about; do
    if [[ -z $how ]]; then how="$word"; continue; fi
    word="\${word#"$head"}"
    if [[ $how == words* && $word == *[!A-Za-z0-9_./,:=@%+-]* ]]; then printf -v word %q "$word"; fi
    COMPREPLY+=("$word")
  done < <("\${COMP_WORDS[0]}" complete "--current=$current" -- \${before[@]+"\${before[@]}"} 2>/dev/null)
  if [[ $how == files* ]]; then
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "\${current#"$head"}")
    type compopt &>/dev/null && compopt -o filenames
  fi
  if [[ $how == *open ]]; then type compopt &>/dev/null && compopt -o nospace; fi
  return 0
}
complete -F _covey covey
`;

const zsh = `#compdef covey
# covey completion for zsh: eval "$(covey completion zsh)"
_covey() {
  local -a lines found more
  local how line word
  lines=("\${(@f)$("\${words[1]}" complete "--current=\${words[CURRENT]}" -- "\${(@)words[2,CURRENT-1]}" 2>/dev/null)}")
  how="\${lines[1]}"
  for line in "\${(@)lines[2,-1]}"; do
    word="\${line%%$'\\t'*}"
    found+=("\${word//:/\\\\:}:\${line#*$'\\t'}")
  done
  [[ $how == *open ]] && more=(-S '')
  (( $#found )) && _describe covey found $more
  if [[ $how == files* ]]; then _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _covey covey
`;

const fish = `# covey completion for fish: covey completion fish | source
function __covey_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l command $words[1]
    set -e words[1]
    set -l lines ($command complete "--current=$current" -- $words 2>/dev/null)
    test (count $lines) -gt 0; or return
    if string match -q 'files*' -- $lines[1]
        __fish_complete_path "$current"
    end
    set -e lines[1]
    printf '%s\\n' $lines
end
complete -c covey -f -a '(__covey_complete)'
`;

// Where nothing is offered, PowerShell offers files by itself.
const powershell = `# covey completion for PowerShell: covey completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName covey -ScriptBlock {
  param($wordToComplete, $commandAst, $cursorPosition)
  $words = @($commandAst.CommandElements |
    Where-Object { $_.Extent.EndOffset -lt $cursorPosition } | ForEach-Object { $_.ToString() })
  $command = if ($words.Count -gt 0) { $words[0] } else { 'covey' }
  $before = @($words | Select-Object -Skip 1)
  $lines = @(& $command complete "--current=$wordToComplete" '--' @before 2>$null)
  $lines | Select-Object -Skip 1 | ForEach-Object {
    $word, $about = $_ -split [char]9, 2
    $text = if ($word -match '[^\\w./:=@%+-]') { "'" + $word.Replace("'", "''") + "'" } else { $word }
    $shown = if ($about) { $about } else { $word }
    [System.Management.Automation.CompletionResult]::new($text, $word, 'ParameterValue', $shown)
  }
}
`;
