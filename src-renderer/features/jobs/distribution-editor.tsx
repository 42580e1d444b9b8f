import { Checkbox, Group, SegmentedControl, Stack, Text } from '@mantine/core';
import { LayerStrip, type StripWords } from '../models/layer-strip.tsx';
import { toggleShare, wholePercent, type HandShares } from './distribution.ts';

export interface ShareMachine {
  readonly id: string;
  readonly name: string;
}

const words: StripWords = {
  group: 'Shares by machine',
  field: (machine) => `Share of ${machine}`,
  amount: (count) => `${count} %`,
  suffix: () => ' %',
};
/** More boundaries than this cannot be told apart; beyond it shares are by speed, or set by the command. */
const mostInStrip = 24;

/** By speed, or by hand: which machines, and how much of the work each. null: by speed. */
export function DistributionEditor(props: {
  readonly machines: readonly ShareMachine[];
  readonly shares: HandShares | null;
  /** What "by hand" begins with. */
  readonly first: () => HandShares;
  readonly disabled?: boolean;
  readonly onChange: (shares: HandShares | null) => void;
}) {
  const { machines, shares, first, onChange, disabled = false } = props;
  const nameOf = (id: string): string =>
    machines.find((machine) => machine.id === id)?.name ?? id.slice(0, 12);
  const byHand = shares !== null;
  const missing = shares === null ? [] : shares.nodes.filter((id) => machines.every((one) => one.id !== id));
  const choices = [...machines, ...missing.map((id) => ({ id, name: nameOf(id) }))];
  return (
    <Stack gap="sm">
      <Group>
        <SegmentedControl
          aria-label="How shares are decided"
          disabled={disabled || (machines.length === 0 && !byHand)}
          value={byHand ? 'manual' : 'auto'}
          data={[
            { value: 'auto', label: 'By speed' },
            { value: 'manual', label: 'By hand' },
          ]}
          onChange={(mode) => onChange(mode === 'auto' ? null : first())}
        />
      </Group>
      {shares === null ? (
        <Text size="sm" c="dimmed">
          Each machine gets as much as it does in the time the others need for theirs. What is measured while
          the job runs counts.
        </Text>
      ) : (
        <>
          <Checkbox.Group label="Machines that take part" value={[...shares.nodes]}>
            <Group gap="md" mt={6}>
              {choices.map(({ id, name }) => (
                <Checkbox
                  key={id}
                  value={id}
                  label={name}
                  disabled={disabled || (shares.nodes.length >= mostInStrip && !shares.nodes.includes(id))}
                  onChange={() => onChange(toggleShare(shares, id))}
                />
              ))}
            </Group>
          </Checkbox.Group>
          <LayerStrip
            words={words}
            machines={shares.nodes.map((id) => ({
              id,
              name: nameOf(id),
              min: shares.nodes.length > wholePercent ? 0 : 1,
              leads: false,
              isTooSmall: false,
            }))}
            layers={shares.percents}
            onChange={(percents) => onChange({ nodes: shares.nodes, percents })}
          />
        </>
      )}
    </Stack>
  );
}
