import { createContext, use } from 'react';
import { NumberInput, Select, Switch, Textarea, TextInput } from '@mantine/core';
import { plainText } from '../../format/plain-text.ts';
import type { JobDraft, NumberText } from './job-draft.ts';

export interface JobForm {
  readonly draft: JobDraft;
  readonly set: (changes: Partial<JobDraft>) => void;
  /** What to say beside the field of the specification; null: nothing (yet). */
  readonly problem: (field: string) => string | null;
  /** It was left: from now on it says what is wrong with it. */
  readonly leave: (field: string) => void;
}

export const JobFormContext = createContext<JobForm | null>(null);

export function useJobForm(): JobForm {
  const form = use(JobFormContext);
  if (form === null) throw new Error('a field outside of the form');
  return form;
}

/** "must be ...", as a sentence under its field. */
export function problemText(message: string | null): string | null {
  if (message === null) return null;
  const text = plainText(message);
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?}]$/.test(text) ? '' : '.'}`;
}

type KeyOf<T> = { [K in keyof JobDraft]: JobDraft[K] extends T ? K : never }[keyof JobDraft];

interface FieldProps<K> {
  /** Of the draft. */
  readonly of: K;
  /** Path in the specification; by default it has the same name. */
  readonly field?: string;
  readonly label: string;
  readonly description?: string;
  readonly placeholder?: string;
  readonly required?: boolean;
}

/** What every field has of the form. */
export function useField<K extends keyof JobDraft>(of: K, field: string = of) {
  const { draft, set, problem, leave } = useJobForm();
  return {
    value: draft[of],
    change: (value: JobDraft[K]) => set({ [of]: value }),
    bound: { error: problemText(problem(field)), onBlur: () => leave(field) },
  };
}

export function TextField({ of, field, ...rest }: FieldProps<KeyOf<string>> & { readonly mono?: boolean }) {
  const { value, change, bound } = useField(of, field);
  const { mono, ...input } = rest;
  return (
    <TextInput
      {...input}
      {...bound}
      {...(mono === true ? { classNames: { input: 'mono' } } : {})}
      value={value}
      spellCheck={false}
      autoComplete="off"
      onChange={(event) => change(event.currentTarget.value)}
    />
  );
}

export function LongTextField({
  of,
  field,
  mono,
  ...rest
}: FieldProps<KeyOf<string>> & { readonly mono?: boolean }) {
  const { value, change, bound } = useField(of, field);
  return (
    <Textarea
      {...rest}
      {...bound}
      {...(mono === true ? { classNames: { input: 'mono' } } : {})}
      autosize
      minRows={2}
      maxRows={16}
      value={value}
      spellCheck={mono !== true}
      onChange={(event) => change(event.currentTarget.value)}
    />
  );
}

export function NumberField({
  of,
  field,
  decimals,
  ...rest
}: FieldProps<KeyOf<NumberText>> & { readonly decimals?: boolean; readonly suffix?: string }) {
  const { value, change, bound } = useField(of, field);
  return (
    <NumberInput
      {...rest}
      {...bound}
      value={value}
      allowDecimal={decimals === true}
      thousandSeparator=","
      hideControls
      onChange={(next) => {
        const isEmpty = next === '' || next === '-';
        change(isEmpty ? '' : Number(next));
      }}
    />
  );
}

export function ChoiceField({
  of,
  field,
  data,
  clearable,
  ...rest
}: FieldProps<KeyOf<string | null>> & {
  readonly data: readonly { readonly value: string; readonly label: string }[];
  readonly clearable?: boolean;
}) {
  const { value, change, bound } = useField(of, field);
  return (
    <Select
      {...rest}
      {...bound}
      data={[...data]}
      value={value}
      allowDeselect={false}
      clearable={clearable ?? false}
      clearButtonProps={{ 'aria-label': `No choice of ${rest.label}` }}
      onChange={(next) => change(next)}
    />
  );
}

export function SwitchField({ of, field, label, description }: FieldProps<KeyOf<boolean>>) {
  const { value, change, bound } = useField(of, field);
  return (
    <Switch
      label={label}
      description={description}
      error={bound.error}
      checked={value}
      onChange={(event) => change(event.currentTarget.checked)}
    />
  );
}
