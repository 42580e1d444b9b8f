import { TextInput, type TextInputProps } from '@mantine/core';
import { useState } from 'react';
import { numberProblem, readNumber, type NumberRange } from '../format/read-number.ts';

interface NumberFieldProps extends Omit<TextInputProps, 'value' | 'onChange' | 'onBlur' | 'onKeyDown'> {
  /** null: empty. NaN: what stands there is no number. */
  readonly value: number | null;
  /** The number as read, in or out of range, and what was typed. */
  readonly onChange: (value: number | null, text: string) => void;
  /** What stands behind the number while nobody types. */
  readonly suffix?: string;
  /** What one of its unit is of the value's: 1024 for a value in bytes that is shown in KiB. Default: 1. */
  readonly scale?: number;
  /** Shown as an error beyond it, and bounds what the arrow keys do. Without it: whoever uses it checks. */
  readonly range?: NumberRange;
  readonly step?: number;
  readonly onLeave?: () => void;
}

/**
 * A field for a number that never changes what was typed into another number: what is wrong with it stands below
 * until a person has changed it.
 */
export function NumberField(props: NumberFieldProps) {
  const { value, onChange, suffix = '', scale = 1, range, step = 1, onLeave, error, ...rest } = props;
  const [typed, setTyped] = useState<string | null>(null);
  const read = (text: string): number | null => {
    const number = readNumber(text, suffix);
    return number === null || scale === 1 ? number : Math.round(number * scale);
  };
  const figure =
    value === null || Number.isNaN(value) ? '' : String(Math.round((value / scale) * 1_000) / 1_000);
  // What was typed is shown while it is what counts: undone elsewhere, it is gone here too.
  const own = typed !== null && Object.is(read(typed), value) ? typed : null;
  const problem = range === undefined ? null : numberProblem(value, range);
  const change = (text: string): void => {
    setTyped(text);
    onChange(read(text), text);
  };
  return (
    <TextInput
      {...rest}
      inputMode="decimal"
      autoComplete="off"
      spellCheck={false}
      value={own ?? (figure === '' ? '' : figure + suffix)}
      error={error ?? problem}
      onFocus={() => {
        if (own === null) setTyped(figure);
      }}
      onBlur={() => {
        if (value !== null && !Number.isNaN(value)) setTyped(null);
        onLeave?.();
      }}
      onKeyDown={(event) => {
        if (range === undefined || (event.key !== 'ArrowUp' && event.key !== 'ArrowDown')) return;
        event.preventDefault();
        const from = value === null || Number.isNaN(value) ? range.min : value;
        const to = from + (event.key === 'ArrowUp' ? step : -step);
        change(String(Math.round(Math.min(range.max, Math.max(range.min, to)) * 100) / 100));
      }}
      onChange={(event) => change(event.currentTarget.value)}
    />
  );
}
