import { Collapse, Select, SimpleGrid, Stack, TextInput, UnstyledButton, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconChevronDown, IconChevronRight } from '@tabler/icons-react';
import type { Preview } from '#shared/api/dashboard.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { NumberField } from '../../components/number-field.tsx';
import { formatCount } from '../../format/format.ts';
import type { LibraryEntry } from './library.ts';
import { ranges, type LoadForm } from './load-form.ts';
import classes from './load-options.module.css';

/** What few loads need: the name for apps, the context, how many at once, and who leads. */
export function LoadOptions({
  form,
  entry,
  preview,
  leaders,
  onChange,
  onLeader,
}: {
  readonly form: LoadForm;
  readonly entry: LibraryEntry;
  readonly preview: Preview | null;
  readonly leaders: readonly { readonly id: NodeId; readonly name: string }[];
  readonly onChange: (form: LoadForm) => void;
  readonly onLeader: (leader: NodeId | null) => void;
}) {
  const [isOpen, { toggle }] = useDisclosure(false);
  const trained = entry.info?.contextLength ?? 0;
  const shape =
    preview?.contextPerRequest && preview.parallel
      ? `${formatCount(preview.contextPerRequest)} tokens of context, ${preview.parallel} at once`
      : '';
  return (
    <section>
      <UnstyledButton
        onClick={toggle}
        aria-expanded={isOpen}
        aria-controls="load-options"
        className={classes['toggle'] ?? ''}
      >
        <Text size="sm" fw={600} component="span" className={classes['title'] ?? ''}>
          {isOpen ? <IconChevronDown size={16} aria-hidden /> : <IconChevronRight size={16} aria-hidden />}
          Options
        </Text>
        {shape !== '' && (
          <Text size="sm" c="dimmed" component="span">
            {shape}
          </Text>
        )}
      </UnstyledButton>
      <Collapse expanded={isOpen} id="load-options">
        <SimpleGrid cols={{ base: 1, sm: 2 }} mt="sm">
          <NumberField
            label="Context for each request"
            description={
              trained > 0
                ? `In tokens. The model was trained for ${formatCount(trained)}.`
                : 'In tokens: question and answer together.'
            }
            placeholder={preview?.contextPerRequest ? String(preview.contextPerRequest) : 'as usual'}
            value={form.contextPerRequest}
            range={{ ...ranges.contextPerRequest, ...(trained > 0 ? { max: trained } : {}) }}
            step={256}
            onChange={(value) => onChange({ ...form, contextPerRequest: value })}
          />
          <NumberField
            label="Requests at once"
            description="Each one has its context in memory, used or not."
            placeholder={preview?.parallel ? String(preview.parallel) : 'as usual'}
            value={form.parallel}
            range={ranges.parallel}
            onChange={(value) => onChange({ ...form, parallel: value })}
          />
          <TextInput
            id="load-name"
            label="Name for apps"
            description="What they ask for as the model."
            placeholder={entry.name}
            maxLength={256}
            value={form.name}
            onChange={(event) => onChange({ ...form, name: event.currentTarget.value })}
          />
          <Stack gap={0}>
            <Select
              label="Leads"
              description="Runs the engine that answers; it needs the file."
              placeholder="chosen by memory"
              clearable
              clearButtonProps={{ 'aria-label': 'Let the leader be chosen by memory' }}
              data={leaders.map((leader) => ({ value: leader.id, label: leader.name }))}
              value={form.leader}
              onChange={(value) => onLeader(value)}
            />
          </Stack>
        </SimpleGrid>
      </Collapse>
    </section>
  );
}
