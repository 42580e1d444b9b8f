/** A line without axes, beside a figure that says what it is. Drawn plainly: hundreds of them cost little. */
export function Sparkline(props: {
  readonly values: readonly (number | null)[];
  readonly max?: number;
  readonly width?: number;
  readonly height?: number;
}) {
  const { values, width = 96, height = 24 } = props;
  const known = values.filter((value) => value !== null);
  const top = props.max ?? Math.max(1e-9, ...known);
  const step = values.length > 1 ? width / (values.length - 1) : width;
  let path = '';
  let pen: 'M' | 'L' = 'M';
  values.forEach((value, index) => {
    if (value === null) {
      pen = 'M';
      return;
    }
    const y = height - 1 - Math.min(1, value / top) * (height - 2);
    path += `${pen}${(index * step).toFixed(1)} ${y.toFixed(1)}`;
    pen = 'L';
  });
  return (
    <svg className="sparkline" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden>
      <path
        d={path}
        fill="none"
        stroke="var(--covey-series-1)"
        strokeWidth={1.5}
        vectorEffect="non-scaling-stroke"
      />
    </svg>
  );
}
