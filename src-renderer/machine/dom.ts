type Child = Node | string | null;

/** An element with properties and children. Text is text: nothing here is ever read as markup. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Partial<HTMLElementTagNameMap[K]> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function section(title: string, ...children: readonly Child[]): HTMLElement {
  const heading = element('h2', { textContent: title });
  return element('section', {}, heading, ...children);
}

export function paragraph(text: string, className = ''): HTMLElement {
  return element('p', { textContent: text, className });
}

export function button(text: string, onclick: () => void, className = ''): HTMLButtonElement {
  return element('button', { type: 'button', textContent: text, onclick, className });
}

export function checkbox(text: string, checked: boolean, onChange: (checked: boolean) => void): HTMLElement {
  const input = element('input', { type: 'checkbox', checked });
  input.addEventListener('change', () => onChange(input.checked));
  return element('label', {}, input, text);
}
