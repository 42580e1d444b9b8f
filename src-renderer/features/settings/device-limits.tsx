import { Text } from '@mantine/core';
import type { Device } from '#shared/domain/node.ts';
import { NumberField } from '../../components/number-field.tsx';
import { formatBytes } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';

const GiB = 2 ** 30;

/** A limit for each GPU. Those that are set and not there now are kept, and can be taken away. */
export function DeviceLimits(props: {
  readonly id: string;
  /** Text: what was typed there is no number. */
  readonly value: Readonly<Record<string, number | string>>;
  /** null: nobody knows them yet. */
  readonly gpus: readonly Device[] | null;
  readonly error: string | undefined;
  readonly disabled: boolean;
  readonly onChange: (value: Readonly<Record<string, number | string>>) => void;
}) {
  const { id, value, gpus, error, disabled, onChange } = props;
  const ids = [...new Set([...(gpus ?? []).map((gpu) => gpu.id), ...Object.keys(value)])];
  const change = (device: string, next: number | string | null): void => {
    const others = Object.fromEntries(Object.entries(value).filter(([name]) => name !== device));
    onChange(next === null ? others : { ...others, [device]: next });
  };
  if (ids.length === 0) {
    return (
      <Text size="sm" c="dimmed" id={id}>
        {gpus === null ? 'Its GPUs are known once it is connected.' : 'It has no GPU that Covey can use.'}
      </Text>
    );
  }
  return (
    <div role="group" aria-labelledby={`${id}-label`} aria-describedby={`${id}-help`} className="schedule">
      {ids.map((device) => {
        const gpu = gpus?.find((one) => one.id === device);
        const limit = value[device];
        return (
          <NumberField
            key={device}
            className="setting-number"
            size="sm"
            label={plainText(device)}
            description={
              gpu === undefined ? 'Not there now' : `${plainText(gpu.name)}, ${formatBytes(gpu.totalBytes)}`
            }
            value={limit === undefined ? null : typeof limit === 'string' ? NaN : limit}
            onChange={(number, text) => change(device, Number.isNaN(number) ? text : number)}
            placeholder="No limit"
            suffix=" GiB"
            scale={GiB}
            disabled={disabled}
          />
        );
      })}
      {error === undefined ? null : (
        <Text size="xs" className="setting-error" role="alert">
          {error}
        </Text>
      )}
    </div>
  );
}
