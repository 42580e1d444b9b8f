import { ActionIcon, Button, Chip, Group, Text, TextInput } from '@mantine/core';
import { IconPlus, IconX } from '@tabler/icons-react';
import type { LendRules } from '#shared/domain/lend.ts';

type Range = NonNullable<LendRules['schedule']>[number];

/** Monday first; the numbers are the schema's. */
const days = [
  { day: 1, short: 'Mo', name: 'Monday' },
  { day: 2, short: 'Tu', name: 'Tuesday' },
  { day: 3, short: 'We', name: 'Wednesday' },
  { day: 4, short: 'Th', name: 'Thursday' },
  { day: 5, short: 'Fr', name: 'Friday' },
  { day: 6, short: 'Sa', name: 'Saturday' },
  { day: 0, short: 'Su', name: 'Sunday' },
] as const;
const first: Range = { days: [0, 1, 2, 3, 4, 5, 6], from: '20:00', to: '08:00' };
const mostRanges = 32;

/** Hours of the week. None is "always", which is what no rule means. */
export function ScheduleEditor(props: {
  readonly id: string;
  readonly value: LendRules['schedule'];
  readonly error: string | undefined;
  readonly disabled: boolean;
  readonly onChange: (value: LendRules['schedule']) => void;
}) {
  const { id, value, error, disabled, onChange } = props;
  const ranges = value ?? [];
  const set = (next: readonly Range[]): void => onChange(next.length === 0 ? null : [...next]);
  const change = (index: number, part: Partial<Range>): void =>
    set(ranges.map((range, place) => (place === index ? { ...range, ...part } : range)));
  return (
    <div role="group" aria-labelledby={`${id}-label`} aria-describedby={`${id}-help`} className="schedule">
      {ranges.length === 0 ? (
        <Text size="sm" c="dimmed">
          Always
        </Text>
      ) : null}
      {ranges.map((range, index) => (
        <div key={index} className="schedule-range" role="group" aria-label={`Hours ${index + 1}`}>
          <Group gap={4}>
            {days.map(({ day, short, name }) => (
              <Chip
                key={day}
                size="xs"
                checked={range.days.includes(day)}
                disabled={disabled}
                onChange={(checked) =>
                  change(index, {
                    days: checked
                      ? [...range.days, day].sort((a, b) => a - b)
                      : range.days.filter((other) => other !== day),
                  })
                }
              >
                <span aria-hidden>{short}</span>
                <span className="visually-hidden">{name}</span>
              </Chip>
            ))}
          </Group>
          <Group gap={6} wrap="nowrap">
            <TextInput
              type="time"
              size="xs"
              aria-label="From"
              value={range.from}
              disabled={disabled}
              onChange={(event) => change(index, { from: event.currentTarget.value })}
            />
            <Text size="sm">to</Text>
            <TextInput
              type="time"
              size="xs"
              aria-label="To"
              value={range.to}
              disabled={disabled}
              onChange={(event) => change(index, { to: event.currentTarget.value })}
            />
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label="Remove these hours"
              disabled={disabled}
              onClick={() => set(ranges.filter((_, place) => place !== index))}
            >
              <IconX size={16} />
            </ActionIcon>
          </Group>
        </div>
      ))}
      {error === undefined ? null : (
        <Text size="xs" className="setting-error" role="alert">
          {error}
        </Text>
      )}
      {ranges.length >= mostRanges ? null : (
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconPlus size={14} aria-hidden />}
          disabled={disabled}
          onClick={() => set([...ranges, ranges.at(-1) ?? first])}
        >
          Add hours
        </Button>
      )}
    </div>
  );
}
