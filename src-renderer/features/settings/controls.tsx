import { SegmentedControl, Switch, TagsInput, TextInput } from '@mantine/core';
import type { LendRules } from '#shared/domain/lend.ts';
import type { Device } from '#shared/domain/node.ts';
import { NumberField } from '../../components/number-field.tsx';
import { DeviceLimits } from './device-limits.tsx';
import type { Field } from './fields.ts';
import { NetworkUseEditor } from './network-use.tsx';
import { ScheduleEditor } from './schedule-editor.tsx';

export interface ControlProps {
  readonly field: Field;
  readonly id: string;
  readonly value: unknown;
  readonly error: string | undefined;
  readonly disabled: boolean;
  readonly onChange: (value: unknown) => void;
  /** GPUs of this machine; null: nobody knows them yet. */
  readonly gpus: readonly Device[] | null;
}

export const unitBytes = { GiB: 2 ** 30, 'MiB/s': 2 ** 20 } as const;

/** The control of one setting. Its label and what it does stand beside it and are named by their ids. */
export function Control(props: ControlProps) {
  const { field, id, value, error, disabled, onChange } = props;
  const { kind } = field;
  const named = { id, 'aria-describedby': `${id}-help`, disabled, size: 'sm' } as const;
  switch (kind.type) {
    case 'switch':
      return (
        <Switch
          {...named}
          checked={value === true}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
      );
    case 'number':
    case 'port':
      return (
        <NumberField
          {...named}
          className="setting-number"
          value={typedNumber(value)}
          onChange={(number, text) => onChange(Number.isNaN(number) ? text : number)}
          placeholder={kind.type === 'number' ? kind.empty : ''}
          suffix={kind.type === 'number' ? ` ${kind.unit}` : ''}
          error={error}
        />
      );
    case 'bytes':
      return (
        <NumberField
          {...named}
          className="setting-number"
          value={typedNumber(value)}
          onChange={(number, text) => onChange(Number.isNaN(number) ? text : number)}
          placeholder={kind.empty}
          suffix={` ${kind.unit}`}
          scale={unitBytes[kind.unit]}
          error={error}
        />
      );
    case 'words':
      return (
        <TagsInput
          {...named}
          className="setting-wide"
          value={Array.isArray(value) ? (value as string[]) : []}
          onChange={(next) => onChange(wordsOf(next))}
          placeholder={Array.isArray(value) && value.length > 0 ? '' : kind.placeholder}
          acceptValueOnBlur
          splitChars={[',', ' ']}
          error={error}
        />
      );
    case 'path':
      return (
        <TextInput
          {...named}
          className="setting-wide"
          classNames={{ input: 'mono' }}
          value={typeof value === 'string' ? value : ''}
          onChange={(event) => onChange(event.currentTarget.value === '' ? null : event.currentTarget.value)}
          placeholder={kind.placeholder}
          spellCheck={false}
          error={error}
        />
      );
    case 'choice':
      return (
        <SegmentedControl
          size="sm"
          disabled={disabled}
          aria-labelledby={`${id}-label`}
          data={kind.options.map((option) => ({ ...option }))}
          value={String(value)}
          onChange={onChange}
        />
      );
    case 'schedule':
      return (
        <ScheduleEditor
          id={id}
          value={value as LendRules['schedule']}
          error={error}
          disabled={disabled}
          onChange={onChange}
        />
      );
    case 'devices':
      return (
        <DeviceLimits
          id={id}
          value={(value ?? {}) as Readonly<Record<string, number | string>>}
          gpus={props.gpus}
          error={error}
          disabled={disabled}
          onChange={onChange}
        />
      );
    case 'network':
      return (
        <NetworkUseEditor
          id={id}
          value={(value ?? null) as LendRules['network']}
          error={error}
          disabled={disabled}
          onChange={onChange}
        />
      );
  }
}

/** Text in place of a number is what somebody typed that is none: no draft may lose it. */
export function typedNumber(value: unknown): number | null {
  if (typeof value === 'number') return value;
  return typeof value === 'string' ? NaN : null;
}

/** A comma that was typed after the last word belongs to no word. */
function wordsOf(entries: readonly string[]): string[] {
  const words = entries.flatMap((entry) => entry.split(',')).map((word) => word.trim());
  return [...new Set(words.filter((word) => word !== ''))];
}

/** Kinds whose label is a real label of one control. The others are groups named by it. */
export function hasOneControl(field: Field): boolean {
  return !['schedule', 'devices', 'network', 'choice'].includes(field.kind.type);
}

/** Kinds that take effect at once; what is typed waits for "Save". */
export function isImmediate(field: Field): boolean {
  return field.kind.type === 'switch' || field.kind.type === 'choice';
}
