/**
 * Variables in arguments, environment and paths of programs: `{index}`, `{input.model.bin}`. `{{` is a brace; a
 * closing one stands for itself outside a variable. Nothing else may follow an opening brace, so that a typing
 * error is found when a job is submitted, and not in the output of its thousandth partition.
 */
export type TemplatePart =
  { readonly type: 'text'; readonly text: string } | { readonly type: 'variable'; readonly name: string };

const variablePattern = /^\{([a-z]+(?:\.[^{}]+)?)\}/;

/** @returns the parts in order, or the sentence that says what is wrong */
export function parseTemplate(
  text: string,
): { readonly ok: true; readonly parts: readonly TemplatePart[] } | { readonly ok: false; problem: string } {
  const parts: TemplatePart[] = [];
  let plain = '';
  let at = 0;
  while (at < text.length) {
    const next = text.indexOf('{', at);
    if (next === -1) {
      plain += text.slice(at);
      break;
    }
    plain += text.slice(at, next);
    if (text[next + 1] === '{') {
      plain += '{';
      at = next + 2;
      continue;
    }
    const match = variablePattern.exec(text.slice(next, next + 2_048));
    if (!match?.[1]) {
      const shown = text.slice(next, next + 16);
      return {
        ok: false,
        problem: `"${shown}" is not a variable such as {index}: write "{{" for a brace`,
      };
    }
    if (plain !== '') parts.push({ type: 'text', text: plain });
    plain = '';
    parts.push({ type: 'variable', name: match[1] });
    at = next + match[0].length;
  }
  if (plain !== '') parts.push({ type: 'text', text: plain });
  return { ok: true, parts };
}

/**
 * @param valueOf undefined: there is no such variable
 * @throws RangeError for text that `parseTemplate` refuses or a variable that does not exist; a job that was
 *   checked (`checkJobSpec`) has neither
 */
export function expandTemplate(text: string, valueOf: (name: string) => string | undefined): string {
  const parsed = parseTemplate(text);
  if (!parsed.ok) throw new RangeError(parsed.problem);
  return parsed.parts
    .map((part) => {
      if (part.type === 'text') return part.text;
      const value = valueOf(part.name);
      if (value === undefined) throw new RangeError(`there is no variable {${part.name}}`);
      return value;
    })
    .join('');
}
