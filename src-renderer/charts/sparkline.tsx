/**
 * A line without axes on a faint ground, beside a figure that says what it is. Drawn plainly: hundreds of them cost
 * little.
 */
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
  let area = '';
  let start = 0;
  let pen: 'M' | 'L' = 'M';
  values.forEach((value, index) => {
    if (value === null) {
      pen = 'M';
      return;
    }
    const x = index * step;
    const y = height - 1 - Math.min(1, value / top) * (height - 2);
    if (pen === 'M') start = x;
    path += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = 'L';
    if (values[index + 1] == null)
      area += `${path.slice(path.lastIndexOf('M'))}V${height}H${start.toFixed(1)}Z`;
  });
  return (
    <svg className="sparkline" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden>
      <path d={area} fill="var(--covey-series-1)" fillOpacity={0.12} />
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
