import { useRef, useState, type KeyboardEvent, type PointerEvent } from 'react';
import { Text } from '@mantine/core';
import { NumberField } from '../../components/number-field.tsx';
import { numberProblem } from '../../format/read-number.ts';
import {
  boundaries,
  boundaryAfterKey,
  boundaryLimits,
  moveBoundary,
  percentages,
  setLayers,
  type Layers,
} from './layer-split.ts';
import classes from './layer-strip.module.css';

export interface StripMachine {
  readonly id: string;
  readonly name: string;
  /** The fewest layers it may have. */
  readonly min: number;
  readonly leads: boolean;
  /** It cannot hold what it is given. */
  readonly isTooSmall: boolean;
}

/** The series colours of the charts. */
const colourCount = 6;

/** Machines keep their colour in the strip and beside their field. */
export function machineColour(index: number): string {
  return `var(--covey-series-${(index % colourCount) + 1})`;
}

/** What is shared out, for those who read and those who hear it. */
export interface StripWords {
  readonly group: string;
  readonly field: (machine: string) => string;
  readonly amount: (count: number) => string;
  /** After the number in a field. */
  readonly suffix: (total: number, percent: number) => string;
}
const layerWords: StripWords = {
  group: 'Layers by machine',
  field: (machine) => `Layers on ${machine}`,
  amount: (count) => `${count} ${count === 1 ? 'layer' : 'layers'}`,
  suffix: (total, percent) => ` of ${total} · ${percent} %`,
};

/**
 * The layers of a model over machines. Boundaries are dragged, or moved with the keys of a slider; each machine has
 * a field too. Every change is whole: the layers always add up. With other words it shares out something else.
 */
export function LayerStrip({
  machines,
  layers,
  onChange,
  words = layerWords,
}: {
  readonly machines: readonly StripMachine[];
  readonly layers: Layers;
  readonly onChange: (layers: number[]) => void;
  readonly words?: StripWords;
}) {
  const track = useRef<HTMLDivElement>(null);
  const dragged = useRef<number | null>(null);
  const total = layers.reduce((sum, count) => sum + count, 0);
  const mins = machines.map((machine) => machine.min);
  const shares = percentages(layers);

  const moveTo = (index: number, position: number): void => {
    const after = moveBoundary(layers, mins, index, position);
    if (after.some((count, place) => count !== layers[place])) onChange(after);
  };
  const onPointerDown = (event: PointerEvent<HTMLDivElement>, index: number): void => {
    if (event.button !== 0) return;
    dragged.current = index;
    event.currentTarget.setPointerCapture(event.pointerId);
    event.currentTarget.focus();
    event.preventDefault();
  };
  const onPointerMove = (event: PointerEvent<HTMLDivElement>): void => {
    const box = track.current?.getBoundingClientRect();
    if (dragged.current === null || !box || box.width === 0) return;
    moveTo(dragged.current, ((event.clientX - box.left) / box.width) * total);
  };
  const onPointerEnd = (): void => {
    dragged.current = null;
  };
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>, index: number): void => {
    const position = boundaryAfterKey(event.key, layers, mins, index);
    if (position === null) return;
    event.preventDefault();
    moveTo(index, position);
  };

  return (
    <div>
      <div className={classes['track']} ref={track} role="group" aria-label={words.group}>
        {machines.map((machine, index) => (
          <div
            key={machine.id}
            className={classes['segment']}
            data-too-small={machine.isTooSmall || undefined}
            style={{
              flexGrow: layers[index] ?? 0,
              borderBottomColor: machineColour(index),
              display: layers[index] === 0 ? 'none' : undefined,
            }}
          >
            <span className={classes['name']}>{machine.name}</span>
            <span className={classes['count']}>{layers[index]}</span>
          </div>
        ))}
        {boundaries(layers).map((position, index) => {
          const [left, right] = [machines[index], machines[index + 1]];
          const limits = boundaryLimits(layers, mins, index);
          return (
            <div
              key={`${left?.id} ${right?.id}`}
              className={classes['handle']}
              style={{ left: `${total === 0 ? 0 : (position / total) * 100}%` }}
              role="slider"
              tabIndex={0}
              aria-label={`Boundary between ${left?.name} and ${right?.name}`}
              aria-orientation="horizontal"
              aria-valuemin={limits.from}
              aria-valuemax={limits.to}
              aria-valuenow={position}
              aria-valuetext={`${left?.name} ${words.amount(layers[index] ?? 0)}, ${right?.name} ${words.amount(layers[index + 1] ?? 0)}`}
              onPointerDown={(event) => onPointerDown(event, index)}
              onPointerMove={onPointerMove}
              onPointerUp={onPointerEnd}
              onPointerCancel={onPointerEnd}
              onKeyDown={(event) => onKeyDown(event, index)}
            />
          );
        })}
      </div>
      <div className={classes['fields']}>
        {machines.map((machine, index) => (
          <LayerField
            key={machine.id}
            machine={machine}
            colour={machineColour(index)}
            layers={layers[index] ?? 0}
            label={words.field(machine.name)}
            max={total - mins.reduce((sum, least) => sum + least, 0) + machine.min}
            suffix={words.suffix(total, shares[index] ?? 0)}
            disabled={machines.length < 2}
            onChange={(count) => onChange(setLayers(layers, mins, index, count))}
          />
        ))}
      </div>
    </div>
  );
}

/** What cannot be is said while it stands there; when one leaves the field it has what the strip has. */
function LayerField(props: {
  readonly machine: StripMachine;
  readonly colour: string;
  readonly label: string;
  readonly layers: number;
  readonly max: number;
  readonly suffix: string;
  readonly disabled: boolean;
  readonly onChange: (count: number) => void;
}) {
  const { machine, layers, max } = props;
  const [wrong, setWrong] = useState<{ readonly value: number | null } | null>(null);
  const range = { min: machine.min, max, whole: true };
  return (
    <NumberField
      label={
        <span className={classes['label']}>
          <span className={classes['dot']} style={{ background: props.colour }} />
          <span className={classes['labelName']}>{machine.name}</span>
          {machine.leads && (
            <Text span size="xs" c="dimmed">
              leads
            </Text>
          )}
        </span>
      }
      aria-label={props.label}
      suffix={props.suffix}
      value={wrong === null ? layers : wrong.value}
      range={range}
      disabled={props.disabled}
      error={wrong !== null && wrong.value === null ? `From ${range.min} to ${range.max}.` : undefined}
      onChange={(value) => {
        const isRight = value !== null && numberProblem(value, range) === null;
        setWrong(isRight ? null : { value });
        if (isRight && value !== layers) props.onChange(value);
      }}
      onLeave={() => setWrong(null)}
    />
  );
}
