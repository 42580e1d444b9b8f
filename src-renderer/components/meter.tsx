/** A share of something that is there: memory, a disk. Screen readers hear the text. */
export function Meter(props: {
  readonly label: string;
  readonly used: number;
  readonly total: number;
  /** "3.2 of 16 GiB used" */
  readonly text: string;
  readonly tone?: 'normal' | 'warn' | 'bad';
  /** Of the used part, what is ours; shown in the accent colour. */
  readonly ours?: number;
}) {
  const { used, total, ours } = props;
  const percent = (value: number): string =>
    `${total <= 0 ? 0 : Math.min(100, Math.max(0, (value / total) * 100))}%`;
  return (
    <div
      className="meter"
      role="meter"
      aria-label={props.label}
      aria-valuemin={0}
      aria-valuemax={total}
      aria-valuenow={Math.min(used, total)}
      aria-valuetext={props.text}
      data-tone={props.tone ?? 'normal'}
    >
      <div className={ours === undefined ? 'meter-used' : 'meter-other'} style={{ width: percent(used) }} />
      {ours === undefined ? null : <div className="meter-used" style={{ width: percent(ours) }} />}
    </div>
  );
}
