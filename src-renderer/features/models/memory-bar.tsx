import { formatBytes } from '../../format/format.ts';
import { fill, type MachineMemory } from './placement-view.ts';
import classes from './memory-bar.module.css';

/** What a load needs on a machine of what it may have there. Too much is red and goes over the mark. */
export function MemoryBar({ memory, label }: { readonly memory: MachineMemory; readonly label: string }) {
  const { neededBytes, availableBytes } = memory;
  const { fits } = fill(memory);
  const scale = Math.max(neededBytes, availableBytes, 1);
  const sentence = fits
    ? `Needs ${formatBytes(neededBytes)} of ${formatBytes(availableBytes)} free`
    : `Needs ${formatBytes(neededBytes)}, only ${formatBytes(availableBytes)} free`;
  return (
    <div>
      <div
        className={classes['track']}
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={scale}
        aria-valuenow={neededBytes}
        aria-valuetext={sentence}
      >
        <div
          className={classes['needed']}
          data-too-much={!fits || undefined}
          style={{ width: `${(neededBytes / scale) * 100}%` }}
        />
        {!fits && <div className={classes['mark']} style={{ left: `${(availableBytes / scale) * 100}%` }} />}
      </div>
      <div className={classes['text']} data-too-much={!fits || undefined}>
        {sentence}
      </div>
    </div>
  );
}
