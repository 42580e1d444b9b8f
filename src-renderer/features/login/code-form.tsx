import { Button, TextInput } from '@mantine/core';
import { useState, type FormEvent } from 'react';
import { plainText } from '../../format/plain-text.ts';
import { readCode } from './read-code.ts';

/** Takes a one-time code, or a whole link with one. What was wrong stands at the field, and what was typed stays. */
export function CodeForm(props: {
  readonly busy: boolean;
  /** What the server said about the last one. */
  readonly error: string | null;
  readonly onCode: (code: string) => void;
}) {
  const [text, setText] = useState('');
  /** What `problem` or the server's word is about; it goes as soon as something else is typed. */
  const [sent, setSent] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const code = readCode(text);
    setSent(text);
    setProblem(code === null ? 'A code has 16 letters and digits, in four groups.' : null);
    if (code !== null) props.onCode(code);
  };
  // Of a link that did not work nothing was typed.
  const error = sent === null || sent === text ? (problem ?? props.error) : null;
  return (
    <form onSubmit={submit} autoComplete="off" noValidate>
      <TextInput
        name="code"
        label="Code, or the whole link"
        placeholder="XXXX-XXXX-XXXX-XXXX"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        error={error === null || props.busy ? undefined : plainText(error)}
        errorProps={{ role: 'alert' }}
        maxLength={256}
        spellCheck={false}
        autoCapitalize="characters"
        classNames={{ input: 'mono' }}
        data-autofocus
      />
      <Button type="submit" mt="md" fullWidth loading={props.busy} disabled={text.trim() === ''}>
        Sign in
      </Button>
    </form>
  );
}
