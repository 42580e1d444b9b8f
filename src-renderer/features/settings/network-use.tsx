import { NumberInput, Switch, Text, TextInput } from '@mantine/core';
import type { LendRules } from '#shared/domain/lend.ts';

type NetworkUse = NonNullable<LendRules['network']>;

/** Where programs of members may use the network. What is not a port yet is left for the schema to refuse. */
export function NetworkUseEditor(props: {
  readonly id: string;
  readonly value: LendRules['network'];
  readonly error: string | undefined;
  readonly disabled: boolean;
  readonly onChange: (value: LendRules['network']) => void;
}) {
  const { id, value, error, disabled, onChange } = props;
  const change = (changes: Partial<NetworkUse>): void => {
    if (value) onChange({ ...value, ...changes });
  };
  const port = (label: string, end: 'from' | 'to', ports: NetworkUse['ports']) => (
    <NumberInput
      className="setting-number"
      size="sm"
      label={label}
      value={ports[end]}
      onChange={(next) => change({ ports: { ...ports, [end]: Number(next) } })}
      allowDecimal={false}
      clampBehavior="none"
      thousandSeparator=""
      hideControls
      disabled={disabled}
    />
  );
  return (
    <div role="group" aria-labelledby={`${id}-label`} aria-describedby={`${id}-help`} className="schedule">
      <Switch
        size="sm"
        label="Allow it"
        checked={value !== null}
        onChange={(event) =>
          onChange(
            event.currentTarget.checked ? { interface: '', ports: { from: 20_000, to: 20_099 } } : null,
          )
        }
        disabled={disabled}
      />
      {value === null ? null : (
        <>
          <TextInput
            className="setting-number"
            classNames={{ input: 'mono' }}
            size="sm"
            label="Network interface"
            placeholder="eth0"
            value={value.interface}
            onChange={(event) => change({ interface: event.currentTarget.value })}
            spellCheck={false}
            disabled={disabled}
          />
          {port('First port', 'from', value.ports)}
          {port('Last port', 'to', value.ports)}
        </>
      )}
      {error === undefined ? null : (
        <Text size="xs" className="setting-error" role="alert">
          {error}
        </Text>
      )}
    </div>
  );
}
