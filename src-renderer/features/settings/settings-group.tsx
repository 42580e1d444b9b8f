import { ActionIcon, Button, Group, Text, Tooltip } from '@mantine/core';
import { IconRestore } from '@tabler/icons-react';
import { useState, type ReactNode } from 'react';
import type { LendMeans } from '#shared/api/self.ts';
import type { Device } from '#shared/domain/node.ts';
import { defaultSettings, type Settings } from '#shared/settings.ts';
import { Section } from '../../components/page.tsx';
import { pathProblem } from '../../format/file-path.ts';
import { formatBytes, formatRate } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { Control, hasOneControl, isImmediate } from './controls.tsx';
import { changedPaths, problemsOf, valueAt, type Drafts } from './draft.ts';
import type { Field, FieldGroup } from './fields.ts';
import { useSave } from './use-save.ts';

export interface SettingsGroupProps {
  readonly group: FieldGroup;
  readonly settings: Settings;
  readonly gpus: readonly Device[] | null;
  /** Rules that this machine cannot keep to. */
  readonly unavailable: LendMeans['unavailable'];
  /** Asked before a switch takes effect; false: it does not. */
  readonly allow?: (field: Field, value: unknown) => Promise<boolean>;
  /** Under the title: what is so now. */
  readonly head?: ReactNode;
  readonly children?: ReactNode;
}

/** Settings that belong together. Switches take effect at once; what is typed is checked while one types. */
export function SettingsGroup(props: SettingsGroupProps) {
  const { group, settings, allow } = props;
  const [drafts, setDrafts] = useState<Drafts>({});
  const save = useSave();
  const changed = changedPaths(settings, drafts);
  const problems =
    changed.length === 0
      ? {}
      : { ...problemsOf(settings, drafts, shown(group)), ...pathProblems(group, drafts) };
  const titles = new Map(group.fields.map((field) => [field.path, field.label]));

  const put = async (field: Field, value: unknown): Promise<void> => {
    if (!isImmediate(field)) {
      setDrafts({ ...drafts, [field.path]: value });
      return;
    }
    if (allow !== undefined && !(await allow(field, value))) return;
    save.mutate({ before: settings, drafts: { [field.path]: value }, what: `“${field.label}”` });
  };
  const saveAll = (): void => {
    const what = changed.length === 1 ? `“${titles.get(changed[0] ?? '') ?? ''}”` : group.title;
    save.mutate({ before: settings, drafts, what }, { onSuccess: () => setDrafts({}) });
  };
  return (
    <Section title={group.title} lead={group.lead} flush>
      {props.head}
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (changed.length > 0 && Object.keys(problems).length === 0) saveAll();
        }}
      >
        {group.fields.map((field) => (
          <SettingRow
            key={field.path}
            field={field}
            value={field.path in drafts ? drafts[field.path] : valueAt(settings, field.path)}
            error={problems[field.path]}
            saving={save.isPending}
            gpus={props.gpus}
            unavailable={props.unavailable.find(({ rule }) => rule === field.rule)?.reason}
            onChange={(value) => void put(field, value)}
          />
        ))}
        {changed.length === 0 ? null : (
          <Group className="setting-save" justify="flex-end" gap="sm">
            <Text size="sm" c="dimmed" role="status">
              Not saved yet
            </Text>
            <Button size="xs" variant="default" onClick={() => setDrafts({})}>
              Discard
            </Button>
            <Button
              size="xs"
              type="submit"
              loading={save.isPending}
              disabled={Object.keys(problems).length > 0}
            >
              Save
            </Button>
          </Group>
        )}
      </form>
      {props.children}
    </Section>
  );
}

function SettingRow(props: {
  readonly field: Field;
  readonly value: unknown;
  readonly error: string | undefined;
  readonly saving: boolean;
  readonly gpus: readonly Device[] | null;
  /** Why this machine cannot keep to it. */
  readonly unavailable: string | undefined;
  readonly onChange: (value: unknown) => void;
}) {
  const { field, value } = props;
  const id = `setting-${field.path.replaceAll('.', '-')}`;
  const usual = valueAt(defaultSettings, field.path);
  const isUsual = JSON.stringify(value) === JSON.stringify(usual);
  return (
    <div className="setting">
      <div className="setting-words">
        {hasOneControl(field) ? (
          <label htmlFor={id} className="setting-label">
            {field.label}
          </label>
        ) : (
          <span id={`${id}-label`} className="setting-label">
            {field.label}
          </span>
        )}
        <Text size="sm" c="dimmed" id={`${id}-help`}>
          {field.help}
          {props.unavailable === undefined ? null : (
            <span className="setting-unavailable"> {unavailableWords(plainText(props.unavailable))}</span>
          )}
        </Text>
      </div>
      <div className="setting-control">
        {isUsual || isImmediate(field) || !hasOneControl(field) ? null : (
          <Tooltip label="Back to the default">
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label={`Back to the default: ${field.label}`}
              onClick={() => props.onChange(usual)}
            >
              <IconRestore size={16} />
            </ActionIcon>
          </Tooltip>
        )}
        <Control
          field={field}
          id={id}
          value={value}
          error={props.error}
          disabled={props.saving}
          gpus={props.gpus}
          onChange={props.onChange}
        />
      </div>
    </div>
  );
}

/** What no file can be called, beyond what the settings themselves say. */
function pathProblems(group: FieldGroup, drafts: Drafts): Readonly<Record<string, string>> {
  const entries = group.fields.flatMap(({ path, kind }): [string, string][] => {
    const typed = drafts[path];
    const problem = kind.type === 'path' && typeof typed === 'string' ? pathProblem(typed, null) : null;
    return problem === null ? [] : [[path, problem]];
  });
  return Object.fromEntries(entries);
}

const unavailable = 'Not available on this system';
/** Some sensors say no more than that. */
function unavailableWords(reason: string): string {
  return reason.toLowerCase() === unavailable.toLowerCase() ? `${unavailable}.` : `${unavailable}: ${reason}`;
}

/** A bound, as the field shows its values. */
function shown(group: FieldGroup): (path: string, value: number) => string {
  return (path, value) => {
    const kind = group.fields.find((field) => field.path === path)?.kind;
    if (kind?.type === 'bytes') return kind.unit === 'GiB' ? formatBytes(value) : formatRate(value);
    if (kind?.type === 'number') return `${value} ${value === 1 ? kind.unit.replace(/s$/, '') : kind.unit}`;
    return String(value);
  };
}
