import { Button, Select, TextInput } from '@mantine/core';
import { IconSearch } from '@tabler/icons-react';
import { plainText } from '../../format/plain-text.ts';
import { useDeployments, useNodes, useRead } from '../../queries/queries.ts';
import { choiceOf, eventSubjects, kindsOf } from './event-kinds.ts';
import { isFiltered, noFilter, type EventFilter, type EventLevel } from './event-window.ts';
import classes from './events.module.css';

const levelChoices: readonly { value: string; label: string; levels: readonly EventLevel[] }[] = [
  { value: 'all', label: 'All levels', levels: [] },
  { value: 'warn', label: 'Warnings and errors', levels: ['warn', 'error'] },
  { value: 'error', label: 'Errors only', levels: ['error'] },
];

export function Filters(props: {
  readonly filter: EventFilter;
  /** What only events have: a model, a job and a kind. */
  readonly forEvents: boolean;
  readonly onChange: (filter: EventFilter) => void;
}) {
  const { filter, forEvents, onChange } = props;
  const nodes = useNodes().data?.nodes ?? [];
  const deployments = useDeployments().data?.deployments ?? [];
  const level = levelChoices.find(({ levels }) => levels.join() === filter.levels.join()) ?? levelChoices[0];
  return (
    <div className={classes['filters']} role="search" aria-label="Filter">
      <TextInput
        aria-label="Text in the message"
        placeholder="Text in the message"
        leftSection={<IconSearch size={16} aria-hidden />}
        maxLength={256}
        value={filter.text}
        onChange={(event) => onChange({ ...filter, text: event.currentTarget.value })}
      />
      <Select
        aria-label="Machine"
        placeholder="All machines"
        clearable
        clearButtonProps={{ 'aria-label': 'All machines' }}
        searchable={nodes.length > 10}
        data={options(
          nodes.map(({ id, name }) => [id, name]),
          filter.nodeId,
        )}
        value={filter.nodeId}
        onChange={(nodeId) => onChange({ ...filter, nodeId })}
      />
      {forEvents && (
        <Select
          aria-label="Model"
          placeholder="All models"
          clearable
          clearButtonProps={{ 'aria-label': 'All models' }}
          data={options(
            deployments.map(({ id, model }) => [id, model]),
            filter.deploymentId,
          )}
          value={filter.deploymentId}
          onChange={(deploymentId) => onChange({ ...filter, deploymentId })}
        />
      )}
      {forEvents && filter.jobId !== null && (
        <JobChoice id={filter.jobId} onClear={() => onChange({ ...filter, jobId: null })} />
      )}
      {forEvents && (
        <Select
          aria-label="Kind"
          placeholder="All kinds"
          clearable
          clearButtonProps={{ 'aria-label': 'All kinds' }}
          searchable
          nothingFoundMessage="No kind is called so"
          maxDropdownHeight={360}
          data={kindOptions(filter.kinds)}
          value={choiceOf(filter.kinds)}
          onChange={(choice) => onChange({ ...filter, kinds: kindsOf(choice) })}
        />
      )}
      <Select
        aria-label="Level"
        allowDeselect={false}
        data={levelChoices.map(({ value, label }) => ({ value, label }))}
        value={level?.value ?? 'all'}
        onChange={(value) =>
          onChange({ ...filter, levels: levelChoices.find((choice) => choice.value === value)?.levels ?? [] })
        }
      />
      {isFiltered(filter) && (
        <Button variant="subtle" className={classes['clear'] ?? ''} onClick={() => onChange(noFilter)}>
          Clear
        </Button>
      )}
    </div>
  );
}

/** The job that a link is about. There are too many to choose from in a list: its own page leads here. */
function JobChoice({ id, onClear }: { readonly id: string; readonly onClear: () => void }) {
  const { data } = useRead('job', { params: { job: id } });
  return (
    <Select
      aria-label="Job"
      clearable
      clearButtonProps={{ 'aria-label': 'All jobs' }}
      data={options(data === undefined ? [] : [[id, data.name]], id)}
      value={id}
      onChange={onClear}
    />
  );
}

/** Whole subjects first, then each kind under its own. */
function kindOptions(chosen: readonly string[]) {
  const groups = [
    {
      group: 'Everything about',
      items: eventSubjects.map(({ id, label }) => ({ value: `subject:${id}`, label })),
    },
    ...eventSubjects.map(({ label, kinds }) => ({
      group: label,
      items: kinds.map(({ kind, label: name }) => ({ value: kind, label: name })),
    })),
  ];
  const choice = choiceOf(chosen);
  const isKnown = choice === null || groups.some(({ items }) => items.some(({ value }) => value === choice));
  return isKnown ? groups : [...groups, { group: 'Other', items: [{ value: choice, label: choice }] }];
}

/** What is chosen stays in the list when it is gone from the covey: its events are there still. */
function options(known: readonly (readonly [string, string])[], chosen: string | null) {
  const all = known.map(([value, name]) => ({ value, label: plainText(name) }));
  const isMissing = chosen !== null && !known.some(([value]) => value === chosen);
  return isMissing ? [...all, { value: chosen, label: chosen.slice(0, 12) }] : all;
}
