import { Button, Select, TextInput } from '@mantine/core';
import { IconSearch } from '@tabler/icons-react';
import { plainText } from '../../format/plain-text.ts';
import { useDeployments, useNodes } from '../../queries/queries.ts';
import { isFiltered, noFilter, type EventFilter, type EventLevel } from './event-window.ts';
import classes from './events.module.css';

const levelChoices: readonly { value: string; label: string; levels: readonly EventLevel[] }[] = [
  { value: 'all', label: 'All levels', levels: [] },
  { value: 'warn', label: 'Warnings and errors', levels: ['warn', 'error'] },
  { value: 'error', label: 'Errors only', levels: ['error'] },
];

export function Filters(props: {
  readonly filter: EventFilter;
  readonly withDeployments: boolean;
  readonly onChange: (filter: EventFilter) => void;
}) {
  const { filter, withDeployments, onChange } = props;
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
      {withDeployments && (
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
        <Button variant="subtle" onClick={() => onChange(noFilter)}>
          Clear
        </Button>
      )}
    </div>
  );
}

/** What is chosen stays in the list when it is gone from the covey: its events are there still. */
function options(known: readonly (readonly [string, string])[], chosen: string | null) {
  const all = known.map(([value, name]) => ({ value, label: plainText(name) }));
  const isMissing = chosen !== null && !known.some(([value]) => value === chosen);
  return isMissing ? [...all, { value: chosen, label: chosen.slice(0, 12) }] : all;
}
