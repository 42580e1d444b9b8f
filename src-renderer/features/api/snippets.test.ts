import { expect, it } from 'vitest';
import { snippetsFor } from './snippets.ts';

const awkward = `it's "a" $HOME \\model`;
const open = snippetsFor({ baseUrl: 'http://localhost:7878/v1', model: awkward, needsKey: false });
const closed = snippetsFor({ baseUrl: 'https://hall:7880/v1', model: 'm', needsKey: true });

const codeOf = (snippets: typeof open, id: string): string =>
  snippets.find((snippet) => snippet.id === id)?.code ?? '';

it('a shell gets the body as one word, whatever the name holds', () => {
  const [, word = ''] = /-d ('.*')$/s.exec(codeOf(open, 'curl')) ?? [];
  // POSIX: nothing but a single quote means anything between single quotes.
  const parts = word.split(`'\\''`);
  expect(parts).toHaveLength(2);
  const text = parts.map((part) => part.replaceAll("'", '')).join("'");
  expect(JSON.parse(text)).toMatchObject({ model: awkward, messages: [{ role: 'user' }] });
});

it('names of models are strings of the language', () => {
  for (const id of ['python', 'node', 'continue', 'langchain']) {
    expect(codeOf(open, id)).toContain(`"it's \\"a\\" $HOME \\\\model`);
  }
  expect(codeOf(open, 'powershell')).toContain("it''s");
});

it('keys are asked for where they are needed, and no secret is ever in a snippet', () => {
  expect(codeOf(closed, 'curl')).toContain('Bearer $COVEY_KEY');
  expect(codeOf(open, 'curl')).not.toContain('Authorization');
  for (const { code } of closed) expect(code).toMatch(/YOUR_KEY|COVEY_KEY/);
  for (const { code } of open) expect(code).not.toMatch(/YOUR_KEY|COVEY_KEY/);
});
