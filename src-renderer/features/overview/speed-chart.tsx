import { TimeChart, type Series } from '../../charts/time-chart.tsx';
import { Section } from '../../components/page.tsx';
import { formatTokenRate } from '../../format/format.ts';
import { useLive, type LiveSample } from '../../stores/live.ts';

const series: readonly Series<LiveSample>[] = [
  { id: 'tokens', label: 'tokens/s', value: (sample) => sample.tokensPerS },
];

export function SpeedChart({ hasModels }: { readonly hasModels: boolean }) {
  const samples = useLive((state) => state.samples);
  return (
    <Section title="Tokens per second" lead="All models together">
      {hasModels ? (
        <TimeChart
          label="Tokens per second of all models"
          samples={samples}
          series={series}
          format={formatTokenRate}
          height={190}
        />
      ) : (
        <div className="chart-empty speed-empty">As soon as a model answers, its speed shows here.</div>
      )}
    </Section>
  );
}
