import { Area, AreaChart, CartesianGrid, ResponsiveContainer, Tooltip, XAxis, YAxis } from 'recharts';
import { formatDuration, formatTime } from '../format/format.ts';

export interface Series<Sample> {
  readonly id: string;
  readonly label: string;
  /** null: not known then; the line has a gap. */
  readonly value: (sample: Sample) => number | null;
}

export interface TimeChartProps<Sample extends { readonly at: number }> {
  /** What it shows, for who does not see it. */
  readonly label: string;
  /** Oldest first. */
  readonly samples: readonly Sample[];
  readonly series: readonly Series<Sample>[];
  readonly format: (value: number) => string;
  /** Of the value axis; default: from 0 to the highest. */
  readonly max?: number;
  readonly height?: number;
  /** Lies on the same moment in time whatever was measured; default: ten minutes. */
  readonly windowMs?: number;
}

const colours = [1, 2, 3, 4, 5, 6].map((index) => `var(--covey-series-${index})`);

/** Of a label's font, on average and a little more. */
const characterPx = 6.6;

/** How figures went over the last minutes, newest at the right. Says so when there is nothing to show yet. */
export function TimeChart<Sample extends { readonly at: number }>(props: TimeChartProps<Sample>) {
  const { samples, series, format, height = 140, windowMs = 10 * 60_000 } = props;
  const last = samples.at(-1);
  const known = samples.some((sample) => series.some(({ value }) => value(sample) !== null));
  if (last === undefined || !known) {
    return (
      <div className="chart-empty" style={{ height }}>
        No figures yet: they come while this page is open.
      </div>
    );
  }
  const first = samples[0] ?? last;
  const from = Math.max(last.at - windowMs, Math.min(first.at, last.at - 60_000));
  const rows = samples.map((sample) => ({
    at: sample.at,
    ...Object.fromEntries(series.map(({ id, value }) => [id, value(sample)])),
  }));
  const now = series.map(({ label, value }) => {
    const figure = value(last);
    return `${label}: ${figure === null ? 'unknown' : format(figure)}`;
  });
  const highest = Math.max(0, ...samples.flatMap((sample) => series.map(({ value }) => value(sample) ?? 0)));
  const top = props.max ?? (highest > 0 ? roundUp(highest) : 1);
  const ticks = [0, top / 2, top];
  // The library's own measure is taken before the layout is final where it is narrow, and cuts labels off.
  const labelPx = Math.max(...ticks.map((tick) => format(tick).length)) * characterPx + 10;
  return (
    <figure className="chart" aria-label={`${props.label}. Now: ${now.join(', ')}.`} role="img">
      <ResponsiveContainer width="100%" height={height} initialDimension={{ width: 320, height }}>
        <AreaChart data={rows} margin={{ top: 8, right: 4, bottom: 6, left: 0 }} accessibilityLayer={false}>
          <CartesianGrid vertical={false} stroke="var(--covey-line)" />
          <XAxis dataKey="at" type="number" domain={[from, last.at]} allowDataOverflow hide />
          <YAxis
            width={labelPx}
            domain={[0, top]}
            ticks={ticks}
            interval={0}
            // Words of a label would be broken into lines.
            tickFormatter={(value: number) => format(value).replaceAll(' ', '\u00a0')}
            tick={{ fill: 'var(--mantine-color-dimmed)', fontSize: 11 }}
            axisLine={false}
            tickLine={false}
          />
          <Tooltip
            isAnimationActive={false}
            labelFormatter={(at) => formatTime(Number(at))}
            formatter={(value) => format(Number(value))}
            contentStyle={{
              background: 'var(--mantine-color-body)',
              border: '1px solid var(--covey-line)',
              borderRadius: 6,
              fontSize: 12,
            }}
          />
          {series.map(({ id, label }, index) => (
            <Area
              key={id}
              dataKey={id}
              name={label}
              type="monotone"
              stroke={colours[index % colours.length] as string}
              fill={colours[index % colours.length] as string}
              fillOpacity={series.length === 1 ? 0.14 : 0.05}
              strokeWidth={1.75}
              dot={false}
              isAnimationActive={false}
            />
          ))}
        </AreaChart>
      </ResponsiveContainer>
      <div className="chart-times" style={{ paddingLeft: labelPx }} aria-hidden>
        <span>{formatDuration(last.at - from)} ago</span>
        <span>now</span>
      </div>
    </figure>
  );
}

/** To a number whose half is round too, so that the axis has plain figures: 2, 4, 6, 8, 10 of a power of ten. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([2, 4, 6, 8].find((step) => value <= step * power) ?? 10) * power;
}
